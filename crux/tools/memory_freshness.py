"""The janitor's tools: what has gone stale, and what to do about it (memory contract 8)."""

from __future__ import annotations

import secrets

import msgspec
from attrs import frozen

from crux.domain.decay import Freshness, Horizon, age_hours, freshness
from crux.domain.facts import Fact, shown_to
from crux.domain.features import Feature, check_on
from crux.domain.instants import rfc3339
from crux.domain.memory import Aging, Reverify, SetHorizon
from crux.domain.traces import Effect
from crux.tools.budgets import fitting
from crux.tools.callers import passport
from crux.tools.envelopes import with_envelope
from crux.tools.registry import Call, tool
from crux.tools.results import WithMeta
from crux.tools.schema import arg

MOST_ROWS = 500
ROWS_TOKENS = 500


class Policy(msgspec.Struct, frozen=True):
    volatile_stale_hours: int
    medium_stale_days: int
    stable_stale_days: int


@frozen
class FreshnessArguments:
    entity: str | None = arg("Only facts of exactly this entity", default=None)
    key: str | None = arg("Only this key", default=None)
    top_k: int = arg("Most rows returned, up to 500", default=20, at_least=1, clamp=MOST_ROWS)
    token_budget: int = arg("Most tokens of rows returned", default=ROWS_TOKENS, at_least=0)


class FreshnessRow(msgspec.Struct, frozen=True, kw_only=True):
    fact_id: str
    entity: str
    key: str
    horizon_class: Horizon
    freshness: Freshness
    age_hours: int
    stored_at: str
    reverified_at: str | None


class FreshnessListed(msgspec.Struct, frozen=True, kw_only=True):
    rows: tuple[FreshnessRow, ...]
    policy: Policy
    now: str
    left_out: int = 0


@tool(
    "memory_freshness",
    plane="memory",
    result=FreshnessListed,
    effect=Effect.FACT_READ,
    affinity="memory",
    envelope=True,
    examples=[{"top_k": 10, "token_budget": 500}],
)
async def memory_freshness(args: FreshnessArguments, call: Call) -> FreshnessListed | WithMeta:
    """List facts the oldest first with how far each can be relied on: fresh, stale or unknown, its age and its horizon.
    Take memory_sweep_candidates for only those that are past it. Values are not shown; query_facts has them."""
    check_on(Feature.FRESHNESS, call.services.switched_off)
    now_us = call.services.clock.now_us()
    facts = await call.services.recall.ask(Aging(call.viewer, now_us, args.entity, args.key, args.top_k))
    rows = [_row(fact, call, now_us) for fact in facts]
    shown = fitting("memory_freshness", rows, args.token_budget, call)
    policy = call.services.decay
    answer = FreshnessListed(
        rows=tuple(rows[:shown]),
        policy=Policy(policy.volatile_hours, policy.medium_days, policy.stable_days),
        now=rfc3339(now_us),
        left_out=len(rows) - shown,
    )
    return with_envelope(answer, facts[:shown], call, now_us)


@frozen
class SweepArguments:
    top_k: int = arg("Most rows returned, up to 500", default=50, at_least=1, clamp=MOST_ROWS)
    token_budget: int = arg("Most tokens of rows returned", default=ROWS_TOKENS, at_least=0)


class SweepRow(msgspec.Struct, frozen=True, kw_only=True):
    fact_id: str
    entity: str
    key: str
    reason: str
    freshness: Freshness
    horizon_class: Horizon
    age_hours: int
    superseded_by: str | None
    stored_at: str


class SweepListed(msgspec.Struct, frozen=True, kw_only=True):
    rows: tuple[SweepRow, ...]
    dry_run: bool = True
    now: str
    left_out: int = 0


@tool(
    "memory_sweep_candidates",
    plane="memory",
    result=SweepListed,
    effect=Effect.FACT_READ,
    affinity="memory",
    examples=[{"token_budget": 500}],
)
async def memory_sweep_candidates(args: SweepArguments, call: Call) -> SweepListed:
    """List what could be tidied away, the oldest first: facts that are stale, replaced, or both. Changes nothing.
    Answer a stale one with memory_reverify or a new value, a replaced one with memory_forget."""
    check_on(Feature.FRESHNESS, call.services.switched_off)
    now_us = call.services.clock.now_us()
    facts = await call.services.recall.ask(Aging(call.viewer, now_us, limit=args.top_k, out_of_date=True))
    rows = [_candidate(fact, call, now_us) for fact in facts]
    shown = fitting("memory_sweep_candidates", rows, args.token_budget, call)
    return SweepListed(rows=tuple(rows[:shown]), now=rfc3339(now_us), left_out=len(rows) - shown)


