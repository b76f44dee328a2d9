"""A daemon that comes back on the same port: hosts keep their connection and session id and notice nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.client import Exchange
from tests.clients.sdks import Kind
from tests.daemons import Daemon


@pytest.mark.parametrize("ended", ["stop", "kill"])
def test_a_session_outlives_the_daemon(kind: Kind, tmp_path: Path, server: str, ended: str) -> None:
    wire: list[Exchange] = []
    with Daemon(tmp_path, CRUX_MCP_SERVER=server) as daemon:
        address = daemon.mcp
        with kind.connect(daemon.mcp, None, wire) as client:
            stored = client.call("store_fact", entity="before", key="k", value="v")
            assert getattr(daemon, ended)() == {"stop": 0, "kill": -9}[ended]
            daemon.restart()
            assert daemon.mcp == address
            (row,) = client.call("query_facts", entity="before")["rows"]
            assert row["fact_id"] == stored["fact_id"]
            client.call("store_fact", entity="after", key="k", value="v")
        methods = [exchange.method for exchange in wire]
        assert methods.count("initialize") == 1
        sessions = {exchange.session for exchange in wire[methods.index("initialize") + 1 :]}
        assert len(sessions) == 1
        assert None not in sessions

        with kind.connect(daemon.mcp, None, []) as client:
            assert client.call("list_entities")["entities"] == ["after", "before"]
