"""The Meter: how much each caller has called since the daemon started."""

from __future__ import annotations

from collections import OrderedDict

import msgspec
from attrs import frozen

from crux.actors.accounts import Accountant
from crux.actors.actor import handles
from crux.domain.bounds import put_latest
from crux.domain.callers import MOST_CALLERS
from crux.domain.messages import Message
from crux.domain.usage import Totals, Usage


class RecordUsage(msgspec.Struct, Message[None], frozen=True, gc=False):
    """Count a finished call. To be told, not asked: every call makes one, and so it is of the cheapest kind."""

    passport_key: str
    tokens_in: int
    tokens_out: int
    declared_budget: int = 0


@frozen
class UsageOf(Message[Usage]):
    """The totals of one caller."""

    passport_key: str


class Meter(Accountant):
    """Owns the totals of the `MOST_CALLERS` that called last.

    A restart begins them anew: they are estimates for an agent's own orientation and limit nothing (seed 11.11). Asks
    nobody.
    """

    def __init__(self) -> None:
        self._usage: OrderedDict[str, Totals] = OrderedDict()

    @handles(RecordUsage)
    def record_usage(self, m: RecordUsage) -> None:
        totals = self._usage.get(m.passport_key) or Totals()
        totals.add(m.tokens_in, m.tokens_out, m.declared_budget)
        put_latest(self._usage, m.passport_key, totals, MOST_CALLERS)

    @handles(UsageOf)
    def usage_of(self, m: UsageOf) -> Usage:
        return (self._usage.get(m.passport_key) or Totals()).usage()
