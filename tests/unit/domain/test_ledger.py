import json
from typing import Any

import msgspec
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.canonical import canonical_json
from crux.domain.ledger import MOST_RAW_ARGS_BYTES, Invocation, invocation, observation_of, offer
from crux.domain.observations import NewObservation, check_observation
from crux.domain.surface import SurfaceMode
from crux.domain.traces import MOST_NAME_BYTES, Effect, trace_of

NOW = 1_800_000_000_000_000


def hash_of(text: str) -> str:
    return f"blake3:{blake3(text.encode()).hexdigest()[:16]}"


def called(arguments: object, ok: bool = True, **more: Any) -> Invocation:
    entry = trace_of(
        "store_fact", Effect.FACT_WRITE, arguments, msgspec.json.encode(arguments), ok=ok, ts_us=NOW
    ).entry()
    known: dict[str, Any] = {"label": "store_fact", "passport": "alice", "result_bytes": 402, "elapsed_s": 0.0012341}
    return invocation(entry, arguments, canonical_json(arguments), **(known | more))


def payload_of(new: NewObservation) -> dict[str, Any]:
    payload: dict[str, Any] = json.loads(new.payload)
    return payload


def test_a_call_is_written_down_with_all_that_is_known_of_it() -> None:
    arguments = {"key": "k", "entity": "e", "turn_id": "t-1", "session_id": "s-1", "token_budget": 500}
    text = '{"entity":"e","key":"k","session_id":"s-1","token_budget":500,"turn_id":"t-1"}'
    new = observation_of(called(arguments, request_id=7, raw_args=True))
    assert (new.kind, new.provider, new.principal) == ("agent.tool_invocation.v1", "crux-mcp", None)
    assert payload_of(new) == {
        "tool": "store_fact",
        "passport": "alice",
        "args_hash": hash_of(text),
        "result_bytes": 402,
        "est_tokens_in": len(text) // 4,
        "est_tokens_out": 100,
        "latency_ms": 1.234,
        "outcome": "ok",
        "predicted_effects": [{"kind": "fact_write", "entity": "e", "key": "k", "ts_us": NOW}],
        "turn_id": "t-1",
        "session_id": "s-1",
        "token_budget_in": 500,
        "request_id": 7,
        "args_raw": arguments,
    }


@pytest.mark.parametrize("arguments", [{}, None, {"session_id": 1, "turn_id": 2, "token_budget": "all"}])
def test_what_is_not_known_is_absent(arguments: object) -> None:
    new = observation_of(called(arguments, ok=False, label="unknown"))
    shown = payload_of(new)
    assert (shown["tool"], shown["outcome"]) == ("unknown", "error")
    assert shown.keys() & {"turn_id", "session_id", "token_budget_in", "request_id", "args_raw"} == set()


def test_the_hash_of_arguments_does_not_depend_on_their_order() -> None:
    assert called({"a": 1, "b": 2}).args_hash == called({"b": 2, "a": 1}).args_hash
    assert called({"a": 1}).args_hash != called({"a": 2}).args_hash
    assert called(None).args_hash == hash_of("null")


@pytest.mark.parametrize(("length", "is_there"), [(MOST_RAW_ARGS_BYTES, True), (MOST_RAW_ARGS_BYTES + 1, False)])
def test_large_arguments_are_in_the_ledger_by_their_hash_alone(length: int, is_there: bool) -> None:
    arguments = {"a": "x" * (length - len('{"a":""}'))}
    assert (called(arguments, raw_args=True).args_raw is not None) == is_there


@given(st.text() | st.integers() | st.none(), st.text(), st.text())
def test_a_long_id_is_cut(request_id: str | int | None, session_id: str, turn_id: str) -> None:
    huge = called(
        {"session_id": session_id * 1000, "turn_id": turn_id * 1000},
        request_id=request_id * 1000 if isinstance(request_id, str) else request_id,
    )
    for text in (huge.session_id, huge.turn_id, huge.request_id):
        assert not isinstance(text, str) or len(text.encode()) <= MOST_NAME_BYTES
    check_observation(observation_of(huge))


def test_an_offer_is_written_down_in_its_order() -> None:
    new = observation_of(offer("alice", ["query", "ext.a.b"], SurfaceMode.DYNAMIC))
    assert (new.kind, new.provider) == ("agent.tools_offered.v1", "crux-mcp")
    assert payload_of(new) == {
        "passport": "alice",
        "tools": ["query", "ext.a.b"],
        "count": 2,
        "surface_mode": "dynamic",
        "set_hash": hash_of("query\next.a.b"),
    }


def test_the_hash_of_an_offer_depends_on_its_order_alone() -> None:
    def hashed(*tools: str, passport: str = "alice", mode: SurfaceMode = SurfaceMode.FULL) -> str:
        return offer(passport, tools, mode).set_hash

    assert hashed("a", "b") == hashed("a", "b", passport="bob", mode=SurfaceMode.DYNAMIC)
    assert len({hashed(), hashed("a"), hashed("a", "b"), hashed("b", "a")}) == 4
