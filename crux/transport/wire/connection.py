"""One connection: it reads requests, runs the application for each, and sends what it answers."""

from __future__ import annotations

import structlog
import trio

from crux.transport.wire.byways import Byway
from crux.transport.wire.exchange import LEFT, Exchange, PeerLeftError
from crux.transport.wire.head import BadRequest, Head
from crux.transport.wire.reader import RequestReader
from crux.transport.wire.states import NEVER, Address, Doing, Ended, Place
from crux.transport.wire.writer import ResponseWriter, State

log = structlog.get_logger("crux.wire")

# A refusal is not seen by a peer that is still sending when the connection is reset under it: what it sends is read for
# a moment after the last word, and thrown away.
LINGER_S = 2.0
LINGER_BYTES = 64 * 1024 * 1024
# What may come from a peer while nobody wants to read it yet.
MOST_WAITING = 64 * 1024
RETRY_AFTER_S = 1


class Connection:
    """Runs in one task, from accept to close. Its `deadline` is looked at by the listener's sweep: it has no timer."""

    __slots__ = (
        "_gone",
        "_place",
        "_scope",
        "_unwatched",
        "_watch",
        "byway",
        "client",
        "deadline",
        "doing",
        "ended",
        "reader",
    )

    def __init__(self, byway: Byway, client: Address, place: Place) -> None:
        self.byway = byway
        self.client = client
        self.reader = RequestReader(place.limits.head)
        self.doing = Doing.IDLE
        self.deadline = trio.current_time() + place.limits.head_s
        self.ended: Ended | None = None
        self._place = place
        self._scope = trio.CancelScope()
        self._gone: trio.Event | None = None
        self._watch: trio.CancelScope | None = None
        self._unwatched: trio.Event | None = None

    async def run(self) -> None:
        """Serve until the connection ends, however it does; the channel is closed then."""
        try:
            with self._scope:
                await self._serve()
        except LEFT:
            pass  # there is nobody to tell
        finally:
            await self._unwatch()
            self.byway.close()

    def bound(self, doing: Doing, deadline: float) -> None:
        """Say what the connection is at, and until when it may be."""
        self.doing = doing
        self.deadline = deadline

    def end(self, reason: Ended) -> None:
        """End it from outside: what its task waits for is cancelled."""
        if self.ended is None:
            self.ended = reason
            self._scope.cancel()

    def expire(self) -> None:
        """End it because its deadline has passed, and count what was late."""
        counts = self._place.counts
        match self.doing:
            case Doing.HEAD:
                counts.late_heads += 1
                self.byway.try_write(self._refusal(BadRequest(408, "the head did not come in time")))
            case Doing.BODY:
                counts.late_bodies += 1
            case Doing.WRITING:
                counts.stuck_writes += 1
            case Doing.IDLE:
                counts.idle_closed += 1
            case _:
                pass
        self.end(Ended.LATE)

    def cut(self) -> None:
        """Close the channel under whatever goes on."""
        self.end(Ended.CUT)
        self.byway.close()

    async def write(self, data: bytes) -> None:
        """Send all of `data`. The peer has to read some of it within the write deadline, again and again."""
        sent = self.byway.try_write(data)
        if sent == len(data):
            return
        doing, deadline = self.doing, self.deadline
        rest = memoryview(data)[sent:]
        while rest:
            self.bound(Doing.WRITING, trio.current_time() + self._place.limits.write_s)
            rest = rest[await self.byway.write(rest) :]
        self.bound(doing, deadline)

    async def until_gone(self) -> None:
        """Return when the peer has left."""
        if self._watch is None:
            await self._read_ahead()
        await self._gone_event().wait()

    def watch(self) -> None:
        """Look out for the peer's leaving while the application streams; a stream whose peer left is cancelled."""
        if self._watch is None:
            self._watch, self._unwatched = trio.CancelScope(), trio.Event()
            self._place.nursery.start_soon(self._look_out, self._watch, self._unwatched)

    async def lost(self) -> None:
        """Note that the peer has left. A stream ends here; an application that computes an answer is left to finish."""
        self._gone_event().set()
        if self.doing in (Doing.STREAMING, Doing.WRITING):
            self.end(Ended.GONE)
            await trio.lowlevel.checkpoint()

    async def _serve(self) -> None:
        reader, place = self.reader, self._place
        while True:
            try:
                head = reader.next_head()
                if head is None:
                    if not await self._read_on():
                        return
                    continue
                if 0 < place.limits.body_bytes < head.length:
                    raise BadRequest(413, f"the body is larger than {place.limits.body_bytes} bytes")
                if 0 < place.limits.inflight <= place.counts.inflight:
                    place.counts.refused_inflight += 1
                    raise BadRequest(503, "too many requests are under way; try again")
                reusable = await self._exchange(head)
            except BadRequest as refusal:
                await self._refuse(refusal)
                return
            if not reusable:
                return
            if reader.waiting:
                await trio.lowlevel.checkpoint()  # pipelined requests must not starve other connections

    async def _read_on(self) -> bool:
        """Wait for more of a head; False when the peer has ended, or the daemon is about to."""
        if not self.reader.waiting:
            if self._place.draining:
                return False
            if self.doing is not Doing.IDLE:
                self.bound(Doing.IDLE, trio.current_time() + self._place.limits.idle_s)
        elif self.doing is not Doing.HEAD:
            self.bound(Doing.HEAD, trio.current_time() + self._place.limits.head_s)
        data = await self.byway.read()
        self.reader.feed(data)
        return bool(data)

    async def _exchange(self, head: Head) -> bool:
        """Answer one request; whether the connection can take another. Raises `BadRequest` for an answer of our own."""
        place = self._place
        exchange = Exchange(self, head, place)
        writer = exchange.writer
        place.counts.inflight += 1
        self.bound(Doing.ANSWERING, NEVER)
        try:
            await place.app(exchange.scope(), exchange.receive, exchange.send)
        except trio.Cancelled:
            if self.ended is Ended.DRAINED:
                self.byway.try_write(writer.abort())
            raise
        except PeerLeftError:
            return False
        except Exception:
            place.counts.app_failures += 1
            log.exception("the application failed", path=head.path)
            exchange.failure = exchange.failure or BadRequest(500, "the server met a bug; it is in the log")
        finally:
            exchange.leave()
        await self._unwatch()
        if self._is_gone():
            return False
        if writer.state is State.WAITING:
            raise exchange.failure or BadRequest(500, "the application gave no answer")
        if writer.state is not State.DONE:
            return False
        if exchange.failure is None and writer.keep_alive and self.reader.skip_body():
            return True
        await self._linger()
        return False

    async def _refuse(self, refusal: BadRequest) -> None:
        """Answer in the server's own words, and close."""
        if refusal.status < 500:
            self._place.counts.bad_requests += 1
        await self.write(self._refusal(refusal))
        await self._linger()

    def _refusal(self, refusal: BadRequest) -> bytes:
        writer = ResponseWriter("GET", "1.1", keep_alive=False)
        fields = [(b"content-type", b"text/plain; charset=utf-8")]
        if refusal.status == 503:
            fields.append((b"retry-after", b"%d" % RETRY_AFTER_S))
        writer.start(refusal.status, fields, self._place.stamp)
        return writer.body(f"{refusal.reason}\n".encode(), more=False)

    async def _linger(self) -> None:
        """Read on for a moment before the connection is closed under a peer that still sends."""
        self.bound(Doing.CLOSING, trio.current_time() + LINGER_S)
        self.byway.write_eof()
        left = LINGER_BYTES
        while left > 0 and (data := await self.byway.read()):
            left -= len(data)

    async def _look_out(self, scope: trio.CancelScope, done: trio.Event) -> None:
        try:
            with scope:
                await self._read_ahead()
        finally:
            done.set()

    async def _unwatch(self) -> None:
        if self._watch is not None and self._unwatched is not None:
            self._watch.cancel()
            with trio.CancelScope(shield=True):  # it only has to notice that it is cancelled
                await self._unwatched.wait()
            self._watch = None

    async def _read_ahead(self) -> None:
        """Keep what a peer sends ahead of its turn, up to a bound, and notice its leaving."""
        try:
            while self.reader.waiting < MOST_WAITING:
                data = await self.byway.read()
                if not data:
                    break
                self.reader.feed(data)
            else:
                return
        except LEFT:
            pass
        self._gone_event().set()
        if self.doing in (Doing.STREAMING, Doing.WRITING):
            self.end(Ended.GONE)

    def _gone_event(self) -> trio.Event:
        if self._gone is None:
            self._gone = trio.Event()
        return self._gone

    def _is_gone(self) -> bool:
        return self._gone is not None and self._gone.is_set()
