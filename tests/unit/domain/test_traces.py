import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crux.domain import traces
from crux.domain.traces import (
    MOST_ENTRIES,
    MOST_NAME_BYTES,
    MOST_SIGNATURE_BYTES,
    Effect,
    Outcome,
    PredictedEffect,
    Ring,
    Said,
    Trace,
    TraceEntry,
    said_by,
    signature_of,
    trace_of,
    without_reserved,
)

NOW = 1_800_000_000_000_000

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\,=é☃'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


def traced(tool: str, effect: Effect, arguments: object, *, ok: bool = True, ts_us: int = NOW, **more: Any) -> Trace:
    return trace_of(tool, effect, arguments, msgspec.json.encode(arguments), ok=ok, ts_us=ts_us, **more)


def trace(tool: str = "query", ts_us: int = NOW, entity: str = "") -> Trace:
    return traced(tool, Effect.FACT_READ, {"entity": entity}, ts_us=ts_us)


def entry(tool: str = "query", entity: str = "") -> TraceEntry:
    return trace(tool, entity=entity).entry()


def test_an_entry_holds_what_the_call_says_of_itself() -> None:
    arguments = {"entity": "service:billing", "key": "owner", "value": "x", "turn_id": "t-1"}
    made = traced("store_fact", Effect.FACT_WRITE, arguments, ok=True, ts_us=NOW, response_tokens=12).entry()
    assert msgspec.to_builtins(made) == {
        "tool": "store_fact",
        "turn_id": "t-1",
        "ts_us": NOW,
        "predicted_effects": ({"kind": "fact_write", "entity": "service:billing", "key": "owner", "ts_us": NOW},),
        "outcome": "ok",
        "signature": 'store_fact(entity="service:billing",key="owner",turn_id="t-1",value="x")',
        "response_tokens": 12,
    }


def test_an_entry_shows_only_what_is_there() -> None:
    made = traced("sync_status", Effect.TOOL_DISPATCH, None, ok=False).entry()
    assert made.outcome is Outcome.ERROR
    assert list(msgspec.to_builtins(made)) == ["tool", "ts_us", "predicted_effects", "outcome", "signature"]


@pytest.mark.parametrize("arguments", [None, [], "entity", {}, {"entity": 1, "key": None}, {"entity": ["a"]}])
def test_an_effect_without_text_arguments_is_on_nothing(arguments: object) -> None:
    shown = traced("memory_forget", Effect.FORGET, arguments).entry()
    assert shown.predicted_effects == (PredictedEffect(Effect.FORGET, "", "", NOW),)


@given(st.integers(0, 2 * MOST_SIGNATURE_BYTES), st.booleans())
@example(MOST_SIGNATURE_BYTES - len('{"entity":"","turn_id":"t"}'), True)
@example(MOST_SIGNATURE_BYTES - len('{"entity":"","turn_id":"t"}') + 1, True)
def test_a_call_says_the_same_whether_its_arguments_were_short_or_long(length: int, tagged: bool) -> None:
    arguments = {"entity": "x" * length, **({"turn_id": "t"} if tagged else {})}
    kept = traced("t", Effect.FACT_READ, arguments)
    assert kept.said == said_by("t", arguments)
    short = len(msgspec.json.encode(arguments)) <= MOST_SIGNATURE_BYTES
    assert isinstance(kept.arguments, bytes if short else Said)


@pytest.mark.parametrize(
    ("arguments", "signature"),
    [
        ({"b": 1, "a": "x"}, 't(a="x",b=1)'),
        ({"a": {"z": [1, "é", None], "b": True, "page": 2}}, 't(a={b=true,page=2,z=[1,"é",null]})'),
        ({"a": {}, "b": []}, "t(a={},b=[])"),
        ({"a": 1.5, "b": 'say "hi"'}, 't(a=1.5,b="say \\"hi\\"")'),
        ({}, "t()"),
        (None, "t()"),
        ([1, 2], "t()"),
        ("text", "t()"),
    ],
)
def test_a_signature_is_the_arguments_in_one_order(arguments: object, signature: str) -> None:
    assert signature_of("t", arguments) == signature


@pytest.mark.parametrize(
    "paging",
    ["offset", "cursor", "page", "page_token", "after", "before", "start", "from", "next", "continuation", "skip"],
)
def test_pages_of_one_listing_have_one_signature(paging: str) -> None:
    assert signature_of("t", {"query": "x", paging: 1}) == 't(query="x")'


