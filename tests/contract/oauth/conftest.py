"""An authorization server, and daemons on each of the two servers that ask it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from crux.config import ServerKind
from tests.authorization import AuthorizationServer, settings_for
from tests.serving import AGENTS, Serving, serving
from tests.upstream import answered_by


@pytest.fixture
async def authority(nursery: trio.Nursery) -> AuthorizationServer:
    server = AuthorizationServer()
    server.url = await nursery.start(answered_by, server.converse)
    return server


@pytest.fixture
async def open_daemon(tmp_path: Path, server: ServerKind, authority: AuthorizationServer) -> AsyncIterator[Serving]:
    """OAuth, no agents."""
    async with serving(tmp_path, mcp_server=server, **settings_for(authority)) as serves:
        yield serves


@pytest.fixture
async def guarded(tmp_path: Path, server: ServerKind, authority: AuthorizationServer) -> AsyncIterator[Serving]:
    """OAuth and agents."""
    async with serving(tmp_path, mcp_server=server, **settings_for(authority, agent_tokens=AGENTS)) as serves:
        yield serves
