"""The TraceRing: the newest calls of each caller, kept in memory for a while."""

from __future__ import annotations

from collections import OrderedDict

import msgspec
from attrs import frozen

from crux.actors.accounts import Accountant
from crux.actors.actor import handles
from crux.actors.clock import Clock
from crux.domain.bounds import put_latest
from crux.domain.callers import MOST_CALLERS
from crux.domain.messages import Message
from crux.domain.surface import CALLS_READ
from crux.domain.traces import Ring, Trace, TraceEntry, without_reserved


class RecordTrace(msgspec.Struct, Message[None], frozen=True, gc=False):
    """Add a finished call. To be told, not asked: every call makes one, and so it is of the cheapest kind."""

    passport_key: str
    trace: Trace


@frozen
class RecentTraces(Message[tuple[TraceEntry, ...]]):
    """A caller's newest calls as it may see them, newest first, `top_k` at most."""

    passport_key: str
    top_k: int


@frozen
class RecentCalls(Message[tuple[str, ...]]):
    """Which tools a caller called lately, newest first, as far as the dynamic surface looks (Decision 42)."""

    passport_key: str


class TraceRing(Accountant):
    """Owns a ring of calls for each caller, of the `MOST_CALLERS` that called last.

    Survives a restart empty: traces are about the work of the hour. Asks nobody. Source: protocol contract 11.1.
    """

    def __init__(self, clock: Clock, ttl_s: int) -> None:
        self._clock = clock
        self._ttl_us = ttl_s * 1_000_000
        self._rings: OrderedDict[str, Ring] = OrderedDict()

    @handles(RecordTrace)
    def record_trace(self, m: RecordTrace) -> None:
        ring = self._rings.get(m.passport_key) or Ring(self._ttl_us)
        ring.push(m.trace)
        put_latest(self._rings, m.passport_key, ring, MOST_CALLERS)

    @handles(RecentTraces)
    def recent_traces(self, m: RecentTraces) -> tuple[TraceEntry, ...]:
        return tuple(without_reserved(trace.entry()) for trace in self._newest(m.passport_key, m.top_k))

    @handles(RecentCalls)
    def recent_calls(self, m: RecentCalls) -> tuple[str, ...]:
        return tuple(trace.tool for trace in self._newest(m.passport_key, CALLS_READ))

    def _newest(self, passport_key: str, most: int) -> tuple[Trace, ...]:
        ring = self._rings.get(passport_key)
        return () if ring is None else ring.newest(most, now_us=self._clock.now_us())
