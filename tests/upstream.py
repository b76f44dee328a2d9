"""Servers that Crux calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio


async def answered_by(
    converse: Callable[[trio.SocketStream], Awaitable[object]], *, task_status: trio.TaskStatus[str]
) -> None:
    """Serves on a free port of this machine; `start` gives its URL."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    task_status.started(f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}")
    await trio.serve_listeners(converse, listeners)
