"""The border between servers and what they serve: ASGI 3.0, in types and a few helpers.

Spec: https://asgi.readthedocs.io/en/latest/specs/main.html
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

import trio

from crux.errors import CruxError, PayloadTooLarge

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Pairs = Iterable[tuple[bytes, bytes]]

# A body above the limit is read and thrown away for a moment before it is refused: closing at once would reset the
# connection, and the peer, still sending, would never see the answer.
DISCARD_FACTOR = 4
DISCARD_S = 5.0

JSON = (b"content-type", b"application/json")


def retry_after(error: CruxError) -> Pairs:
    """The header that says when to try again, where the error knows (RFC 9110 10.2.3)."""
    return [] if error.retry_after_s is None else [(b"retry-after", b"%d" % error.retry_after_s)]


class PeerGone(Exception):
    """The peer left before its body was whole."""


class RequestTimeout(CruxError):
    """The request was not whole, or its answer not ready, when its time was up."""

    status = 408


async def read_body(receive: Receive, limit: int) -> bytes:
    """The whole body, of at most `limit` bytes (0: any size); the caller sets the deadline.

    Raises `PayloadTooLarge` for a longer one, having read some of the rest; `PeerGone` when the peer left in between.
    """
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body", False):
        body: bytes = message.get("body", b"")
        if limit and len(body) > limit:
            raise too_large(limit)
        return body
    parts: list[bytes] = []
    size = 0
    while message["type"] == "http.request":
        part = message.get("body", b"")
        size += len(part)
        if limit and size > limit:
            if message.get("more_body", False):
                await discard_body(receive, limit)
            raise too_large(limit)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)
        message = await receive()
    raise PeerGone


async def discard_body(receive: Receive, limit: int) -> None:
    """Read some more of a body that is longer than `limit` bytes, for at most `DISCARD_S` seconds, and keep none."""
    left = limit * DISCARD_FACTOR
    with trio.move_on_after(DISCARD_S):
        while left > 0:
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body", False):
                return
            left -= len(message.get("body", b""))


def too_large(limit: int) -> PayloadTooLarge:
    """The refusal of a body that has more than `limit` bytes."""
    return PayloadTooLarge(f"the body is larger than {limit} bytes (CORECRUXD_MAX_REQUEST_BODY_BYTES)")


async def respond(send: Send, status: int, body: bytes = b"", headers: Pairs = ()) -> None:
    """Send a whole response; its length is added."""
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [*headers, (b"content-length", b"%d" % len(body))],
        }
    )
    await send({"type": "http.response.body", "body": body})


def header(scope: Scope, name: bytes) -> bytes | None:
    """The first header called `name` (lower case)."""
    for found, value in scope["headers"]:
        if found == name:
            return bytes(value)
    return None


def declared_length(scope: Scope) -> int:
    """The body's length as `Content-Length` says, 0 where it says none."""
    value = header(scope, b"content-length")
    return int(value) if value is not None and value.isdigit() else 0