@frozen
class HorizonArguments:
    fact_id: str = arg("Id of the fact")
    horizon_class: Horizon = arg("How fast it goes stale: volatile a day, medium 35 days, stable a year, none never")


class HorizonSet(msgspec.Struct, frozen=True):
    fact_id: str
    horizon_class: Horizon
    ok: bool


class NotThere(msgspec.Struct, frozen=True):
    """There is no such fact for the caller (Decision 16)."""

    found: bool
    fact_id: str


@tool(
    "memory_set_horizon",
    plane="memory",
    result=HorizonSet,
    effect=Effect.FACT_WRITE,
    affinity="memory",
    examples=[{"fact_id": "f_example", "horizon_class": "stable"}],
)
async def memory_set_horizon(args: HorizonArguments, call: Call) -> HorizonSet | NotThere:
    """Change how fast one fact goes stale, in place and for good; its value and age stay. To say that it still holds,
    take memory_reverify. Returns found: false where there is no such fact for you."""
    passport("memory_set_horizon", call)
    check_on(Feature.FRESHNESS, call.services.switched_off)
    found = await call.services.facts.ask(SetHorizon(args.fact_id, args.horizon_class, call.viewer))
    return HorizonSet(args.fact_id, args.horizon_class, ok=True) if found else NotThere(False, args.fact_id)


@frozen
class ReverifyArguments:
    fact_id: str = arg("Id of the fact that you have checked")


class FactReverified(msgspec.Struct, frozen=True):
    fact_id: str
    receipt_id: str
    receipt_class: str
    reverified_at: str


@tool(
    "memory_reverify",
    plane="memory",
    result=FactReverified,
    effect=Effect.RECEIPT_EMIT,
    affinity="memory",
    examples=[{"fact_id": "f_example"}],
)
async def memory_reverify(args: ReverifyArguments, call: Call) -> FactReverified | NotThere:
    """Say that you have checked a fact and it still holds: its age begins anew, and a receipt of who said so is kept.
    Where it no longer holds, store the new value instead. Returns the receipt, or found: false."""
    agent = passport("memory_reverify", call)
    check_on(Feature.FRESHNESS, call.services.switched_off)
    receipt_id = f"rev_{secrets.token_hex(16)}"
    at_us = await call.services.facts.ask(Reverify(args.fact_id, receipt_id, call.viewer, agent))
    if at_us is None:
        return NotThere(False, args.fact_id)
    return FactReverified(args.fact_id, receipt_id, "Reverify", rfc3339(at_us))


def _row(fact: Fact, call: Call, now_us: int) -> FreshnessRow:
    return FreshnessRow(
        fact_id=fact.fact_id,
        entity=shown_to(call.viewer, fact) or fact.entity,
        key=fact.key,
        horizon_class=fact.horizon,
        freshness=freshness(fact.horizon, fact.anchor_us, now_us, call.services.decay),
        age_hours=age_hours(fact.anchor_us, now_us),
        stored_at=rfc3339(fact.stored_at_us),
        reverified_at=None if fact.reverified_at_us is None else rfc3339(fact.reverified_at_us),
    )


def _candidate(fact: Fact, call: Call, now_us: int) -> SweepRow:
    state = freshness(fact.horizon, fact.anchor_us, now_us, call.services.decay)
    reasons = {"stale": state is Freshness.STALE, "superseded": fact.superseded_by is not None}
    return SweepRow(
        fact_id=fact.fact_id,
        entity=shown_to(call.viewer, fact) or fact.entity,
        key=fact.key,
        reason="+".join(reason for reason, holds in reasons.items() if holds),
        freshness=state,
        horizon_class=fact.horizon,
        age_hours=age_hours(fact.anchor_us, now_us),
        superseded_by=fact.superseded_by,
        stored_at=rfc3339(fact.stored_at_us),
    )
