"""The audit envelope: what a call's answer draws on, for whoever has to account for it (protocol contract 7).

It goes out beside the result and never inside it (Decision 3).
"""

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from crux.domain.decay import DAY_US, HOUR_US, DecayPolicy, Freshness, Horizon, freshness
from crux.domain.facts import DEFAULT_TENANT, Fact
from crux.domain.privacy import NEVER_NAMED, split_entity
from crux.domain.recall import Autonomy

# How old a fact without a horizon may be and still count as fresh here.
FRESH_DAYS = 30


@frozen
class Remembered:
    """One fact that an answer draws on; ages are whole hours and days, None where the fact is from the future."""

    fact_id: str
    topic: str
    age_days: int | None
    age_hours: int | None
    freshness: Freshness


@frozen
class Envelope:
    """The receipts and facts that an answer draws on, in the answer's order, receipts once each."""

    receipts_used: tuple[str, ...]
    memories_used: tuple[Remembered, ...]
    autonomy_consumed: Autonomy
    predicted_effects: tuple[object, ...] = ()
    links: Mapping[str, str] = field(factory=dict)


def envelope_of_facts(
    facts: Iterable[Fact], *, agent: str | None, node_id: str, base_url: str, now_us: int, policy: DecayPolicy
) -> Envelope:
    """The envelope of an answer that shows `facts`. `base_url` is that of the HTTP API, without a trailing slash."""
    named = [fact for fact in facts if not fact.entity.startswith(NEVER_NAMED)]
    receipts = tuple(dict.fromkeys(fact.source_receipt for fact in named if fact.source_receipt is not None))
    verify = f"{base_url}/v1/receipts/{receipts[0]}/verification?tenant_id={DEFAULT_TENANT}" if receipts else None
    return Envelope(
        receipts_used=receipts,
        memories_used=tuple(_remembered(fact, now_us, policy) for fact in named),
        autonomy_consumed=Autonomy("facts:read", 0, f"node:{node_id}" if agent is None else f"agent:{agent}"),
        links={"verify": verify} if verify else {},
    )


def _remembered(fact: Fact, now_us: int, policy: DecayPolicy) -> Remembered:
    age_us = now_us - fact.anchor_us
    known = age_us >= 0
    return Remembered(
        fact_id=fact.fact_id,
        topic=split_entity(fact.entity)[1],
        age_days=age_us // DAY_US if known else None,
        age_hours=age_us // HOUR_US if known else None,
        freshness=_freshness(fact, age_us, now_us, policy),
    )


def _freshness(fact: Fact, age_us: int, now_us: int, policy: DecayPolicy) -> Freshness:
    if fact.horizon is not Horizon.NONE:
        return freshness(fact.horizon, fact.anchor_us, now_us, policy, fact.salience)
    if age_us < 0:
        return Freshness.UNKNOWN
    return Freshness.FRESH if age_us // DAY_US <= FRESH_DAYS else Freshness.STALE
