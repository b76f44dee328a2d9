"""Recall: every read of durable facts goes through it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import trio
from attrs import evolve

from crux.actors.actor import Actor, settle
from crux.actors.mailbox import Envelope, Mailbox
from crux.domain.bounds import put_latest
from crux.domain.commands import CountRecalls, Found, Page, Search
from crux.domain.facts import Fact, Recalls
from crux.domain.messages import Message
from crux.errors import CruxError, Overloaded
from crux.storage.engine import Engine
from crux.storage.readers import ReadTooLong

READ_DEADLINE_S = 10.0
SLOW_READS = 64
# Facts whose recalls are remembered; of more, those that were recalled last.
MOST_RECALLED = 65_536


class Recall(Actor):
    """Answers reads as of the last commit: cheap ones at once, the others from another thread while it goes on.

    Owns the reading half of the engine, the list of slow reads under way, of which there are at most `SLOW_READS`, and
    how often facts were recalled, which it forgets in a restart. Asks nobody.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._slow = 0
        self._recalls: OrderedDict[str, Recalls] = OrderedDict()

    async def serve(self, mailbox: Mailbox) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                envelope = await mailbox.receive()
                began = trio.current_time()
                try:
                    reply = self._read_now(envelope.message)
                except ReadTooLong:
                    self._read_apart(envelope, mailbox, nursery)
                    continue
                except CruxError as error:
                    reply = error
                settle(envelope, reply, mailbox)
                mailbox.figures.handling.observe(trio.current_time() - began)

    def _read_now(self, message: Message[Any]) -> object:
        if isinstance(message, CountRecalls):
            self._count(message)
            return None
        if not self._recalls:
            return self._engine.read_now(message)
        return self._told(self._engine.read_now(_with_recalls(message, MappingProxyType(self._recalls))))

    def _count(self, recalled: CountRecalls) -> None:
        for fact_id in recalled.fact_ids:
            known = self._recalls.get(fact_id)
            recalls = Recalls(1 if known is None else known.count + 1, recalled.now_us)
            put_latest(self._recalls, fact_id, recalls, MOST_RECALLED)

    def _told(self, reply: Any) -> Any:
        """What was read, each fact with its recalls."""
        match reply:
            case Fact():
                return msgspec.structs.replace(reply, recalls=self._recalls.get(reply.fact_id))
            case Found() | Page() if self._recalls:
                return evolve(reply, facts=tuple(map(self._told, reply.facts)))
            case tuple() if self._recalls:
                return tuple(map(self._told, reply))
        return reply

    def _read_apart(self, envelope: Envelope, mailbox: Mailbox, nursery: trio.Nursery) -> None:
        if self._slow >= SLOW_READS:
            settle(envelope, Overloaded(f"{SLOW_READS} slow searches are under way; try again"), mailbox)
            return
        self._slow += 1
        nursery.start_soon(self._finish, envelope, mailbox)

    async def _finish(self, envelope: Envelope, mailbox: Mailbox) -> None:
        began = trio.current_time()
        message: Message[Any] = envelope.message
        if self._recalls:
            message = _with_recalls(message, dict(self._recalls))  # a copy, since another thread looks at it
        reply: Any
        try:
            reply = self._told(await self._engine.read_apart(message, READ_DEADLINE_S, lambda: envelope.awaited))
        except CruxError as error:
            reply = error
        except Exception:
            mailbox.resume(envelope)  # the crash is about this one; other slow reads get a new turn
            raise
        finally:
            self._slow -= 1
        settle(envelope, reply, mailbox)
        mailbox.figures.handling.observe(trio.current_time() - began)


def _with_recalls(message: Message[Any], recalls: Mapping[str, Recalls]) -> Message[Any]:
    return evolve(message, recalls=recalls) if isinstance(message, Search) else message
