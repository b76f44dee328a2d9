"""Recall: every read of durable facts goes through it."""

from __future__ import annotations

from typing import Any

import trio

from crux.actors.actor import Actor, settle
from crux.actors.mailbox import Envelope, Mailbox
from crux.errors import CruxError, Overloaded
from crux.storage.engine import Engine
from crux.storage.readers import ReadTooLong

READ_DEADLINE_S = 10.0
SLOW_READS = 64


class Recall(Actor):
    """Answers reads as of the last commit: cheap ones at once, the others from another thread while it goes on.

    Owns the reading half of the engine and the list of slow reads under way, of which there are at most `SLOW_READS`.
    Asks nobody.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._slow = 0

    async def serve(self, mailbox: Mailbox) -> None:
        async with trio.open_nursery() as nursery:
            while True:
                envelope = await mailbox.receive()
                began = trio.current_time()
                try:
                    reply = self._engine.read_now(envelope.message)
                except ReadTooLong:
                    self._read_apart(envelope, mailbox, nursery)
                    continue
                except CruxError as error:
                    reply = error
                settle(envelope, reply, mailbox)
                mailbox.figures.handling.observe(trio.current_time() - began)

    def _read_apart(self, envelope: Envelope, mailbox: Mailbox, nursery: trio.Nursery) -> None:
        if self._slow >= SLOW_READS:
            settle(envelope, Overloaded(f"{SLOW_READS} slow searches are under way; try again"), mailbox)
            return
        self._slow += 1
        mailbox.defer(envelope)
        nursery.start_soon(self._finish, envelope, mailbox)

    async def _finish(self, envelope: Envelope, mailbox: Mailbox) -> None:
        began = trio.current_time()
        reply: Any
        try:
            reply = await self._engine.read_apart(envelope.message, READ_DEADLINE_S, lambda: envelope.awaited)
        except CruxError as error:
            reply = error
        except Exception:
            mailbox.resume(envelope)  # the crash is about this one; other slow reads get a new turn
            raise
        finally:
            self._slow -= 1
        settle(envelope, reply, mailbox)
        mailbox.figures.handling.observe(trio.current_time() - began)
