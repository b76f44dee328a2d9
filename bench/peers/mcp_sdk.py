"""The official MCP SDK's server, as it recommends for scale: stateless HTTP, JSON answers, its own uvicorn.

The tool gives one text, as Crux does; the SDK's structured output would cost it a second copy of the rows.
"""

import sys

from mcp.server.mcpserver import MCPServer

from bench.facts import make_facts, search

_FACTS = make_facts()

server = MCPServer("bench", log_level="WARNING")


@server.tool(structured_output=False)
def query_facts(query: str, top_k: int = 10) -> str:
    """Find facts with a word in their value."""
    return search(_FACTS, query, top_k)


if __name__ == "__main__":
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]), json_response=True, stateless_http=True)
