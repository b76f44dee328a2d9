"""The AuditSink: the audit trail of extensions, and the only writer of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import trio
from attrs import define, field, frozen

from crux.actors.actor import BatchActor
from crux.actors.failures import FailureCount
from crux.actors.mailbox import Mailbox
from crux.domain.audit import (
    AUDIT_ENTITY,
    INVOKE_FAMILY,
    AuditEvent,
    audit_draft,
    audit_kept_in,
    place_after,
    suppression_marker,
)
from crux.domain.bounds import put_latest
from crux.domain.commands import Last, Newest, Put, Transact
from crux.domain.facts import Fact
from crux.domain.messages import Message
from crux.domain.windows import EventWindow, Fate, count_event
from crux.errors import Conflict, CruxError, InvalidArgument
from crux.logs import get_logger

log = get_logger("crux.audit")

# Extensions whose events are counted; of more, those that were called last.
MOST_WINDOWS: Final = 100_000
# How long who tells of an event waits for the trail.
RECORD_S: Final = 5.0
# What one reading of the trail gives at most.
MOST_TAIL: Final = 1000


@frozen
class RecordAudit(Message[int]):
    """Add events to the trail, in order: how many of them are on disk then; the others were suppressed.

    Raises what the store raises, and none is kept; after a `NoAnswer` they may be all the same.
    """

    events: tuple[AuditEvent, ...]


@frozen
class AuditTail(Message[tuple[AuditEvent, ...]]):
    """The newest `limit` events, `MOST_TAIL` at most, the oldest of them first."""

    limit: int


async def record(audit: Mailbox, *events: AuditEvent) -> None:
    """Wait until the trail has the events. Where it cannot take them that is logged, and what they tell of stands.

    A cancellation in the middle of it does not leave open whether they are kept.
    """
    with trio.CancelScope(shield=True):
        try:
            await audit.ask(RecordAudit(events), deadline_s=RECORD_S)
        except CruxError as error:
            for event in events:
                log.warning("an event may be missing", action=event.action, pack_id=event.pack_id, reason=error.message)


@define
class AuditFigures:
    """How many events are not in the trail, over all restarts of its writer: those suppressed, and those that the store
    did not take. Only the trio thread touches it."""

    suppressed: int = 0
    lost: FailureCount = field(factory=lambda: FailureCount("the audit trail"))


class AuditSink(BatchActor):
    """Appends all that waits in one commit, which keeps all of it or fails for all who asked.

    Of the calls of one extension 60 in a minute are kept, then one marker, then nothing until the minute is over. Such
    a minute begins with its first event, and is counted anew after a restart. The trail itself goes on, and nothing of
    it is ever removed: an event takes some 500 bytes, so that an extension that is called without end adds about 45 MB
    a day.
    Owns the windows and the place of the next event, which it reads from the store when it is not sure of it. Asks the
    FactStore and Recall. Source: seed 002 section 5.6, extensions contract 12.
    """

    def __init__(self, facts: Mailbox, recall: Mailbox, figures: AuditFigures) -> None:
        self._facts = facts
        self._recall = recall
        self._figures = figures
        self._windows: OrderedDict[str, EventWindow] = OrderedDict()
        self._next_place: int | None = None

    async def handle(self, messages: Sequence[Message[Any]]) -> Sequence[object]:
        records = [message for message in messages if isinstance(message, RecordAudit)]
        recorded = iter(await self._record(records))
        return [await self._tail(message) if isinstance(message, AuditTail) else next(recorded) for message in messages]

    async def _record(self, records: Sequence[RecordAudit]) -> Sequence[int | CruxError]:
        events = [event for record in records for event in record.events]
        now_s = trio.current_time()
        windows: dict[str, EventWindow] = {}
        lines: list[AuditEvent] = []
        kept: list[bool] = []
        for event in events:
            fate = Fate.KEPT
            if event.action in INVOKE_FAMILY:
                window = windows.get(event.pack_id) or self._windows.get(event.pack_id)
                counted = count_event(window, now_s)
                windows[event.pack_id], fate = counted.window, counted.fate
                if fate is Fate.MARKED:
                    lines.append(suppression_marker(event, counted.window.seen, counted.silent_before))
            if fate is Fate.KEPT:
                lines.append(event)
            kept.append(fate is Fate.KEPT)
        try:
            await self._append(lines)
        except CruxError as error:
            # As if they had never come: the marker, if one was due, is due for the next one.
            self._figures.lost.failed(len(events), error.message)
            return [error] * len(records)
        for pack_id, window in windows.items():
            put_latest(self._windows, pack_id, window, MOST_WINDOWS)
        self._figures.suppressed += kept.count(False)
        fates = iter(kept)
        return [sum(islice(fates, len(record.events))) for record in records]

    async def _append(self, lines: Sequence[AuditEvent]) -> None:
        if not lines:
            return
        try:
            await self._commit(lines)
        except Conflict:
            # An earlier commit, of which no answer came in time, was made after all: the store knows the place.
            await self._commit(lines)
        self._figures.lost.worked()

    async def _commit(self, lines: Sequence[AuditEvent]) -> None:
        place, self._next_place = self._next_place, None
        if place is None:
            place = place_after(await self._recall.ask(Last(AUDIT_ENTITY)))
        steps = [Put(audit_draft(line, place + offset), expected_version=0) for offset, line in enumerate(lines)]
        await self._facts.ask(Transact(tuple(steps)))
        self._next_place = place + len(lines)

    async def _tail(self, tail: AuditTail) -> tuple[AuditEvent, ...] | CruxError:
        try:
            facts = await self._recall.ask(Newest(AUDIT_ENTITY, min(tail.limit, MOST_TAIL)))
        except CruxError as error:
            return error
        return tuple(event for fact in facts if (event := _event_in(fact)) is not None)


def _event_in(fact: Fact) -> AuditEvent | None:
    """The event that a fact keeps; what cannot be read is logged, and is as if it were not there."""
    try:
        return audit_kept_in(fact)
    except InvalidArgument as error:
        log.warning("an event of the audit is skipped", place=fact.key, reason=error.message)
        return None
