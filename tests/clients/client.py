"""What the story asks of an MCP client, whichever SDK is behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from attrs import frozen

# How long a client waits for anything.
TIMEOUT_S = 20.0
# How long every SDK leaves its push stream closed, unless told otherwise.
REOPEN_MS = 1000
# What Python is given to run the stdio bridge.
BRIDGE = ("-m", "crux", "mcp-stdio")


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

    def heard(self, times: int) -> int:
        """Wait until the SDK has told its user at least `times` that the tool list changed; how often it has."""


class Connect(Protocol):
    """Connects to a URL, with a bearer token or none, and adds every exchange to `wire`; leaving ends the session."""

    def __call__(
        self, url: str, token: str | None, wire: list[Exchange], /, *, reopen_ms: int = REOPEN_MS
    ) -> AbstractContextManager[Client]: ...


# Starts the stdio bridge with these variables and connects to it; leaving ends both.
ConnectBridge = Callable[[Mapping[str, str]], AbstractContextManager[Client]]
