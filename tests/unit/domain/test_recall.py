from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.decay import Freshness, Horizon
from crux.domain.recall import Recalled, content_hash, crc_answer, legacy_answer

CONSOLE = "http://127.0.0.1:14800/console"

PLAN = Recalled(
    fact_id="f_1",
    entity="alpha",
    key="plan",
    value="ship it",
    confidence=0.5,
    effective_confidence=0.25,
    horizon_class=Horizon.MEDIUM,
    freshness=Freshness.STALE,
    age_hours=900,
    superseded_by=None,
    actor="agent-a",
)
OWNER = Recalled(
    fact_id="f_2",
    entity="beta",
    key="owner",
    value="Zoë",
    confidence=0.25,
    effective_confidence=0.25,
    horizon_class=Horizon.NONE,
    freshness=Freshness.FRESH,
    age_hours=0,
    superseded_by="f_9",
    actor=None,
)

PLAN_ROW = (
    '{"fact_id":"f_1","entity":"alpha","key":"plan","value":"ship it","confidence":0.5,"effective_confidence":0.25,'
    '"horizon_class":"medium","freshness":"stale","age_hours":900,"superseded_by":null,"actor":"agent-a"}'
)
OWNER_ROW = (
    '{"fact_id":"f_2","entity":"beta","key":"owner","value":"Zoë","confidence":0.25,"effective_confidence":0.25,'
    '"horizon_class":"none","freshness":"fresh","age_hours":0,"superseded_by":"f_9","actor":null}'
)
PLAN_POINTER = '{"id":"f_1","score":0.25,"epitome":"alpha plan = ship it","reason":"Exact"}'
OWNER_POINTER = '{"id":"f_2","score":0.25,"epitome":"beta owner = Zoë","reason":"Exact"}'
PLAN_CONTENT = '{"id":"f_1","text":"ship it"}'
OWNER_CONTENT = '{"id":"f_2","text":"Zoë"}'
PLAN_USED = '{"fact_id":"f_1","topic":"alpha","freshness":"stale"}'
OWNER_USED = '{"fact_id":"f_2","topic":"beta","freshness":"fresh"}'

FULL_TOKENS = [
    len("".join(parts).encode()) // 4
    for parts in (
        (PLAN_ROW, PLAN_POINTER, PLAN_CONTENT, PLAN_USED),
        (OWNER_ROW, OWNER_POINTER, OWNER_CONTENT, OWNER_USED),
    )
]


def encoded(answer: object) -> str:
    return msgspec.json.encode(answer).decode()


def crc(rows: list[Recalled], total: int | None = None, **changes: Any) -> dict[str, Any]:
    asked = {"query": "x", "entity": None, "token_budget": None, "filtered_below_threshold": 0, "console_url": CONSOLE}
    total = len(rows) if total is None else total
    answer: dict[str, Any] = msgspec.json.decode(encoded(crc_answer(rows, total, **{**asked, **changes})))
    return answer


