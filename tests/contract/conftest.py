"""A daemon on each of the two servers, open or for agents alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from crux.config import ServerKind
from tests.contract.agents import AS_BOB, AS_EVE, Agent
from tests.serving import AGENTS, Serving, serving


@pytest.fixture(params=ServerKind, ids=lambda kind: kind.value)
def server(request: pytest.FixtureRequest) -> ServerKind:
    """What asks for it has to hold on both servers."""
    kind: ServerKind = request.param
    return kind


@pytest.fixture
async def daemon(tmp_path: Path, server: ServerKind) -> AsyncIterator[Serving]:
    async with serving(tmp_path, mcp_server=server) as serves:
        yield serves


@pytest.fixture
async def guarded(tmp_path: Path, server: ServerKind) -> AsyncIterator[Serving]:
    async with serving(tmp_path, mcp_server=server, http_server=server, agent_tokens=AGENTS) as serves:
        yield serves


@pytest.fixture
def bob(guarded: Serving, client: httpx.AsyncClient) -> Agent:
    return Agent(client, guarded, AS_BOB)


@pytest.fixture
def eve(guarded: Serving, client: httpx.AsyncClient) -> Agent:
    return Agent(client, guarded, AS_EVE)


@pytest.fixture
def nobody(daemon: Serving, client: httpx.AsyncClient) -> Agent:
    return Agent(client, daemon, None)
