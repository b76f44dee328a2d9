"""Every test here runs once for each SDK, on each server of the MCP port."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crux.config import ServerKind
from tests.clients.client import Client, Exchange
from tests.clients.sdks import KINDS, Kind
from tests.daemons import Daemon


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    found: Kind = request.param
    return found


@pytest.fixture(scope="session", params=ServerKind, ids=lambda server: server.value)
def server(request: pytest.FixtureRequest) -> str:
    """What serves the MCP port, as the setting's value. Its wide scope keeps the tests of a daemon together."""
    name: str = request.param.value
    return name


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, server: str) -> Iterator[Daemon]:
    with Daemon(tmp_path_factory.mktemp("daemon"), CRUX_MCP_SERVER=server) as daemon:
        yield daemon


@pytest.fixture(scope="module")
def wire(kind: Kind, server: str) -> list[Exchange]:
    """What `client` has exchanged with the daemon so far."""
    return []


@pytest.fixture(scope="module")
def client(kind: Kind, daemon: Daemon, wire: list[Exchange]) -> Iterator[Client]:
    """One connection for all tests of a module, as an agent's host keeps one for a whole session."""
    with kind.connect(daemon.mcp, None, wire) as client:
        yield client


@pytest.fixture
def entity(kind: Kind, request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    return f"{kind.name}:{request.node.name}"
