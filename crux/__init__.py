"""Crux: durable memory, retrieval and policy for AI agents, over MCP and HTTP."""

__version__ = "0.1.0"
