"""The IntentMap: what each caller last said its work is."""

from __future__ import annotations

from attrs import frozen

from crux.actors.actor import Actor, handles
from crux.actors.clock import Clock
from crux.domain.messages import Message
from crux.domain.surface import IntentRecord

MOST_CALLERS = 1024


@frozen
class DeclareIntent(Message[None]):
    """Record what a caller's work is, in place of what it said before; blank text clears that.

    Of a long text the start is kept (`domain.surface.intent_in`).
    """

    passport_key: str
    text: str


@frozen
class CurrentIntent(Message[str | None]):
    """What a caller's work is, where it said so in the last hour."""

    passport_key: str


class IntentMap(Actor):
    """Owns one record for each caller that declared an intent: the last `MOST_CALLERS` of them, the oldest goes first.

    Survives a restart empty: an intent only narrows a list, and callers declare it again with their next session.
    Asks nobody. Source: seed 11.10.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._records: dict[str, IntentRecord] = {}

    @handles(DeclareIntent)
    def declare_intent(self, m: DeclareIntent) -> None:
        self._records.pop(m.passport_key, None)  # what is declared again becomes the newest
        record = IntentRecord.declared(m.text, now_us=self._clock.now_us())
        if record is None:
            return
        if len(self._records) >= MOST_CALLERS:
            del self._records[next(iter(self._records))]
        self._records[m.passport_key] = record

    @handles(CurrentIntent)
    def current_intent(self, m: CurrentIntent) -> str | None:
        record = self._records.get(m.passport_key)
        if record is None:
            return None
        if not record.holds(now_us=self._clock.now_us()):
            del self._records[m.passport_key]
            return None
        return record.intent
