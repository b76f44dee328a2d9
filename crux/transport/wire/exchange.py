"""One request and its answer, as the application sees them: ASGI's `receive` and `send`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from crux.transport.asgi import Message, Scope
from crux.transport.wire.head import CHUNKED, BadRequest, Head
from crux.transport.wire.states import NEVER, Doing, Place
from crux.transport.wire.writer import CONTINUE, Misuse, ResponseWriter, State

if TYPE_CHECKING:
    from crux.transport.wire.connection import Connection

_ASGI = {"version": "3.0", "spec_version": "2.4"}
_DISCONNECT = {"type": "http.disconnect"}

# What a channel raises when its peer is gone.
LEFT = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


class PeerLeftError(OSError):
    """The application sends, and the peer has left (ASGI 2.4: `send` raises `OSError`)."""


class Exchange:
    """Lives from a request's head to the end of its answer."""

    __slots__ = (
        "_body_began_at",
        "_body_read",
        "_connection",
        "_head",
        "_place",
        "_received",
        "failure",
        "streams",
        "writer",
    )

    def __init__(self, connection: Connection, head: Head, place: Place) -> None:
        self._connection = connection
        self._head = head
        self._place = place
        self._received = 0
        self._body_began_at = 0.0
        self._body_read = False
        self.failure: BadRequest | None = None
        self.streams = False
        self.writer = ResponseWriter(head.method, head.version, keep_alive=head.keep_alive and not place.draining)

    def scope(self) -> Scope:
        """The ASGI scope of the request."""
        head, place = self._head, self._place
        return {
            "type": "http",
            "asgi": _ASGI,
            "http_version": head.version,
            "method": head.method,
            "scheme": place.scheme,
            "path": head.path,
            "raw_path": head.raw_path,
            "query_string": head.query,
            "root_path": "",
            "headers": head.fields,
            "client": self._connection.client,
            "server": place.server,
            "state": place.state,
        }

    async def receive(self) -> Message:
        """The next part of the body; after it, the news that the peer has left, once it has.

        A body that breaks the protocol or a limit is told as a peer that left, and `failure` says why.
        """
        if self._body_read or self.writer.state is State.DONE:
            await self._connection.until_gone()
            return _DISCONNECT
        try:
            part, more = self._connection.reader.next_body()
            if more and not part:
                part, more = await self._more_body()
            self._received += len(part)
            if self._head.length == CHUNKED and 0 < self._place.limits.body_bytes < self._received:
                raise BadRequest(413, f"the body is larger than {self._place.limits.body_bytes} bytes")
        except BadRequest as failure:
            self.failure = failure
        except LEFT:
            await self._connection.lost()
        else:
            self._body_read = not more
            return {"type": "http.request", "body": part, "more_body": more}
        self._body_read = True
        return _DISCONNECT

    async def send(self, message: Message) -> None:
        """Send a part of the answer. Raises `PeerLeftError` when nobody is there to read it."""
        kind = message["type"]
        if kind == "http.response.start":
            self.writer.start(message["status"], message.get("headers", ()), self._place.stamp)
            return
        if kind != "http.response.body":
            raise Misuse(f"a message of type {kind!r} is not for an HTTP response")
        more = message.get("more_body", False)
        data = self.writer.body(message.get("body", b""), more=more)
        if more and not self.streams:
            self._begin_stream()
        try:
            await self._connection.write(data)
        except LEFT as error:
            await self._connection.lost()
            raise PeerLeftError("the peer has left") from error
        if more:
            await trio.lowlevel.checkpoint()  # an endless stream into a fast peer must not starve others

    async def _more_body(self) -> tuple[bytes, bool]:
        """Wait for more of the body, no slower than the limits allow."""
        connection, limits = self._connection, self._place.limits
        if not self._body_began_at:
            self._body_began_at = trio.current_time()
            if self._head.expects_continue and self.writer.state is State.WAITING:
                await connection.write(CONTINUE)
        while True:
            allowed_s = limits.body_grace_s + self._received / limits.body_rate
            connection.bound(Doing.BODY, self._body_began_at + allowed_s)
            data = await connection.byway.read()
            connection.bound(Doing.ANSWERING, NEVER)
            if not data:
                raise PeerLeftError("the peer left in the middle of its body")
            connection.reader.feed(data)
            part, more = connection.reader.next_body()
            if part or not more:
                return part, more

    def _begin_stream(self) -> None:
        """From here on the answer is open-ended: the peer is watched, and the request's place is free for another."""
        self.streams = True
        self._connection.bound(Doing.STREAMING, NEVER)
        self._place.counts.inflight -= 1
        self._place.counts.streams += 1
        self._connection.reader.forget()
        self._connection.watch()

    def leave(self) -> None:
        """Give back what the exchange counts for."""
        if self.streams:
            self._place.counts.streams -= 1
        else:
            self._place.counts.inflight -= 1
