"""The Gaps: what was looked for and not found, written down beside the searches."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any

from crux.actors.actor import BatchActor
from crux.actors.mailbox import Mailbox
from crux.domain.bounds import put_latest
from crux.domain.commands import Erase, Put, Records, Transact
from crux.domain.documents import MOST_TENANTS
from crux.domain.gaps import MOST_GAPS, NoteGap, draft_of, entity_of, queries_of
from crux.domain.messages import Message
from crux.errors import CruxError


class Gaps(BatchActor):
    """Owns, for each tenant, how many searches came upon each of the `MOST_GAPS` latest gaps.

    All that waits is one write: a storm of searches costs one commit after another, never one each. A gap that cannot
    be written is counted as refused and lost. Asks the FactStore, and Recall once for each tenant.
    """

    def __init__(self, facts: Mailbox, recall: Mailbox) -> None:
        self._facts = facts
        self._recall = recall
        self._known: OrderedDict[str, OrderedDict[str, int]] = OrderedDict()

    async def handle(self, messages: Sequence[Message[Any]]) -> Sequence[object]:
        gaps = [message for message in messages if isinstance(message, NoteGap)]
        latest = {(gap.tenant, gap.key): gap for gap in gaps}
        queries = Counter((gap.tenant, gap.key) for gap in gaps)
        try:
            steps: list[Message[Any]] = []
            for place, gap in latest.items():
                steps += await self._steps(gap, queries[place])
            await self._facts.ask(Transact(tuple(steps)))
        except CruxError as error:
            self._known.clear()  # read again: what is in the store counts
            return [error] * len(messages)
        return [None] * len(messages)

    async def _steps(self, gap: NoteGap, queries: int) -> list[Message[Any]]:
        """What writes down a gap that this many searches came upon, and makes room for it."""
        known = await self._of_tenant(gap.tenant)
        oldest = next(iter(known), None)
        makes_room = gap.key not in known and len(known) == MOST_GAPS
        total = known.get(gap.key, 0) + queries
        put_latest(known, gap.key, total, MOST_GAPS)
        steps: list[Message[Any]] = [Put(draft_of(gap, total), keep_history=False)]
        if makes_room and oldest is not None:
            steps.append(Erase(entity_of(gap.tenant), oldest, gap.tenant))
        return steps

    async def _of_tenant(self, tenant: str) -> OrderedDict[str, int]:
        known = self._known.get(tenant)
        if known is None:
            found = await self._recall.ask(Records(entity_of(tenant), tenant))
            mine = (fact for fact in found if fact.entity == entity_of(tenant))
            known = OrderedDict(
                (fact.key, queries_of(fact)) for fact in sorted(mine, key=lambda fact: fact.stored_at_us)
            )
            put_latest(self._known, tenant, known, MOST_TENANTS)
        return known
