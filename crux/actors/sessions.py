"""The SessionRegistry: every live push stream, who owns it, and how to reach it."""

from __future__ import annotations

import uuid
from collections import Counter

import trio
from attrs import frozen

from crux.actors.actor import Actor, handles
from crux.actors.mailbox import Mailbox
from crux.actors.outbox import Outbox
from crux.domain.messages import Message
from crux.domain.streams import StreamLimits, check_admission

LIST_CHANGED = b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
KEEP_ALIVE = b":\n\n"
KEEP_ALIVE_S = 15.0
# Streams that are woken in one go; between two goes whoever else has something to do has its turn.
SAID_AT_ONCE = 256


@frozen
class StreamOpened:
    """The session's id, and where the stream's task takes from what it sends."""

    session_id: str
    outbox: Outbox


@frozen
class OpenStream(Message[StreamOpened]):
    """Open the stream of a session, a fresh one where `session_id` is None.

    An earlier stream of the same session and owner ends at once. Raises `SessionOwnerMismatch` or `StreamLimit`.
    """

    owner: str
    limits: StreamLimits
    session_id: str | None = None


@frozen
class CloseStream(Message[None]):
    """Forget a stream whose peer has gone, unless a newer one has taken its place."""

    session_id: str
    outbox: Outbox


@frozen
class AnnounceTools(Message[bool]):
    """Tell a session's stream that its tool list has changed; whether there is one.

    News that the stream has yet to send says it all: a hundred calls at once are told of once.
    """

    session_id: str


@frozen
class AnnounceToolsOf(Message[int]):
    """Tell every stream of these owners that its list of tools has changed; to how many it was told."""

    owners: frozenset[str]


@frozen
class EndStreams(Message[int]):
    """End every stream, cleanly; how many there were."""


@frozen
class CountStreams(Message[int]):
    """How many streams are live."""


@frozen
class _Stream:
    owner: str
    outbox: Outbox


class SessionRegistry(Actor):
    """Owns the streams. A session is nothing but its stream: ids are not kept beyond it (protocol contract 1.4).

    Survives a restart with no streams: their tasks see them end, and clients connect again. Asks nobody.
    """

    def __init__(self) -> None:
        self._streams: dict[str, _Stream] = {}
        self._by_owner: Counter[str] = Counter()

    async def serve(self, mailbox: Mailbox) -> None:
        """Handle messages, and once in a while say something on every stream: one timer for all of them."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._keep_alive)
                await super().serve(mailbox)
        finally:
            for stream in self._streams.values():
                stream.outbox.end()

    @handles(OpenStream)
    def open_stream(self, m: OpenStream) -> StreamOpened:
        session_id = m.session_id or uuid.uuid4().hex
        self._drop_if_ended(session_id)
        held = self._streams.get(session_id)
        if 0 < m.limits.sessions <= len(self._streams) or 0 < m.limits.per_owner <= self._by_owner[m.owner]:
            self._drop_ended()
        check_admission(
            m.limits,
            owner=m.owner,
            holder=held.owner if held else None,
            live=len(self._streams),
            others_of_owner=self._by_owner[m.owner] - (held is not None),
        )
        if held is not None:
            held.outbox.end()
            self._forget(session_id)
        stream = _Stream(m.owner, Outbox())
        self._streams[session_id] = stream
        self._by_owner[m.owner] += 1
        return StreamOpened(session_id, stream.outbox)

    @handles(CloseStream)
    def close_stream(self, m: CloseStream) -> None:
        stream = self._streams.get(m.session_id)
        if stream is not None and stream.outbox is m.outbox:
            stream.outbox.end()
            self._forget(m.session_id)

    @handles(AnnounceTools)
    def announce_tools(self, m: AnnounceTools) -> bool:
        return self._announce(m.session_id)

    @handles(AnnounceToolsOf)
    def announce_tools_of(self, m: AnnounceToolsOf) -> int:
        owned = [session_id for session_id, stream in self._streams.items() if stream.owner in m.owners]
        return sum(map(self._announce, owned))

    @handles(EndStreams)
    def end_streams(self, m: EndStreams) -> int:
        count = len(self._streams)
        for stream in self._streams.values():
            stream.outbox.end()
        self._streams.clear()
        self._by_owner.clear()
        return count

    @handles(CountStreams)
    def count_streams(self, m: CountStreams) -> int:
        self._drop_ended()
        return len(self._streams)

    async def _keep_alive(self) -> None:
        while True:
            await trio.sleep(KEEP_ALIVE_S)
            session_ids = list(self._streams)
            for start in range(0, len(session_ids), SAID_AT_ONCE):
                for session_id in session_ids[start : start + SAID_AT_ONCE]:
                    self._say_something(session_id)
                await trio.lowlevel.checkpoint()

    def _say_something(self, session_id: str) -> None:
        stream = self._streams.get(session_id)
        if stream is None:
            return
        if stream.outbox.holds(KEEP_ALIVE):  # nobody took the last one: its reader is stuck
            stream.outbox.end()
        if not stream.outbox.put(KEEP_ALIVE):
            self._forget(session_id)

    def _drop_if_ended(self, session_id: str) -> None:
        stream = self._streams.get(session_id)
        if stream is not None and stream.outbox.ended:
            self._forget(session_id)

    def _drop_ended(self) -> None:
        for session_id in [key for key, stream in self._streams.items() if stream.outbox.ended]:
            self._forget(session_id)

    def _announce(self, session_id: str) -> bool:
        stream = self._streams.get(session_id)
        if stream is None:
            return False
        if not stream.outbox.put_once(LIST_CHANGED):
            self._forget(session_id)
            return False
        return True

    def _forget(self, session_id: str) -> None:
        owner = self._streams.pop(session_id).owner
        self._by_owner[owner] -= 1
        if not self._by_owner[owner]:
            del self._by_owner[owner]
