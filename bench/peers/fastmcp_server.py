"""FastMCP: stateless HTTP, JSON answers, its own uvicorn, no banner, no log line per call.

The tool gives one text, as Crux does; structured output would cost it a second copy of the rows.
"""

import sys

from fastmcp import FastMCP

from bench.facts import make_facts, search

_FACTS = make_facts()

server: FastMCP = FastMCP("bench")


@server.tool(output_schema=None)
def query_facts(query: str, top_k: int = 10) -> str:
    """Find facts with a word in their value."""
    return search(_FACTS, query, top_k)


if __name__ == "__main__":
    server.run(
        transport="http",
        host="127.0.0.1",
        port=int(sys.argv[1]),
        json_response=True,
        stateless_http=True,
        show_banner=False,
        log_level="WARNING",
    )
