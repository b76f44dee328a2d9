"""The servers beside Crux: `python -m bench.peers.NAME PORT [ANSWER_FILE]`, each serving POST /mcp on 127.0.0.1.

The first three answer the bytes of ANSWER_FILE to everything; the last two are MCP servers that search the facts.
"""
