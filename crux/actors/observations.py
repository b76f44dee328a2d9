"""The Observations: every session's chain of observations, and the only writer of them."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, ClassVar

from attrs import frozen

from crux.actors.actor import BatchActor
from crux.actors.clock import Clock
from crux.actors.failures import FailureCount
from crux.actors.mailbox import Mailbox
from crux.domain.bounds import put_latest
from crux.domain.commands import Last, Put, Stored, Transact
from crux.domain.inline_receipts import ReceiptSigner
from crux.domain.messages import Message
from crux.domain.observations import (
    MOST_PAYLOAD_BYTES,
    NewObservation,
    ObservationRecord,
    ObservedSession,
    Tip,
    check_observation,
    observation_draft,
    observation_kept_in,
    sealed,
    tip_after,
)
from crux.errors import Conflict, CruxError

MOST_CHAINS = 1024

# The session's entity and the kind that a mark is of.
_Place = tuple[str, str]


@frozen
class AppendObservation(Message[ObservationRecord | None]):
    """Add an observation to a session's chain. Asked, it is answered once it is on disk; told, nobody hears of it.

    With a `mark` it is left out, and the reply is None, where the last one of the same session and kind that was kept
    had this mark. Raises `InvalidArgument` or `PayloadTooLarge`, and what the store raises.
    """

    session: ObservedSession
    new: NewObservation
    mark: str | None = None


@frozen
class FlushObservations(Message[None]):
    """Answered when everything sent before is on disk or has failed."""


class Observations(BatchActor):
    """Appends all that waits in one commit.

    Owns the tip of each of the `MOST_CHAINS` chains written last; any other is read from the store when it is needed.
    Before a commit the tips that it moves are forgotten, so that whatever became of it, the store says what comes next.
    Each place of a chain is written once: a commit on top of a tip that is no longer the last is refused as a whole.
    Marks are kept for this life of the actor. Asks the FactStore and Recall. Source: governance contract 2.
    """

    # Payloads of the largest size make a batch no larger than what the log is cut back to.
    batch_limit: ClassVar[int] = 64

    def __init__(
        self,
        facts: Mailbox,
        recall: Mailbox,
        clock: Clock,
        signer: ReceiptSigner,
        *,
        failures: FailureCount,
        most_payload_bytes: int = MOST_PAYLOAD_BYTES,
    ) -> None:
        self._facts = facts
        self._recall = recall
        self._clock = clock
        self._signer = signer
        self._failures = failures
        self._most_payload_bytes = most_payload_bytes
        self._tips: OrderedDict[str, Tip] = OrderedDict()
        self._marks: OrderedDict[_Place, str] = OrderedDict()

    async def handle(self, messages: Sequence[Message[Any]]) -> Sequence[object]:
        outcomes: list[object] = [None] * len(messages)
        appends: dict[int, AppendObservation] = {}
        for place, message in enumerate(messages):
            if isinstance(message, AppendObservation):
                try:
                    check_observation(message.new, self._most_payload_bytes)
                except CruxError as refusal:
                    outcomes[place] = refusal
                else:
                    appends[place] = message
        for place, outcome in zip(appends, await self._keep(tuple(appends.values())), strict=True):
            outcomes[place] = outcome
        return outcomes

    async def _keep(self, appends: Sequence[AppendObservation]) -> Sequence[ObservationRecord | CruxError | None]:
        try:
            try:
                return await self._commit(appends)
            except Conflict:
                # An earlier commit, of which no answer came in time, was made after all: the store knows the tips.
                return await self._commit(appends)
        except CruxError as error:
            self._failures.failed(len(appends), error.message)
            return [error] * len(appends)

    async def _commit(self, appends: Sequence[AppendObservation]) -> Sequence[ObservationRecord | None]:
        tips: dict[str, Tip] = {}
        marks: dict[_Place, str] = {}
        steps: list[Message[Stored]] = []
        kept: list[ObservationRecord | None] = []
        for append in appends:
            entity, place = append.session.entity, (append.session.entity, append.new.kind)
            if append.mark is not None:
                if append.mark == marks.get(place, self._marks.get(place)):
                    kept.append(None)
                    continue
                marks[place] = append.mark
            record = sealed(
                append.new,
                append.session,
                tips.get(entity) or await self._tip(entity),
                observation_id=str(uuid.uuid4()),
                now_us=self._clock.now_us(),
                signer=self._signer,
            )
            tips[entity] = tip_after(record)
            steps.append(Put(observation_draft(append.session, record), expected_version=0))
            kept.append(record)
        if steps:
            for entity in tips:
                self._tips.pop(entity, None)
            await self._facts.ask(Transact(tuple(steps)))
            self._failures.worked()
        for entity, tip in tips.items():
            put_latest(self._tips, entity, tip, MOST_CHAINS)
        for place, mark in marks.items():
            put_latest(self._marks, place, mark, MOST_CHAINS)
        return kept

    async def _tip(self, entity: str) -> Tip | None:
        if (known := self._tips.get(entity)) is not None:
            return known
        last = await self._recall.ask(Last(entity))
        return None if last is None else tip_after(observation_kept_in(last))
