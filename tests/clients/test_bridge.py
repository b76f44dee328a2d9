"""The official Python SDK over the stdio bridge, which it starts as a host does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import mcp
import mcp.client.stdio

from tests.clients.client import TIMEOUT_S
from tests.daemons import Daemon

TOKEN = "alice-token-of-32-characters-or-more"


async def test_an_sdk_stores_and_queries_over_the_bridge(tmp_path: Path) -> None:
    with Daemon(tmp_path, CRUX_AGENT_TOKENS=f"alice:{TOKEN}") as daemon:
        server = mcp.client.stdio.StdioServerParameters(
            command=sys.executable,
            args=["-m", "crux", "mcp-stdio"],
            env={"CRUX_MCP_URL": daemon.mcp, "CRUX_AGENT_TOKEN": TOKEN},
        )
        with (tmp_path / "bridge.log").open("w") as log:
            transport = mcp.client.stdio.stdio_client(server, errlog=log)
            async with mcp.Client(transport, read_timeout_seconds=TIMEOUT_S) as client:
                assert client.server_info is not None
                assert client.server_info.name == "crux"
                assert len((await client.list_tools()).tools) >= 7
                await client.call_tool("store_fact", {"entity": "e", "key": "k", "value": "v", "private": True})
                (item,) = (await client.call_tool("query_facts", {"entity": "e"})).content
        assert isinstance(item, mcp.types.TextContent)
        assert [row["value"] for row in json.loads(item.text)["rows"]] == ["v"]
    assert len((tmp_path / "bridge.log").read_text().splitlines()) == 1
