"""What the story asks of an MCP client, whichever SDK is behind it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from attrs import frozen

# How long a client waits for anything.
TIMEOUT_S = 20.0


class Refused(Exception):
    """The SDK raised a JSON-RPC error: the one that the server sent, or one of its own making."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data


@frozen
class Exchange:
    """One HTTP exchange as the SDK's own HTTP stack saw it: what it sent, and what came back."""

    verb: str
    method: str | None
    """JSON-RPC method, where there was a body."""
    session: str | None
    """`Mcp-Session-Id` of the request."""
    status: int
    error: int | None
    """Code of the JSON-RPC error in the answer."""


class Client(Protocol):
    """A connected client. Failures that the server answers are raised as `Refused`."""

    server: str
    """Name and version that the server gave, such as "crux 0.1.0"."""
    protocol: str | None
    """Protocol version that client and server settled on."""

    def tools(self) -> list[dict[str, Any]]:
        """`tools/list`."""

    def call(self, tool: str, **arguments: object) -> Any:
        """`tools/call`; the document in the one text item of the result."""

    def resources(self) -> None:
        """`resources/list`."""


# Connects to a URL, with a bearer token or none, and appends every exchange to the list; leaving ends the session.
Connect = Callable[[str, str | None, list[Exchange]], AbstractContextManager[Client]]
