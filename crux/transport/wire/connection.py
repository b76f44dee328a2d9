"""One connection: it reads requests, runs the application for each, and sends what it answers."""

from __future__ import annotations

import trio

from crux.logs import get_logger
from crux.transport.wire.byways import Byway
from crux.transport.wire.exchange import Exchange, PeerLeftError
from crux.transport.wire.head import BadRequest, Head
from crux.transport.wire.reader import RequestReader
from crux.transport.wire.states import LEFT, NEVER, Address, Doing, Ended, Place
from crux.transport.wire.writer import ResponseWriter, State

log = get_logger("crux.wire")

# A refusal is not seen by a peer that is still sending when the connection is reset under it: what it sends is read for
# a moment after the last word, and thrown away.
LINGER_S = 2.0
# What may come from a peer while nobody wants to read it yet.
MOST_WAITING = 64 * 1024
RETRY_AFTER_S = 1


class Connection:
    """Runs in one task, from accept to close.

    It has no timer: the listener's sweep looks at `deadline`, until when the peer has to send what is waited for, and
    at `write_deadline`, until when it has to read.
    """

    __slots__ = (
        "_byway",
        "_ended",
        "_last_words",
        "_news",
        "_place",
        "_reading",
        "_scope",
        "_wanted",
        "client",
        "deadline",
        "doing",
        "gone",
        "reader",
        "write_deadline",
    )

    def __init__(self, byway: Byway, client: Address, place: Place) -> None:
        self._byway = byway
        self.client = client
        self.reader = RequestReader(place.limits.head)
        self.doing = Doing.IDLE
        self.deadline = trio.current_time() + place.limits.head_s
        self.write_deadline = NEVER
        self.gone = False
        self._ended: Ended | None = None
        self._place = place
        self._scope = trio.CancelScope()
        self._last_words = b""
        # Bytes are read by the task that needs them, until somebody wants to know when the peer leaves: from then on a
        # task of its own reads them all, and the others park here.
        self._news: trio.lowlevel.ParkingLot | None = None
        self._reading = False
        self._wanted = False

    async def run(self) -> None:
        """Serve until the connection ends, however it does; the channel is closed then."""
        try:
            with self._scope:
                await self._serve()
            if self._last_words:
                with trio.move_on_after(LINGER_S):
                    await self.write(self._last_words)
        except LEFT:
            pass  # there is nobody to tell
        except Exception as error:
            self._note_failure(error)  # of an application, while it was cancelled
        finally:
            self.lost()  # so that the look-out goes too
            await self._byway.close()

    def end(self, reason: Ended) -> None:
        """End it from outside: what its task waits for is cancelled."""
        if self._ended is None:
            self._ended = reason
            self.deadline = NEVER
            self._scope.cancel()

    def drain(self) -> None:
        """End it where that cuts nothing short: it is idle, or between two events of a feed."""
        if self.doing is Doing.IDLE or (self.doing is Doing.FEEDING and self.write_deadline == NEVER):
            self.end(Ended.DRAINED)

    async def expire(self) -> None:
        """End it because a deadline has passed, and count what was late.

        Under a send that is stuck the channel is closed: to the application the peer has left, like any other.
        """
        counts = self._place.counts
        if self.write_deadline < self.deadline:
            counts.stuck_writes += 1
            await self._byway.close()
            return
        match self.doing:
            case Doing.IDLE:
                counts.idle_closed += 1
            case Doing.HEAD:
                counts.late_heads += 1
                self._last_words = self._refusal(BadRequest(408, "the head did not come in time"))
            case Doing.ANSWERING | Doing.STREAMING | Doing.FEEDING:
                counts.late_bodies += 1
            case _:
                pass  # it has had its moment
        self.end(Ended.LATE)

    async def cut(self) -> None:
        """Close the channel under whatever goes on."""
        self.end(Ended.CUT)
        await self._byway.close()

    async def more(self) -> bool:
        """Wait until the peer has sent more; False when it has ended its side. One task at a time may wait."""
        if self._news is not None:
            self._wanted = True
            self.tell()
            while self._wanted and not self.gone:
                await self._news.park()
            return not self._wanted
        if self._reading:
            raise trio.BusyResourceError("another task is reading from this connection")
        self._reading = True
        try:
            data = await self._byway.read()
        finally:
            self._reading = False
            if self._news is not None:
                self._place.nursery.start_soon(self._look_out, self._news)
        self.reader.feed(data)
        return bool(data)

    async def news(self) -> None:
        """Wait until something happens: the peer sent something, it has left, or its answer is whole."""
        await self._watch().park()

    def tell(self) -> None:
        """Wake those who wait for news."""
        if self._news is not None:
            self._news.unpark_all()

    async def write(self, data: bytes) -> None:
        """Send all of `data`; the peer has to read some of it within the write deadline, again and again.

        Where that fails or is cancelled half way, the channel is closed: nothing that followed would be understood.
        """
        if self.write_deadline != NEVER:
            raise trio.BusyResourceError("another task is sending on this connection")
        sent = self._byway.try_write(data)
        if sent == len(data):
            return
        rest = memoryview(data)[sent:]
        try:
            while rest:
                self.write_deadline = trio.current_time() + self._place.limits.write_s
                rest = rest[await self._byway.write(rest) :]
        finally:
            self.write_deadline = NEVER
            if rest:
                await self._byway.close()

    def stream(self, doing: Doing) -> None:
        """Note that the answer is open-ended from here on, and look out for the peer's leaving, which ends it."""
        self.doing = doing
        self.reader.forget()
        self._watch()
        if self.gone:
            self.end(Ended.GONE)

    def lost(self) -> None:
        """Note that the peer has left. A stream ends here; an application that computes an answer is left to finish."""
        self.gone = True
        self.tell()
        if self.doing.open_ended:
            self.end(Ended.GONE)

    async def _serve(self) -> None:
        reader, counts = self.reader, self._place.counts
        while True:
            try:
                head = reader.next_head() if reader.waiting else None
                if head is not None:
                    self._admit(head)
            except BadRequest as refusal:
                counts.refuse(refusal.status)
                await self._refuse(refusal)
                return
            if head is None:
                if not self._expect_head() or not await self.more():
                    return
            elif not await self._exchange(head):
                return
            elif reader.waiting:
                await trio.lowlevel.checkpoint()  # pipelined requests starve nobody, and none begins after the end

    def _expect_head(self) -> bool:
        """Set the time for more of a head to come; False when none is wanted, since the daemon is about to end."""
        if not self.reader.waiting:
            if self._place.draining:
                return False
            if self.doing is not Doing.IDLE:
                self._bound(Doing.IDLE, self._place.limits.idle_s)
        elif self.doing is not Doing.HEAD:
            self._bound(Doing.HEAD, self._place.limits.head_s)
        return True

    def _bound(self, doing: Doing, seconds: float) -> None:
        self.doing = doing
        self.deadline = trio.current_time() + seconds

    def _admit(self, head: Head) -> None:
        """Refuse what can be refused before the body is read."""
        limits = self._place.limits
        if 0 < limits.body_bytes < head.length:
            raise BadRequest(413, f"the body is larger than {limits.body_bytes} bytes")
        if 0 < limits.inflight <= self._place.counts.inflight:
            raise BadRequest(503, "too many requests are under way; try again")

    async def _exchange(self, head: Head) -> bool:
        """Answer one request; whether the connection can take another."""
        exchange = Exchange(self, head, self._place)
        writer = exchange.writer
        self.doing, self.deadline = Doing.ANSWERING, NEVER
        try:
            await self._place.app(exchange.scope(), exchange.receive, exchange.send)
        except Exception as error:
            self._note_failure(error, head.path)
            exchange.failure = exchange.failure or BadRequest(500, "the server met a bug; it is in the log")
        finally:
            exchange.leave()
            if self._ended is Ended.DRAINED:
                self._last_words = writer.abort()
            elif self._ended is Ended.LATE and exchange.unsent:
                self._last_words = self._refusal(BadRequest(408, "the body did not come in time"))
        if exchange.finish():
            return True
        if exchange.unsent:
            await self._refuse(exchange.failure or BadRequest(500, "the application gave no answer"))
        elif writer.state is State.DONE:
            await self._linger()
        return False

    def _note_failure(self, error: Exception, path: str | None = None) -> None:
        """Count and log what an application raised, unless it only passed on that its peer has left."""
        group = error if isinstance(error, ExceptionGroup) else ExceptionGroup("", [error])
        if group.split(PeerLeftError)[1] is not None:
            self._place.counts.app_failures += 1
            log.error("the application failed", path=path, exc_info=error)

    async def _refuse(self, refusal: BadRequest) -> None:
        """Answer in the server's own words, and close."""
        self.doing, self.deadline = Doing.CLOSING, NEVER
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
        self._bound(Doing.CLOSING, LINGER_S)
        await self._byway.write_eof()
        while await self.more():
            self.reader = RequestReader(self._place.limits.head)  # what came is thrown away with the old one

    def _watch(self) -> trio.lowlevel.ParkingLot:
        if self._news is None:
            self._news = trio.lowlevel.ParkingLot()
            if not self._reading:
                self._place.nursery.start_soon(self._look_out, self._news)
        return self._news

    async def _look_out(self, news: trio.lowlevel.ParkingLot) -> None:
        """Take what the peer sends, but not too far ahead of its turn, and notice its leaving."""
        try:
            while True:
                while self.reader.waiting >= MOST_WAITING and not (self._wanted or self.gone):
                    await news.park()
                data = await self._byway.read()
                if not data:
                    break
                self.reader.feed(data)
                self._wanted = False
                news.unpark_all()
        except LEFT:
            pass
        self.lost()
