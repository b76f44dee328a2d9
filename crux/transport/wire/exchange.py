"""One request and its answer, as the application sees them: ASGI's `receive` and `send`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from crux.transport.asgi import Message, Pairs, Scope
from crux.transport.wire.head import CHUNKED, BadRequest, Head
from crux.transport.wire.states import LEFT, NEVER, Doing, Place
from crux.transport.wire.writer import CONTINUE, Misuse, ResponseWriter, State

if TYPE_CHECKING:
    from crux.transport.wire.connection import Connection

_ASGI = {"version": "3.0", "spec_version": "2.4"}


class PeerLeftError(OSError):
    """The application sends, and the peer has left (ASGI 2.4: `send` raises `OSError`)."""


class Exchange:
    """Lives from a request's head to the end of its answer."""

    __slots__ = (
        "_body_read",
        "_connection",
        "_credit_s",
        "_fields",
        "_head",
        "_owes_continue",
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
        self._owes_continue = head.expects_continue
        self._body_read = False
        self._received = 0
        self._credit_s = place.limits.body_grace_s
        self._fields: Pairs | None = None
        self.failure: BadRequest | None = None
        self.streams = False
        self.writer = ResponseWriter(head.method, head.version, keep_alive=head.keep_alive)
        place.counts.inflight += 1

    @property
    def unsent(self) -> bool:
        """Whether nothing of the answer is out yet."""
        return self.writer.state is State.WAITING or self.writer.state is State.STARTED

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
            "state": place.state.copy(),
        }

    async def receive(self) -> Message:
        """The next part of the body; after it, the news that the peer has left or the answer is whole.

        A body that breaks the protocol or a limit is told as a peer that left, and `failure` says why.
        """
        connection, writer = self._connection, self.writer
        if not self._body_read and self.failure is None and writer.state is not State.DONE:
            try:
                part, more = connection.reader.next_body()
                if more and not part:
                    part, more = await self._more_body()
                self._received += len(part)
                if self._head.length == CHUNKED and 0 < self._place.limits.body_bytes < self._received:
                    raise BadRequest(413, f"the body is larger than {self._place.limits.body_bytes} bytes")
            except BadRequest as failure:
                self._fail(failure)
            except LEFT:
                connection.lost()
            else:
                self._body_read = not more
                return {"type": "http.request", "body": part, "more_body": more}
        await trio.lowlevel.checkpoint()  # an application may ask again and again
        while not connection.gone and self.failure is None and writer.state is not State.DONE:
            await connection.news()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Send a part of the answer. Raises `PeerLeftError` when nobody is there to read it."""
        connection, writer = self._connection, self.writer
        kind = message["type"]
        if kind == "http.response.start":
            self._fields = message.get("headers", ())
            if self._place.draining:
                writer.keep_alive = False
            writer.start(message["status"], self._fields, self._place.stamp)
            return
        if kind != "http.response.body":
            raise Misuse(f"a message of type {kind!r} is not for an HTTP response")
        more = message.get("more_body", False)
        if not (more or self._body_read) and self.unsent and not self._skip_body():
            writer.keep_alive = False  # said while the head can still say it: a peer must not count on the connection
        data = writer.body(message.get("body", b""), more=more)
        if more and self._fields is not None:
            self._choose_course(self._fields)
        try:
            await connection.write(data)
        except LEFT as error:
            writer.keep_alive = False
            connection.lost()
            await trio.lowlevel.checkpoint()  # where a stream ends
            raise PeerLeftError("the peer has left") from error
        if not more:
            connection.tell()
            return
        if self._place.draining:
            connection.drain()
        await trio.lowlevel.checkpoint()  # an endless stream into a fast peer must not starve others

    def finish(self) -> bool:
        """Whether the connection can take another request: the answer is whole, and so is what came of the body."""
        whole = self.writer.state is State.DONE and self.writer.keep_alive and self.failure is None
        return whole and (self._body_read or self._skip_body())

    def _skip_body(self) -> bool:
        """Throw away what came of a body that nobody will read; whether that was all of it."""
        if self.failure is None:
            try:
                return self._connection.reader.skip_body()
            except BadRequest as failure:
                self._fail(failure)
        return False

    def leave(self) -> None:
        """Give back what the exchange counts for."""
        if self.streams:
            self._place.counts.streams -= 1
        else:
            self._place.counts.inflight -= 1

    async def _more_body(self) -> tuple[bytes, bool]:
        """Wait for more of the body. The time that it may take is the peer's own: none is counted between two calls."""
        connection, limits = self._connection, self._place.limits
        if self._owes_continue and self.unsent:
            await connection.write(CONTINUE)
        self._owes_continue = False
        while True:
            part, more = connection.reader.next_body()
            if part or not more:
                return part, more
            began, had = trio.current_time(), connection.reader.waiting
            connection.deadline = began + self._credit_s if limits.body_rate else NEVER
            try:
                if not await connection.more():
                    raise PeerLeftError("the peer left in the middle of its body")
            finally:
                connection.deadline = NEVER
            if limits.body_rate:
                # A fast start buys no more time than the grace: what counts is how a body goes on.
                earned_s = (connection.reader.waiting - had) / limits.body_rate
                spent_s = trio.current_time() - began
                self._credit_s = min(limits.body_grace_s, self._credit_s - spent_s + earned_s)

    def _choose_course(self, fields: Pairs) -> None:
        """More of the answer is to come, and where its length is not known, perhaps without end.

        Then the peer is watched, and the request's place is free for another. A feed of events is whole at any time, so
        a daemon that stops ends it; of another stream a last chunk would make a part look like all, so it may finish.
        """
        self._fields = None
        named = {name.lower(): value for name, value in fields}
        if b"content-length" in named:
            return
        self.streams = True
        self._place.counts.inflight -= 1
        self._place.counts.streams += 1
        feeds = named.get(b"content-type", b"").startswith(b"text/event-stream")
        self._connection.stream(Doing.FEEDING if feeds else Doing.STREAMING)

    def _fail(self, failure: BadRequest) -> None:
        self._place.counts.refuse(failure.status)
        self.failure = failure