def in_full(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{key}={in_full(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(in_full, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


@given(st.dictionaries(st.text("ab"), json_values, max_size=3))
def test_a_short_signature_is_the_whole_call(arguments: dict[str, Any]) -> None:
    full = f"t({in_full(arguments)[1:-1]})"
    if len(full.encode()) <= MOST_SIGNATURE_BYTES:
        assert signature_of("t", arguments) == full


@pytest.mark.parametrize("letter", ["a", "é", "☃"])
def test_a_signature_is_whole_up_to_its_bound_and_cut_beyond_it(letter: str) -> None:
    room = MOST_SIGNATURE_BYTES - len('t(a="",b="")')
    wide, rest = divmod(room, len(letter.encode()))
    longest = {"a": letter * wide, "b": "x" * rest}
    assert signature_of("t", longest) == f't(a="{letter * wide}",b="{"x" * rest}")'
    assert len(signature_of("t", longest).encode()) == MOST_SIGNATURE_BYTES
    over = signature_of("t", {**longest, "b": "x" * (rest + 1)})
    assert MOST_SIGNATURE_BYTES - len(letter.encode()) < len(over.encode()) <= MOST_SIGNATURE_BYTES
    start, _, ending = over.partition("…#blake3:")
    assert f't(a="{letter * wide}'.startswith(start)
    assert len(ending) == 16


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"value": "x" * 5000 + "1"}, {"value": "x" * 5000 + "2"}),
        ({"items": list(range(3000))}, {"items": list(range(3001))}),
        ({"a": {str(n): n for n in range(2000)}}, {"a": {str(n): n + (n == 1999) for n in range(2000)}}),
    ],
)
def test_long_calls_that_differ_have_signatures_that_differ(one: object, other: object) -> None:
    assert signature_of("t", one) != signature_of("t", other)
    assert signature_of("t", one) == signature_of("t", one)


def test_long_calls_for_two_pages_of_one_listing_have_one_signature() -> None:
    query = {"query": "x" * 5000}
    assert signature_of("t", {**query, "page": 1}) == signature_of("t", {**query, "page": 2})


def size_of(made: TraceEntry) -> int:
    (effect,) = made.predicted_effects
    texts = [made.tool, made.turn_id or "", effect.entity, effect.key, made.signature or ""]
    return sum(len(text.encode()) for text in texts)


@pytest.mark.parametrize(
    ("length", "kept"), [(MOST_NAME_BYTES, MOST_NAME_BYTES), (MOST_NAME_BYTES + 1, MOST_NAME_BYTES)]
)
def test_each_name_in_an_entry_is_cut(length: int, kept: int) -> None:
    text = "x" * length
    made = traced(text, Effect.FACT_READ, {"entity": text, "key": text, "turn_id": text}).entry()
    (effect,) = made.predicted_effects
    assert {len(made.tool), len(made.turn_id or ""), len(effect.entity), len(effect.key)} == {kept}


def test_an_entry_of_the_largest_call_is_small() -> None:
    huge = "☃" * 1_000_000
    made = traced(huge, Effect.FACT_WRITE, {"entity": huge, "key": huge, "turn_id": huge, huge: huge})
    assert isinstance(made.arguments, Said)
    assert size_of(made.entry()) <= MOST_SIGNATURE_BYTES + 4 * MOST_NAME_BYTES


@pytest.mark.parametrize("depth", [1, 200])
def test_a_signature_reaches_as_deep_as_json_may_be_nested(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    assert signature_of("t", {"a": value}) == f"t(a={'[' * depth}1{']' * depth})"


MOST_SMALL = 5


# Steps of the clock, back as well; None is a read.
@given(st.lists(st.none() | st.integers(-30, 60), max_size=40), st.integers(0, 100))
@example([0] * (MOST_SMALL + 1) + [None], 0)
@example([0, 10, None, 1, None], 10)
def test_a_ring_holds_what_a_list_that_is_swept_each_time_holds(steps: list[int | None], ttl_us: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traces, "MOST_ENTRIES", MOST_SMALL)
        ring, model, now_us = Ring(ttl_us), list[Trace](), NOW
        for number, step in enumerate(steps):
            now_us += step or 0
            if step is not None:
                fresh = trace(f"t{number}", now_us)
                ring.push(fresh)
                model.append(fresh)
            model = model[-MOST_SMALL:]
            while model and model[0].ts_us < now_us - ttl_us:
                del model[0]
            assert ring.newest(100, now_us=now_us) == tuple(reversed(model))
            assert ring.newest(2, now_us=now_us) == tuple(reversed(model))[:2]


def test_a_ring_holds_five_thousand_entries() -> None:
    ring = Ring(0)
    for number in range(MOST_ENTRIES):
        ring.push(trace(f"t{number}"))
    assert [made.tool for made in ring.newest(MOST_ENTRIES + 1, now_us=NOW)][-1] == "t0"
    ring.push(trace("last"))
    held = [made.tool for made in ring.newest(MOST_ENTRIES + 1, now_us=NOW)]
    assert (len(held), held[0], held[-1]) == (MOST_ENTRIES, "last", "t1")


@pytest.mark.parametrize(("age_us", "held"), [(3_600_000_000, 1), (3_600_000_001, 0)])
def test_an_entry_is_read_until_it_is_too_old(age_us: int, held: int) -> None:
    ring = Ring(3_600_000_000)
    ring.push(trace())
    assert len(ring.newest(10, now_us=NOW + age_us)) == held


@pytest.mark.parametrize(
    "entity",
    [
        "__agent::bob::x",
        "__ops::x",
        "__bootstrap__::doc:x",
        "__session_binding__::x",
        "__reverify_receipts__::x",
        "__agent::" + "x" * 1000,
    ],
)
def test_an_effect_on_a_reserved_entity_is_not_shown_and_its_entry_is(entity: str) -> None:
    made = entry(entity=entity)
    assert without_reserved(made) == msgspec.structs.replace(made, predicted_effects=())


@pytest.mark.parametrize("entity", ["", "service:billing", "__ops__::x", "a__agent::x"])
def test_an_effect_on_any_other_entity_is_shown(entity: str) -> None:
    made = entry(entity=entity)
    assert without_reserved(made) == made
