"""A client learns that its tool list has changed: at once, after its stream was cut, and over the bridge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.clients.client import TIMEOUT_S, Client, Exchange
from tests.clients.proxy import Proxy, proxy_of
from tests.clients.sdks import KINDS, Kind
from tests.daemons import Daemon

CUTS = 50
REOPEN_MS = 1
SHAPED = {"CORECRUXD_TOOL_SURFACE": "dynamic"}
# What the intent brings first, beyond the floor.
INGESTING = ["delete_fact", "list_entities", "fact_history"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, server: str) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("daemon"), CRUX_MCP_SERVER=server, **SHAPED) as daemon:
        yield daemon


@pytest.fixture
def proxy(daemon: Daemon) -> Iterator[Proxy]:
    with proxy_of(daemon.mcp) as proxy:
        yield proxy


@pytest.fixture
def http() -> Iterator[httpx.Client]:
    with httpx.Client(trust_env=False, timeout=TIMEOUT_S) as http:
        yield http


def names(client: Client) -> list[str]:
    return [tool["name"] for tool in client.tools()]


def session_of(wire: list[Exchange]) -> str:
    session = wire[-1].session
    assert session is not None
    return session


def declare(http: httpx.Client, url: str, session: str, intent: str) -> None:
    """Another call on a client's session, by somebody else."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    params = {"name": "cuecrux_session", "arguments": {"intent": intent}}
    response = http.post(url, json={**body, "params": params}, headers={"Mcp-Session-Id": session})
    assert "result" in response.json()


def test_a_client_hears_of_every_declared_intent_and_lists_what_it_brings(
    daemon: Daemon, kind: Kind, proxy: Proxy, http: httpx.Client
) -> None:
    wire: list[Exchange] = []
    with kind.connect(proxy.url, None, wire) as client:
        proxy.stream()
        client.call("cuecrux_session", intent="")
        floor = names(client)
        assert "cuecrux_session" in floor
        assert not set(floor) & set(INGESTING)

        client.call("cuecrux_session", intent="document_ingest")
        assert client.heard(1) == 1
        assert names(client)[: len(floor) + len(INGESTING)] == [*floor, *INGESTING]

        declare(http, daemon.mcp, session_of(wire), "nothing_known")
        assert client.heard(2) == 2
        assert names(client) == floor


def test_a_client_hears_on_every_stream_that_follows_one_which_the_daemon_ended(
    daemon: Daemon, kind: Kind, proxy: Proxy, http: httpx.Client
) -> None:
    wire: list[Exchange] = []
    with kind.connect(proxy.url, None, wire, reopen_ms=REOPEN_MS) as client:
        proxy.stream()
        client.tools()
        session = session_of(wire)
        for times in range(1, CUTS + 1):
            # Somebody else takes the session's stream over, until the client takes it back.
            headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session}
            with http.stream("GET", daemon.mcp, headers=headers) as usurped:
                assert usurped.status_code == 200
                proxy.stream()
            declare(http, daemon.mcp, session, "document_ingest")
            assert client.heard(times) == times


def test_a_client_hears_on_every_stream_that_follows_one_which_broke(
    daemon: Daemon, kind: Kind, proxy: Proxy, http: httpx.Client
) -> None:
    heard_on = 0
    while heard_on <= CUTS:
        wire: list[Exchange] = []
        with kind.connect(proxy.url, None, wire, reopen_ms=REOPEN_MS) as client:
            client.tools()
            session = session_of(wire)
            # What makes the SDK give up makes its user connect anew.
            streams = min(kind.most_breaks, CUTS + 1 - heard_on)
            for times in range(1, streams + 1):
                stream = proxy.stream()
                declare(http, daemon.mcp, session, "document_ingest")
                assert client.heard(times) == times
                stream.reset(noticed=times % 2 == 0)
        heard_on += streams


def test_a_client_hears_over_the_bridge_and_once_more_when_the_daemon_is_back(tmp_path: Path) -> None:
    with Daemon(tmp_path, **SHAPED) as daemon, ExitStack() as stack:
        clients = [stack.enter_context(kind.connect_bridge({"CRUX_MCP_URL": daemon.mcp})) for kind in KINDS]
        for client in clients:
            floor = names(client)
            client.call("cuecrux_session", intent="document_ingest")
            assert client.heard(1) == 1
            assert names(client)[: len(floor) + len(INGESTING)] == [*floor, *INGESTING]
            client.call("cuecrux_session", intent="")  # anonymous callers share one intent
        daemon.restart()
        for client in clients:
            assert client.heard(2) == 2
            client.call("cuecrux_session", intent="document_ingest")
            assert client.heard(3) == 3
