"""Salience: what is recalled often goes stale later, where that is switched on."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from attrs import evolve

from crux.domain.commands import Search
from crux.domain.privacy import ANONYMOUS
from crux.tools.facts import query_facts, store_fact
from crux.tools.registry import Call, Services
from tests.conftest import Stack

HOUR = 3_600_000_000


async def called(services: Services, tool: Any, **arguments: object) -> Any:
    result = await tool.run(tool.parse(arguments), Call(None, ANONYMOUS, services))
    return msgspec.json.decode(msgspec.json.encode(result))


async def freshness_after_recalls(stack: Stack, *, salience: bool, budget: int | None = None) -> list[str]:
    """The state of two volatile facts of 25 hours, the first of which was recalled ten times within the budget."""
    services = evolve(stack.services, salience=salience)
    for key in ("often", "once"):
        fact = {"entity": "a", "key": key, "value": "v" * 400, "horizon_class": "volatile"}
        await called(services, store_fact, **fact, confidence=1.0 if key == "often" else 0.5)
    for _ in range(10):
        await called(services, query_facts, entity="a", top_k=2, token_budget=budget)
    stack.clock.us += 25 * HOUR
    rows = (await called(services, query_facts, entity="a"))["rows"]
    return [row["freshness"] for row in sorted(rows, key=lambda row: row["key"])]


async def test_a_recalled_fact_stays_fresh_for_longer(stack: Stack) -> None:
    assert await freshness_after_recalls(stack, salience=True) == ["fresh", "fresh"]
    facts = (await stack.services.recall.ask(Search(viewer=ANONYMOUS, now_us=stack.clock.us))).facts
    assert [fact.recalls.count for fact in facts if fact.recalls] == [11, 11]


async def test_what_a_budget_kept_out_was_not_recalled(stack: Stack) -> None:
    assert await freshness_after_recalls(stack, salience=True, budget=300) == ["fresh", "stale"]


@pytest.mark.parametrize("budget", [None, 300])
async def test_without_the_switch_nothing_is_counted(stack: Stack, budget: int | None) -> None:
    assert await freshness_after_recalls(stack, salience=False, budget=budget) == ["stale", "stale"]
    facts = (await stack.services.recall.ask(Search(viewer=ANONYMOUS, now_us=stack.clock.us))).facts
    assert [fact.recalls for fact in facts] == [None, None]
