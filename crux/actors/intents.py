"""The IntentMap: what each caller last said its work is."""

from __future__ import annotations

from collections import OrderedDict

from attrs import frozen

from crux.actors.actor import Actor, handles
from crux.actors.clock import Clock
from crux.domain.bounds import put_latest
from crux.domain.callers import MOST_CALLERS
from crux.domain.messages import Message
from crux.domain.surface import IntentRecord


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
        self._records: OrderedDict[str, IntentRecord] = OrderedDict()

    @handles(DeclareIntent)
    def declare_intent(self, m: DeclareIntent) -> None:
        record = IntentRecord.declared(m.text, now_us=self._clock.now_us())
        if record is None:
            self._records.pop(m.passport_key, None)
        else:
            put_latest(self._records, m.passport_key, record, MOST_CALLERS)

    @handles(CurrentIntent)
    def current_intent(self, m: CurrentIntent) -> str | None:
        record = self._records.get(m.passport_key)
        if record is None:
            return None
        if not record.holds(now_us=self._clock.now_us()):
            del self._records[m.passport_key]
            return None
        return record.intent
