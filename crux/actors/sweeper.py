"""The Sweeper: frees the room of what has expired."""

from __future__ import annotations

import trio

from crux.actors.actor import Actor
from crux.actors.mailbox import Mailbox
from crux.domain.artefacts import SweepArtefacts
from crux.errors import CruxError
from crux.logs import get_logger

log = get_logger("crux.sweeper")

SWEEP_EVERY_S = 600.0
# What one commit removes; other writes wait for that.
SWEPT_AT_ONCE = 16


class Sweeper(Actor):
    """Removes expired artefacts every ten minutes, whoever reads or writes meanwhile.

    Nobody sees an expired one in any case. Owns no state; nobody asks it. Asks the FactStore.
    """

    def __init__(self, facts: Mailbox) -> None:
        self._facts = facts

    async def serve(self, mailbox: Mailbox) -> None:
        while True:
            try:
                while await self._facts.ask(SweepArtefacts(SWEPT_AT_ONCE)) == SWEPT_AT_ONCE:
                    pass
            except CruxError as error:  # a full disk, say: it is tried again
                log.warning("expired artefacts were not removed", reason=error.message)
            await trio.sleep(SWEEP_EVERY_S)
