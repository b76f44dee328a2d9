"""The FactStore: every durable write goes through it."""

from collections.abc import Sequence
from typing import Any

import trio

from crux.actors.actor import BatchActor
from crux.actors.clock import Clock
from crux.domain.commands import CheckReadiness, Probe, Readiness
from crux.domain.messages import Message
from crux.errors import CruxError, StorageFull, StorageUnavailable
from crux.storage.engine import Engine

# Below this much room on the disk the daemon calls itself not ready, before writes begin to fail.
SPARE_BYTES = 32 * 1024 * 1024
# A write this many seconds old still says that writing works; after that, readiness is learnt by a write of its own.
PROBE_AGE_S = 5.0


class FactStore(BatchActor):
    """Commits all the writes that wait as one batch, and answers them when they are on disk.

    Owns the writing half of the engine, and the knowledge whether writing works. Keeps nothing that a restart would
    lose. Asks nobody.
    """

    def __init__(self, engine: Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        self._failing: CruxError | None = None
        self._written_at = float("-inf")

    async def handle(self, messages: Sequence[Message[Any]]) -> Sequence[object]:
        commands = [message for message in messages if not isinstance(message, CheckReadiness)]
        if not commands and (self._failing is not None or trio.current_time() - self._written_at > PROBE_AGE_S):
            commands.append(Probe())
        outcomes = await self._commit(commands) if commands else []
        for result in outcomes:
            if isinstance(result, StorageFull | StorageUnavailable):
                self._failing = result
            elif not isinstance(result, Exception):
                self._failing, self._written_at = None, trio.current_time()
        replies = iter(outcomes)
        return [self._readiness() if isinstance(message, CheckReadiness) else next(replies) for message in messages]

    async def _commit(self, commands: Sequence[Message[Any]]) -> Sequence[object]:
        # A write to a file that has no name any more would be acknowledged and lost.
        if (problem := self._engine.problem()) is not None:
            return [StorageUnavailable(problem)] * len(commands)
        return await self._engine.commit(commands, self._clock.now_us())

    def _readiness(self) -> Readiness:
        if (problem := self._engine.problem()) is not None:
            return Readiness((("data_dir", problem),))
        problems = [("storage_writes", self._failing.message)] if self._failing else []
        free = self._engine.free_bytes()
        if free < SPARE_BYTES:
            problems.append(("data_dir_capacity", f"{free} bytes are free; writes need {SPARE_BYTES} to spare"))
        return Readiness(tuple(problems))
