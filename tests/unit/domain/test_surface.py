import json
from pathlib import Path

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.session_capabilities import CAPABILITIES
from crux.domain.surface import (
    BIASES,
    INTENT_TTL_S,
    MOST_INTENT_CHARACTERS,
    IntentRecord,
    SurfaceMode,
    boosts,
    intent_in,
    shape,
)

SECOND = 1_000_000
NOW = 1_800_000_000 * SECOND


@frozen
class Tool:
    name: str
    affinity: str | None = None
    floor_rank: int | None = None


CATALOGUE = tuple(
    Tool(tool["name"], tool.get("affinity"), tool.get("floor_rank"))
    for tool in json.loads((Path(__file__).parents[2] / "data" / "catalogue.json").read_text(encoding="utf-8"))
    if tool["name"] != "request_passport_mint"
)
FLOOR = [
    "cuecrux_session",
    "query",
    "query_scan",
    "query_expand",
    "store_fact",
    "query_facts",
    "get_bootstrap",
    "memory_view",
    "save_session",
    "get_session",
    "get_agent_identity",
    "get_passport",
    "receipt_verify",
    "sync_status",
    "create_handoff",
    "accept_handoff",
]
AUDIT = [
    "list_observations",
    "get_observation",
    "verify_observation",
    "record_decision",
    "declare_constraint",
    "get_constraints",
    "check_constraints",
    "audit_config",
    "check_config_audit",
    "audit_export_bundle",
    "tool_trace_recent",
    "learn",
]
MEMORY = [
    "delete_fact",
    "list_entities",
    "fact_history",
    "memory_acknowledge_use",
    "memory_forget",
    "memory_forget_dry_run",
    "memory_edit",
    "memory_pin",
    "memory_history",
    "memory_freshness",
    "memory_sweep_candidates",
    "memory_set_horizon",
]
SESSION = [
    "list_sessions",
    "delete_session",
    "archive_session",
    "unarchive_session",
    "get_workspace_storyline",
    "register_repo",
    "list_repos",
]


def names(mode: SurfaceMode, intent: str | None, calls: list[str], tools: tuple[Tool, ...] = CATALOGUE) -> list[str]:
    return [tool.name for tool in shape(mode, intent, calls, tools)]


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("minimal", SurfaceMode.MINIMAL),
        (" Dynamic\t", SurfaceMode.DYNAMIC),
        ("MINIMAL", SurfaceMode.MINIMAL),
        ("full", SurfaceMode.FULL),
        ("", SurfaceMode.FULL),
        ("minimum", SurfaceMode.FULL),
        ("dyna mic", SurfaceMode.FULL),
    ],
)
def test_a_mode_is_read_trimmed_and_in_any_case_and_a_typo_hides_nothing(text: str, mode: SurfaceMode) -> None:
    assert SurfaceMode.named(text) is mode


def test_the_full_surface_is_the_list_itself() -> None:
    assert shape(SurfaceMode.FULL, "audit_review", ["list_work"], CATALOGUE) == CATALOGUE
    assert len(CATALOGUE) == 118


def test_the_minimal_surface_is_the_floor_in_its_own_order_whatever_the_caller_does() -> None:
    assert names(SurfaceMode.MINIMAL, "audit_review", ["list_work"]) == FLOOR


@pytest.mark.parametrize("intent", [None, "", "Audit_Review", "audit_review ", "gardening"])
def test_without_one_of_the_five_intents_the_dynamic_surface_is_the_floor_and_what_was_called(
    intent: str | None,
) -> None:
    assert names(SurfaceMode.DYNAMIC, intent, []) == FLOOR
    assert names(SurfaceMode.DYNAMIC, intent, ["list_work"] * 3 + ["query"]) == [*FLOOR, "list_work"]


@pytest.mark.parametrize(
    ("intent", "beyond_the_floor"),
    [
        ("audit_review", AUDIT),
        ("compliance_export", AUDIT),
        ("document_ingest", MEMORY),
        ("session_review", SESSION + MEMORY[:5]),
        ("knowledge_query", ["get_gaps", *MEMORY[:11]]),
    ],
)
def test_each_intent_advertises_the_documented_twelve_beyond_the_floor(
    intent: str, beyond_the_floor: list[str]
) -> None:
    assert names(SurfaceMode.DYNAMIC, intent, []) == FLOOR + beyond_the_floor


def test_every_affinity_of_an_intent_belongs_to_something_and_every_affinity_of_a_tool_to_an_intent() -> None:
    biased = {affinity for bias in BIASES.values() for affinity in bias}
    of_tools = {tool.affinity for tool in CATALOGUE} - {None}
    assert of_tools <= biased
    assert biased - of_tools == {"journal", "economy"}
    assert biased <= {capability.affinity for capability in CAPABILITIES}