def tokens(*parts: object) -> int:
    return max(sum(len(msgspec.json.encode(part)) for part in parts) // 4, 1)


def test_facts_in_full_have_this_json() -> None:
    answer = crc_answer(
        [PLAN, OWNER],
        2,
        query="ship",
        entity=None,
        token_budget=None,
        filtered_below_threshold=3,
        console_url=CONSOLE,
    )
    assert encoded(answer) == (
        '{"contract":"crc-v1","kind":"fact","hydrate_tier":"full",'
        f'"pointers":[{PLAN_POINTER},{OWNER_POINTER}],'
        f'"content":[{PLAN_CONTENT},{OWNER_CONTENT}],'
        '"cost_estimate":{"pointer":80,"summary":300,"full":2},'
        '"agent_decision":null,'
        '"envelope":{"freshness":{"effective_confidence":0.25,"age_hours":900,"horizon_class":"medium",'
        '"superseded_by":null},"receipts_used":[],'
        f'"memories_used":[{PLAN_USED},{OWNER_USED}],'
        '"autonomy_consumed":{"capability":"facts:read","cost_credits":0,"scope":"agent"},'
        '"links":{"open_in_console":"http://127.0.0.1:14800/console"}},'
        '"next":{"canonical_slug":"alpha","resolution_pointer":null,"expand":null},'
        '"meta":{"resolved_by":"query","ranked":true},'
        f'"rows":[{PLAN_ROW},{OWNER_ROW}],"filtered_below_threshold":3}}'
    )


def test_a_fact_that_the_budget_demotes_has_this_json() -> None:
    answer = crc_answer(
        [PLAN, OWNER],
        5,
        query="ship",
        entity="alpha",
        token_budget=sum(FULL_TOKENS) - 1,
        filtered_below_threshold=0,
        console_url=CONSOLE,
    )
    demoted = OWNER_POINTER.replace('"Exact"', f'"Demoted","content_hash":"{content_hash("Zoë")}"')
    assert encoded(answer) == (
        '{"contract":"crc-v1","kind":"fact","hydrate_tier":"mixed",'
        f'"pointers":[{PLAN_POINTER},{demoted}],'
        f'"content":[{PLAN_CONTENT}],'
        '"cost_estimate":{"pointer":80,"summary":300,"full":2},'
        '"agent_decision":null,'
        '"envelope":{"freshness":{"effective_confidence":0.25,"age_hours":900,"horizon_class":"medium",'
        '"superseded_by":null},"receipts_used":[],'
        f'"memories_used":[{PLAN_USED},{OWNER_USED}],'
        '"autonomy_consumed":{"capability":"facts:read","cost_credits":0,"scope":"agent"},'
        '"links":{"open_in_console":"http://127.0.0.1:14800/console"}},'
        '"next":{"canonical_slug":"alpha","resolution_pointer":null,"expand":null},'
        '"meta":{"resolved_by":"entity+key","ranked":false,"demoted":1,"total_candidates":5,"emitted_full":1,"capped":3},'
        f'"rows":[{PLAN_ROW}],"filtered_below_threshold":0}}'
    )


def test_nothing_found_is_the_same_object_with_empty_lists() -> None:
    answer = crc_answer(
        [], 0, query=None, entity=None, token_budget=10, filtered_below_threshold=1, console_url=CONSOLE
    )
    assert encoded(answer) == (
        '{"contract":"crc-v1","kind":"fact","hydrate_tier":"full","pointers":[],"content":[],'
        '"cost_estimate":{"pointer":0,"summary":0,"full":0},"agent_decision":null,'
        '"envelope":{"freshness":{"effective_confidence":null,"age_hours":null,"horizon_class":null,'
        '"superseded_by":null},"receipts_used":[],"memories_used":[],'
        '"autonomy_consumed":{"capability":"facts:read","cost_credits":0,"scope":"agent"},'
        '"links":{"open_in_console":"http://127.0.0.1:14800/console"}},'
        '"next":{"canonical_slug":null,"resolution_pointer":null,"expand":null},'
        '"meta":{"resolved_by":"query","ranked":false},"rows":[],"filtered_below_threshold":1}'
    )


def test_plain_rows_have_this_json() -> None:
    answer = legacy_answer([PLAN, OWNER], token_budget=None, filtered_below_threshold=3)
    assert encoded(answer) == f'{{"rows":[{PLAN_ROW},{OWNER_ROW}],"filtered_below_threshold":3}}'
    answer = legacy_answer([PLAN, OWNER], token_budget=0, filtered_below_threshold=0)
    assert encoded(answer) == f'{{"rows":[{PLAN_ROW}],"filtered_below_threshold":0,"left_out":1}}'


@pytest.mark.parametrize(
    ("query", "entity", "resolved_by", "ranked"),
    [
        ("x", None, "query", True),
        (None, None, "query", False),
        ("x", "e", "entity+key", False),
        (None, "e", "entity+key", False),
    ],
)
def test_meta_says_how_the_facts_were_found(
    query: str | None, entity: str | None, resolved_by: str, ranked: bool
) -> None:
    assert crc([PLAN], query=query, entity=entity)["meta"] == {"resolved_by": resolved_by, "ranked": ranked}


@pytest.mark.parametrize(("rows", "slug"), [([], "asked"), ([OWNER], "asked")])
def test_the_entity_asked_for_is_the_next_slug(rows: list[Recalled], slug: str) -> None:
    assert crc(rows, entity="asked")["next"]["canonical_slug"] == slug


def test_the_best_fact_gives_the_envelope_its_freshness() -> None:
    assert crc([OWNER, PLAN])["envelope"]["freshness"] == {
        "effective_confidence": 0.25,
        "age_hours": 0,
        "horizon_class": "none",
        "superseded_by": "f_9",
    }


@pytest.mark.parametrize("rows", [[PLAN], []])
def test_matches_beyond_top_k_show_in_the_meta(rows: list[Recalled]) -> None:
    answer = crc(rows, total=7)
    assert answer["hydrate_tier"] == "full"
    assert answer["meta"] == {
        "resolved_by": "query",
        "ranked": True,
        "demoted": 0,
        "total_candidates": 7,
        "emitted_full": len(rows),
        "capped": 7 - len(rows),
    }


def test_a_budget_that_takes_everything_leaves_no_trace() -> None:
    assert crc([PLAN, OWNER], token_budget=sum(FULL_TOKENS)) == crc([PLAN, OWNER])


def test_the_first_fact_is_kept_in_full_whatever_the_budget() -> None:
    answer = crc([PLAN, OWNER], token_budget=0)
    assert [pointer["id"] for pointer in answer["pointers"]] == ["f_1"]
    assert answer["hydrate_tier"] == "full"
    assert answer["meta"]["capped"] == 1


@pytest.mark.parametrize(
    ("entity", "key", "value", "epitome"),
    [
        ("e", "k", "v", "e k = v"),
        ("e", "k", "v" * 74, "e k = " + "v" * 74),
        ("e", "k", "v" * 75, "e k = " + "v" * 74),
        ("e" * 90, "k", "v", "e" * 80),
        ("e", "k" * 90, "v", "e " + "k" * 78),
        ("e", "k", "é" * 50, "e k = " + "é" * 37),
        ("e", "kk", "é" * 50, "e kk = " + "é" * 36),
        ("", "", "日" * 80, "  = " + "日" * 25),
        ("e", "k", "😀" * 30, "e k = " + "😀" * 18),
    ],
)
def test_an_epitome_ends_on_a_character_within_80_bytes(entity: str, key: str, value: str, epitome: str) -> None:
    row = msgspec.structs.replace(PLAN, entity=entity, key=key, value=value)
    assert crc([row])["pointers"][0]["epitome"] == epitome


@given(st.text(max_size=90), st.text(max_size=90), st.text(max_size=90))
def test_an_epitome_is_the_longest_start_of_the_fact_that_fits(entity: str, key: str, value: str) -> None:
    whole = f"{entity} {key} = {value}"
    epitome = crc([msgspec.structs.replace(PLAN, entity=entity, key=key, value=value)])["pointers"][0]["epitome"]
    assert whole.startswith(epitome)
    assert len(epitome.encode()) <= 80
    assert epitome == whole or len(whole[: len(epitome) + 1].encode()) > 80


@pytest.mark.parametrize(("text", "digits"), [("", "blake3:af1349b9f5f9a1a6"), ("abc", "blake3:6437b3ac38465133")])
def test_a_content_hash_is_the_start_of_blake3(text: str, digits: str) -> None:
    assert content_hash(text) == digits


rows_of_any_size = st.lists(
    st.builds(
        Recalled,
        fact_id=st.text("0123456789abcdef", min_size=1, max_size=34),
        entity=st.text(max_size=20),
        key=st.text(max_size=10),
        value=st.text(max_size=30) | st.integers(0, 600).map(lambda n: "v" * n),
        confidence=st.floats(0, 1),
        effective_confidence=st.floats(0, 1),
        horizon_class=st.sampled_from(Horizon),
        freshness=st.sampled_from(Freshness),
        age_hours=st.integers(0, 100_000),
        superseded_by=st.none() | st.just("f_9"),
        actor=st.none() | st.just("agent-a"),
    ),
    max_size=8,
)
budgets = st.integers(0, 1200)


def by_brute_force(rows: list[Recalled], budget: int) -> tuple[int, int]:
    """Of all splits into full facts, pointers and the rest that are allowed and fit, the fullest, then the longest."""
    shown = crc(rows)
    full_cost = [
        tokens(row, pointer, content, used)
        for row, pointer, content, used in zip(
            rows, shown["pointers"], shown["content"], shown["envelope"]["memories_used"], strict=True
        )
    ]
    pointer_cost = [
        tokens({**pointer, "reason": "Demoted", "content_hash": f"blake3:{'0' * 16}"}, used)
        for pointer, used in zip(shown["pointers"], shown["envelope"]["memories_used"], strict=True)
    ]
    return max(
        (full, demoted)
        for full in range(min(1, len(rows)), len(rows) + 1)
        for demoted in range(len(rows) - full + 1)
        if full + demoted <= 1 or sum(full_cost[:full]) + sum(pointer_cost[full : full + demoted]) <= budget
    )


@given(rows_of_any_size, budgets)
def test_the_budget_is_filled_as_the_brute_force_model_fills_it(rows: list[Recalled], budget: int) -> None:
    answer = crc(rows, token_budget=budget)
    full = len(answer["content"])
    assert (full, len(answer["pointers"]) - full) == by_brute_force(rows, budget)


@given(rows_of_any_size, budgets, st.integers(0, 5))
def test_full_facts_come_first_and_the_counts_add_up(rows: list[Recalled], budget: int, beyond_top_k: int) -> None:
    total = len(rows) + beyond_top_k
    answer = crc(rows, total, token_budget=budget)
    emitted, full = len(answer["pointers"]), len(answer["content"])
    assert [p["id"] for p in answer["pointers"]] == [row.fact_id for row in rows[:emitted]]
    assert [p["reason"] for p in answer["pointers"]] == ["Exact"] * full + ["Demoted"] * (emitted - full)
    assert [p.get("content_hash") for p in answer["pointers"]] == [None] * full + [
        content_hash(row.value) for row in rows[full:emitted]
    ]
    assert answer["content"] == [{"id": row.fact_id, "text": row.value} for row in rows[:full]]
    assert answer["rows"] == msgspec.to_builtins(rows[:full])
    assert len(answer["envelope"]["memories_used"]) == emitted
    assert answer["hydrate_tier"] == ("mixed" if full < emitted else "full")
    assert answer["cost_estimate"] == {
        "pointer": 40 * emitted,
        "summary": 150 * emitted,
        "full": sum(len(row.value.encode()) // 4 for row in rows[:emitted]),
    }
    meta = answer["meta"]
    if full < total:
        assert (meta["demoted"], meta["total_candidates"], meta["emitted_full"]) == (emitted - full, total, full)
        assert emitted + meta.get("capped", 0) == total
        assert meta.get("capped") != 0
    else:
        assert meta.keys() == {"resolved_by", "ranked"}


@given(rows_of_any_size, budgets)
def test_no_more_than_the_first_fact_goes_over_the_budget(rows: list[Recalled], budget: int) -> None:
    answer = crc(rows, token_budget=budget)
    full = len(answer["content"])
    used = answer["envelope"]["memories_used"]
    costs = [
        tokens(*parts) for parts in zip(answer["rows"], answer["pointers"], answer["content"], used, strict=False)
    ] + [tokens(*parts) for parts in zip(answer["pointers"][full:], used[full:], strict=True)]
    assert sum(costs) <= max(budget, *costs[:1], 0)


@given(rows_of_any_size, budgets)
def test_plain_rows_fill_the_budget_from_the_first_on(rows: list[Recalled], budget: int) -> None:
    answer = legacy_answer(rows, token_budget=budget, filtered_below_threshold=0)
    costs = [tokens(row) for row in rows]
    fitting = max(n for n in range(len(rows) + 1) if n <= 1 or sum(costs[:n]) <= budget)
    assert answer.rows == tuple(rows[:fitting])
    assert answer.left_out == len(rows) - fitting
