"""What the handshake leaves behind, in which order, and what it does not touch when it fails."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec
import pytest

from crux.actors.intents import CurrentIntent, DeclareIntent
from crux.actors.mailbox import Mailbox
from crux.domain.commands import Entities, Head, Put, Transact
from crux.domain.messages import Message
from crux.domain.privacy import ANONYMOUS, RAW_ADMIN, Viewer
from crux.domain.session_plan import BINDING_KEY, BINDING_PREFIX, PLAN_KEY, PLAN_PREFIX
from crux.errors import InvalidArgument, Overloaded, StorageFull
from crux.tools.registry import Call, Services
from crux.tools.session import Hints, cuecrux_session, open_session
from tests.conftest import Stack
from tests.session_plans import graph_hash_of, plan_hash_of

R = TypeVar("R")


def by(services: Services, agent: str | None = "alice") -> Call:
    return Call(agent, ANONYMOUS if agent is None else Viewer((agent,)), services)


async def opened(call: Call, **arguments: object) -> dict[str, Any]:
    result = await cuecrux_session.run(cuecrux_session.parse(arguments), call)
    found: dict[str, Any] = json.loads(msgspec.json.encode(result))
    return found


async def kept(stack: Stack, entity: str, key: str) -> str:
    fact = await stack.services.recall.ask(Head(entity, key))
    assert fact is not None
    return fact.value


@pytest.mark.parametrize(("agent", "key"), [("alice", "alice"), (None, "__anon__")])
async def test_a_caller_is_known_by_its_name_and_all_others_together(stack: Stack, agent: str | None, key: str) -> None:
    assert by(stack.services, agent).passport_key == key


@pytest.mark.parametrize(("agent", "passport"), [("alice", "alice"), (None, "personal-default")])
async def test_a_session_is_kept_as_it_was_served_with_whose_it_is(
    stack: Stack, agent: str | None, passport: str
) -> None:
    plan = await opened(by(stack.services, agent), intent="session_review")
    session = plan["session_id"]
    assert json.loads(await kept(stack, PLAN_PREFIX + session, PLAN_KEY)) == plan
    binding = json.loads(await kept(stack, BINDING_PREFIX + session, BINDING_KEY))
    assert (binding["session_id_hex"], binding["passport_id"]) == (session, passport)
    assert plan["capability_graph_hash"] == graph_hash_of(plan)
    assert plan["receipt"]["hash"] == plan_hash_of(plan)
    assert plan["minted_at"] == stack.clock.us // 1000
    assert plan["channels"]["mcp"] == stack.services.mcp_url


async def test_no_two_sessions_have_an_id_in_common_and_no_caller_sees_their_records(stack: Stack) -> None:
    plans = [await opened(by(stack.services)) for _ in range(3)]
    assert len({plan[name] for plan in plans for name in ("plan_id", "session_id")}) == 6
    assert await stack.services.recall.ask(Entities(Viewer(("alice",)))) == ()
    assert len(await stack.services.recall.ask(Entities(RAW_ADMIN))) == 6


async def test_an_intent_is_declared_for_its_caller_before_the_plan_is_returned(stack: Stack) -> None:
    plan = await opened(by(stack.services), intent=" gardening ")
    assert plan["intent_hint"] == "gardening"
    assert await stack.services.intents.ask(CurrentIntent("alice")) == "gardening"
    assert await stack.services.intents.ask(CurrentIntent("bob")) is None
    await opened(by(stack.services, None), intent="audit_review")
    assert await stack.services.intents.ask(CurrentIntent("__anon__")) == "audit_review"


@pytest.mark.parametrize(
    ("arguments", "left"),
    [({}, "audit_review"), ({"intent": None}, "audit_review"), ({"intent": ""}, None), ({"intent": " \n"}, None)],
)
async def test_a_blank_intent_clears_the_earlier_one_and_an_absent_one_leaves_it(
    stack: Stack, arguments: dict[str, object], left: str | None
) -> None:
    await opened(by(stack.services), intent="audit_review")
    assert (await opened(by(stack.services), **arguments))["intent_hint"] is None
    assert await stack.services.intents.ask(CurrentIntent("alice")) == left


@pytest.mark.parametrize("intent", ["document_ingest", ""])
async def test_a_plan_that_cannot_be_kept_fails_the_call_and_leaves_the_intent_as_it_was(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, intent: str
) -> None:
    await opened(by(stack.services), intent="audit_review")

    async def full(commands: list[object], now_us: int) -> list[Exception]:
        return [StorageFull("the disk is full")] * len(commands)

    monkeypatch.setattr(stack.engine, "commit", full)
    with pytest.raises(StorageFull):
        await opened(by(stack.services), intent=intent)
    assert await stack.services.intents.ask(CurrentIntent("alice")) == "audit_review"


async def test_both_records_of_a_session_are_one_write_and_an_intent_that_is_not_taken_fails_the_call(
    stack: Stack,
) -> None:
    asked: list[Message[Any]] = []

    async def ask(mailbox: Mailbox, message: Message[R], /) -> R:
        asked.append(message)
        if mailbox is stack.services.intents:
            raise Overloaded("intents is overloaded")
        return await mailbox.ask(message)

    with pytest.raises(Overloaded):
        await open_session(by(stack.services), "audit_review", Hints(), ask)
    write, declaration = asked
    assert isinstance(write, Transact)
    assert [(step.draft.key, step.expected_version) for step in write.steps if isinstance(step, Put)] == [
        (PLAN_KEY, 0),
        (BINDING_KEY, 0),
    ]
    assert declaration == DeclareIntent("alice", "audit_review")


async def test_the_hints_shape_the_plan(stack: Stack) -> None:
    call = by(stack.services)
    plan = await opened(
        call,
        intent="session_review",
        hints={"max_capabilities": 3, "prefer_bulk": False, "want_parent_chain": True, "hide_exclusions": True},
    )
    assert [node["cap"] for node in plan["capability_graph"]] == [
        "session_context",
        "memory.readable_editable",
        "memory.freshness",
    ]
    assert {node["prefer"] for node in plan["capability_graph"]} == {"mcp"}
    assert (plan["receipt"]["parent_chain"], plan["graph"]["excluded"]) == ([], None)
    plain = await opened(call, hints={"max_capabilities": 3})
    assert len(plain["capability_graph"]) == 9
    assert plain["capability_graph"][0]["prefer"] == "bulk"
    assert (plain["receipt"]["parent_chain"], len(plain["graph"]["excluded"])) == (None, 10)


async def test_of_a_long_intent_a_plan_holds_the_start(stack: Stack) -> None:
    plan = await opened(by(stack.services), intent="x" * 300)
    assert plan["intent_hint"] == "x" * 256
    assert await stack.services.intents.ask(CurrentIntent("alice")) == "x" * 256


async def test_unknown_arguments_are_ignored(stack: Stack) -> None:
    plan = await opened(by(stack.services), token_budget=5, hints={"colour": "green"})
    assert len(plan["capability_graph"]) == 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"intent": 7}, "'intent' must be a string, got 7"),
        ({"hints": "fast"}, "'hints' must be an object, got \"fast\""),
        ({"hints": {"max_capabilities": -1}}, "'hints.max_capabilities' must be an integer, at least 0, got -1"),
        ({"hints": {"prefer_bulk": 1}}, "'hints.prefer_bulk' must be true or false, got 1"),
    ],
)
def test_a_wrong_hint_is_refused_by_its_path(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        cuecrux_session.parse(arguments)
    assert caught.value.message == message