@pytest.mark.parametrize(
    ("calls", "boost"),
    [
        (["a"], {"a": 4}),
        (["a", "b", "a"], {"a": 8, "b": 4}),
        (["a"] * 9, {"a": 12}),
        (["b"] * 49 + ["a"] * 3, {"b": 12, "a": 4}),
        ([], {}),
    ],
)
def test_a_tool_is_boosted_by_its_calls_among_the_newest_fifty(calls: list[str], boost: dict[str, int]) -> None:
    assert boosts(calls) == boost


def test_a_recent_call_brings_in_a_tool_without_affinity_after_those_of_the_intent() -> None:
    assert names(SurfaceMode.DYNAMIC, "audit_review", ["list_work"] * 50)[16:] == AUDIT
    few = tuple(tool for tool in CATALOGUE if tool.affinity != "audit" or tool.name == "learn")
    assert names(SurfaceMode.DYNAMIC, "audit_review", ["list_work"] * 50 + ["gone"], few)[16:] == [
        "learn",
        "output_attest",
        "list_work",
        "get_gaps",
    ]


def test_an_extension_tool_shows_only_when_it_was_called() -> None:
    tools = (*(tool for tool in CATALOGUE if tool.affinity in {None, "session"}), Tool("ext.a"), Tool("ext.b"))
    assert names(SurfaceMode.DYNAMIC, "session_review", ["ext.b", "list_work"], tools)[-2:] == ["list_work", "ext.b"]
    assert "ext.a" not in names(SurfaceMode.DYNAMIC, "session_review", ["ext.b"], tools)
    assert names(SurfaceMode.FULL, None, [], tools)[-2:] == ["ext.a", "ext.b"]


some_names = st.sampled_from([f"t{n}" for n in range(24)])
some_tools = st.lists(
    st.builds(
        Tool,
        some_names,
        st.sampled_from([None, "memory", "audit", "retrieval", "session", "proof"]),
        st.none() | st.integers(1, 16),
    ),
    unique_by=lambda tool: tool.name,
).map(tuple)


@given(some_tools, st.sampled_from(sorted(BIASES)), st.lists(some_names, max_size=70))
def test_the_dynamic_surface_is_what_picking_the_best_one_by_one_gives(
    tools: tuple[Tool, ...], intent: str, calls: list[str]
) -> None:
    def score(tool: Tool) -> int:
        return BIASES[intent].get(str(tool.affinity), 0) + min(4 * calls[:50].count(tool.name), 12)

    floor = [tool for rank in range(1, 17) for tool in tools if tool.floor_rank == rank]
    rest = [tool for tool in tools if tool.floor_rank is None and score(tool) > 0]
    picks: list[Tool] = []
    while rest and len(picks) < 12:
        best = max(score(tool) for tool in rest)
        picks.append(rest.pop([score(tool) for tool in rest].index(best)))
    assert list(shape(SurfaceMode.DYNAMIC, intent, calls, tools)) == floor + picks


@given(some_tools, st.sampled_from(SurfaceMode), st.none() | st.sampled_from(sorted(BIASES)), st.lists(some_names))
def test_shaping_only_narrows(tools: tuple[Tool, ...], mode: SurfaceMode, intent: str | None, calls: list[str]) -> None:
    shaped = shape(mode, intent, calls, tools)
    assert set(shaped) <= set(tools)
    assert len(set(shaped)) == len(shaped)


def test_an_intent_is_kept_trimmed_and_as_given() -> None:
    record = IntentRecord.declared("  Audit_Review ", now_us=NOW)
    assert record == IntentRecord("Audit_Review", NOW)


@pytest.mark.parametrize(("size", "kept"), [(1, 1), (256, 256), (257, 256), (100_000, 256)])
def test_an_intent_has_a_bounded_length(size: int, kept: int) -> None:
    assert MOST_INTENT_CHARACTERS == 256
    assert intent_in(f" {'é' * size} ") == "é" * kept


def test_no_cut_makes_one_of_the_five_intents() -> None:
    assert max(map(len, BIASES)) < MOST_INTENT_CHARACTERS


@pytest.mark.parametrize("text", ["", " ", "\t\n"])
def test_a_blank_intent_leaves_no_record(text: str) -> None:
    assert IntentRecord.declared(text, now_us=NOW) is None


@pytest.mark.parametrize(
    ("age_us", "holds"),
    [(0, True), (INTENT_TTL_S * SECOND, True), (INTENT_TTL_S * SECOND + 1, False), (-5 * SECOND, True)],
)
def test_an_intent_holds_for_an_hour_to_the_microsecond(age_us: int, holds: bool) -> None:
    assert IntentRecord("audit_review", NOW).holds(now_us=NOW + age_us) is holds
