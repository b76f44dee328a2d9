"""What an envelope says of the facts that an answer shows."""

from typing import Any

import pytest

from crux.domain.decay import DecayPolicy, Freshness, Horizon
from crux.domain.envelope import Envelope, Remembered, envelope_of_facts
from crux.domain.facts import Fact, Recalls
from crux.domain.privacy import NEVER_NAMED
from crux.domain.recall import Autonomy

HOUR = 3_600_000_000
DAY = 24 * HOUR
NOW = 1_800_000_000_000_000


def fact(fact_id: str = "f_1", **changes: Any) -> Fact:
    fields = {"entity": "a", "key": "k", "value": "v", "tenant": "default", "version": 1, "tokens": 1}
    return Fact(fact_id=fact_id, **{"stored_at_us": NOW, **fields, **changes})


def enveloped(*facts: Fact, agent: str | None = None) -> Envelope:
    return envelope_of_facts(
        facts, agent=agent, node_id="ab", base_url="http://127.0.0.1:14800", now_us=NOW, policy=DecayPolicy()
    )


def test_an_answer_without_facts_draws_on_nothing() -> None:
    assert enveloped() == Envelope((), (), Autonomy("facts:read", 0, "node:ab"), (), {})


def test_receipts_are_named_once_in_the_order_seen_and_the_first_can_be_verified() -> None:
    found = enveloped(
        fact("f_1", source_receipt="r2"),
        fact("f_2"),
        fact("f_3", source_receipt="r1"),
        fact("f_4", source_receipt="r2"),
    )
    assert found.receipts_used == ("r2", "r1")
    assert found.links == {"verify": "http://127.0.0.1:14800/v1/receipts/r2/verification?tenant_id=default"}
    assert [memory.fact_id for memory in found.memories_used] == ["f_1", "f_2", "f_3", "f_4"]


def test_an_agent_s_call_draws_on_the_agent() -> None:
    assert enveloped(agent="bob").autonomy_consumed == Autonomy("facts:read", 0, "agent:bob")


@pytest.mark.parametrize("prefix", NEVER_NAMED)
def test_a_reserved_fact_is_not_named(prefix: str) -> None:
    assert enveloped(fact(entity=f"{prefix}x", source_receipt="r")).memories_used == ()
    assert enveloped(fact(entity=f"{prefix}x", source_receipt="r")).receipts_used == ()


@pytest.mark.parametrize(
    ("age", "days", "hours", "state"),
    [
        (0, 0, 0, Freshness.FRESH),
        (HOUR - 1, 0, 0, Freshness.FRESH),
        (31 * DAY - 1, 30, 31 * 24 - 1, Freshness.FRESH),
        (31 * DAY, 31, 31 * 24, Freshness.STALE),
        (-1, None, None, Freshness.UNKNOWN),
    ],
)
def test_a_fact_without_a_horizon_is_fresh_for_thirty_days(
    age: int, days: int | None, hours: int | None, state: Freshness
) -> None:
    (memory,) = enveloped(fact(stored_at_us=NOW - age)).memories_used
    assert memory == Remembered("f_1", "a", days, hours, state)


@pytest.mark.parametrize(
    ("age", "state"), [(DAY, Freshness.FRESH), (DAY + 1, Freshness.STALE), (-1, Freshness.UNKNOWN)]
)
def test_a_fact_with_a_horizon_decays_as_everywhere(age: int, state: Freshness) -> None:
    (memory,) = enveloped(fact(stored_at_us=NOW - age, horizon=Horizon.VOLATILE)).memories_used
    assert memory.freshness == state


def test_the_age_counts_from_the_last_confirmation() -> None:
    (memory,) = enveloped(fact(stored_at_us=NOW - 90 * DAY, reverified_at_us=NOW - HOUR)).memories_used
    assert (memory.age_days, memory.age_hours) == (0, 1)


def test_a_fact_that_is_recalled_often_is_as_fresh_as_its_row_says() -> None:
    recalled = fact(stored_at_us=NOW - DAY - 1, horizon=Horizon.VOLATILE, recalls=Recalls(10, NOW))
    (memory,) = enveloped(recalled).memories_used
    assert memory.freshness is Freshness.FRESH
