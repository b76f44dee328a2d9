"""One tool call on its way: who may make it, what is recorded of it, and what comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import structlog.testing
import trio
from attrs import evolve, frozen
from trio.testing import MockClock

from crux.domain.capability import CapabilityRefused
from crux.domain.privacy import Viewer
from crux.domain.rcx_validation import examine
from crux.domain.revocation import Revocation
from crux.domain.router import Router
from crux.errors import ActorFailed, CruxError, InvalidArgument, MethodNotFound, UnknownTool
from crux.tools.pipeline import Finished, call_tool
from crux.tools.registry import Call, Catalogue, Services, tool
from crux.tools.results import RawResult
from crux.tools.schema import arg
from tests.rcx_tokens import ISSUED_AT, PUBLIC, minted


@frozen
class Arguments:
    behaviour: str = arg("What to do", default="answer")


@tool("learn", plane="test", result=Arguments)
async def learn(args: Arguments, call: Call) -> object:
    """Answer, take two seconds, refuse, be switched off, or break."""
    match args.behaviour:
        case "slow":
            await trio.sleep(2)
        case "refuse":
            raise InvalidArgument("no, because")
        case "off":
            raise MethodNotFound("switched off")
        case "break":
            raise ZeroDivisionError("a bug")
        case "nonsense":
            return object()
        case "raw":
            return RawResult.failure("soft")
    return {"done": args.behaviour}


@pytest.fixture
def services(deaf_services: Services) -> Services:
    return evolve(deaf_services, catalogue=Catalogue.of([learn]))


@frozen
class Recorder:
    finished: list[Finished]

    def __call__(self, call: Call, finished: Finished) -> None:
        self.finished.append(finished)


async def called(services: Services, params: object, agent: str | None = None) -> tuple[Any, list[Finished]]:
    """The result, or the error that was raised, and what was recorded."""
    recorder = Recorder([])
    call = Call(agent, Viewer((agent,) if agent else ()), services)
    result: Any
    try:
        result = json.loads(await call_tool(params, call, recorder))
    except Exception as error:
        result = error
    return result, recorder.finished


async def test_a_call_is_answered_and_recorded_once(services: Services, autojump_clock: MockClock) -> None:
    arguments = {"behaviour": "slow"}
    result, (finished,) = await called(services, {"name": "learn", "arguments": arguments})
    assert result == {"content": [{"type": "text", "text": '{"done":"slow"}'}]}
    assert finished == Finished(
        "learn",
        learn,
        arguments,
        b"null",
        ok=True,
        output_bytes=len(json.dumps(result, separators=(",", ":"))),
        elapsed_s=2.0,
    )
    assert finished.label == "learn"


@pytest.mark.parametrize("params", [None, {}, [], "learn", {"name": 7}, {"arguments": {}}])
async def test_a_call_without_a_name_is_refused_and_not_recorded(services: Services, params: object) -> None:
    error, recorded = await called(services, params)
    assert isinstance(error, InvalidArgument)
    assert error.message == 'tools/call requires a "name" parameter'
    assert recorded == []


@pytest.mark.parametrize(
    ("name", "behaviour", "error", "label"),
    [
        ("learn", "refuse", InvalidArgument, "learn"),
        ("learn", "break", ActorFailed, "learn"),
        ("learn", "nonsense", ActorFailed, "learn"),
        ("learn", "off", MethodNotFound, "unknown"),
        ("nothing", "", UnknownTool, "unknown"),
    ],
)
async def test_a_failure_is_recorded_with_the_size_of_its_message(
    services: Services, name: str, behaviour: str, error: type[CruxError], label: str
) -> None:
    raised, (finished,) = await called(services, {"name": name, "arguments": {"behaviour": behaviour}})
    assert type(raised) is error
    assert (finished.name, finished.label, finished.ok) == (name, label, False)
    assert finished.output_bytes == len(raised.message)


@pytest.mark.parametrize("behaviour", ["answer", "refuse"])
async def test_a_bug_in_what_records_calls_is_logged_and_changes_no_answer(services: Services, behaviour: str) -> None:
    def broken(call: Call, finished: Finished) -> None:
        raise ZeroDivisionError("a bug")

    params = {"name": "learn", "arguments": {"behaviour": behaviour}}
    expected, _ = await called(services, params)
    with structlog.testing.capture_logs() as logs:
        try:
            result = json.loads(await call_tool(params, Call(None, Viewer(()), services), broken))
        except InvalidArgument as refusal:
            result = refusal
    assert str(result) == str(expected)
    assert [(entry["event"], entry["tool"]) for entry in logs] == [("a call was not recorded", "learn")]


async def test_a_bug_is_told_as_an_incident_and_nothing_else(services: Services) -> None:
    error, _ = await called(services, {"name": "learn", "arguments": {"behaviour": "break"}})
    assert error.message == f"internal error, logged as {error.data['incident']}"
    assert "bug" not in error.message


async def test_a_name_is_echoed_only_so_far(services: Services) -> None:
    error, _ = await called(services, {"name": "n" * 201})
    assert error.message == "unknown tool: " + "n" * 200


def with_router(services: Services) -> Services:
    return evolve(services, router=Router(examine(minted(), PUBLIC)))


async def test_a_call_that_the_token_permits_is_carried_out(services: Services) -> None:
    assert services.clock.now_us() == ISSUED_AT * 1_000_000
    result, recorded = await called(with_router(services), {"name": "learn"})
    assert result["content"]
    assert len(recorded) == 1


@pytest.mark.parametrize("name", ["store_fact", "no_such_tool"])
async def test_a_call_that_the_token_does_not_permit_goes_no_further(services: Services, name: str) -> None:
    error, recorded = await called(with_router(services), {"name": name})
    assert isinstance(error, CapabilityRefused)
    assert error.data is not None
    assert error.data["reason_code"] == "denied:capability_not_permitted"
    assert recorded == []


def revoking(services: Services, who: str) -> Services:
    async def revocation_of(agent: str) -> Revocation | None:
        return Revocation("leaked") if agent == who else None

    return evolve(services, revocations=revocation_of)


@pytest.mark.parametrize("name", ["learn", "no_such_tool"])
async def test_a_revoked_agent_is_told_so_in_a_result(services: Services, name: str) -> None:
    result, (finished,) = await called(revoking(services, "bob"), {"name": name}, "bob")
    assert result["isError"] is True
    (item,) = result["content"]
    assert item["text"].startswith(f"{name} is refused: your passport was revoked (leaked)")
    assert not finished.ok


@pytest.mark.parametrize("agent", ["eve", None])
async def test_others_and_anonymous_callers_are_not_held_up(services: Services, agent: str | None) -> None:
    result, _ = await called(revoking(services, "bob"), {"name": "learn"}, agent)
    assert "isError" not in result


async def test_the_token_is_asked_before_the_revocations(services: Services) -> None:
    error, _ = await called(revoking(with_router(services), "bob"), {"name": "store_fact"}, "bob")
    assert isinstance(error, CapabilityRefused)


async def test_a_soft_failure_is_a_result_and_counts_as_a_failed_call(services: Services) -> None:
    result, (finished,) = await called(services, {"name": "learn", "arguments": {"behaviour": "raw"}})
    assert result == {"content": [{"type": "text", "text": "soft"}], "isError": True}
    assert not finished.ok


@pytest.mark.parametrize("behaviour", ["answer", "refuse", "break"])
async def test_a_tool_runs_inside_its_span(services: Services, behaviour: str) -> None:
    seen: list[tuple[str, str | None, str]] = []

    @contextmanager
    def span(name: str, agent: str | None) -> Iterator[None]:
        seen.append((name, agent, "opened"))
        try:
            yield
        finally:
            seen.append((name, agent, "closed"))

    params = {"name": "learn", "arguments": {"behaviour": behaviour}}
    await called(evolve(services, span=span), params, "bob")
    assert seen == [("learn", "bob", "opened"), ("learn", "bob", "closed")]
