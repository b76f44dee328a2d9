"""Which capabilities a session gets, in which order, and why it gets no others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.session_capabilities import CAPABILITIES, Capability, ImplPath, Means, PassportTier, Wishes, select
from crux.domain.surface import BIASES

LOCAL = Means(PassportTier.LOCAL, ("*",))
TEAM = Means(PassportTier.TEAM, ("*",))
OFFERED_LOCALLY = [
    "session_context",
    "journal_append",
    "proof_verify",
    "memory.readable_editable",
    "memory.freshness",
    "trace.source_linked",
    "approval.risk_tiered",
    "trace.typed_actions",
    "output.verifiable_receipts",
]
ALL = [capability.cap for capability in CAPABILITIES]


def caps(means: Means = LOCAL, wishes: Wishes | None = None) -> list[str]:
    return [node.cap for node in select(means, wishes or Wishes()).nodes]


def reasons(means: Means = LOCAL, wishes: Wishes | None = None) -> dict[str, str]:
    return {one.cap: one.reason for one in select(means, wishes or Wishes()).excluded}


def test_every_capability_has_a_name_of_its_own() -> None:
    assert len(set(ALL)) == len(ALL) == 19


def test_a_local_session_gets_what_asks_for_no_tier_and_is_told_of_the_rest() -> None:
    assert caps() == OFFERED_LOCALLY
    assert reasons() == {cap: "tier" for cap in ALL if cap not in OFFERED_LOCALLY}


@pytest.mark.parametrize(
    ("tier", "beyond"),
    [
        ("local", []),
        ("free", ["retrieve", "annotation_add", "memory_get", "memory_put"]),
        ("starter", ["journal_stream", "proof_document", "economy_quote"]),
        ("pro", ["audit_replay", "get_counterfactual_summary"]),
        ("team", ["economy_spend"]),
    ],
)
def test_each_tier_has_what_the_one_below_has_and_its_own(tier: str, beyond: list[str]) -> None:
    below = list(PassportTier)[max(PassportTier(tier).rank - 1, 0)]
    assert set(caps(Means(PassportTier(tier), ("*",)))) == {*caps(Means(below, ("*",))), *beyond}


def test_what_needs_an_affinity_is_for_passports_that_have_it_and_the_session_s_context_for_all() -> None:
    memory = Means(PassportTier.LOCAL, ("memory",))
    assert caps(memory) == ["session_context", "memory.readable_editable", "memory.freshness"]
    assert reasons(memory)["retrieve"] == "affinity", "the affinity is looked at before the tier"
    assert reasons(memory)["memory_put"] == "tier"
    assert caps(Means(PassportTier.LOCAL, ())) == ["session_context"]


@pytest.mark.parametrize(("credits_left", "offered"), [(None, True), (5, True), (4, False), (0, False), (-1, False)])
def test_what_is_heavy_needs_credits_where_they_count(credits_left: int | None, offered: bool) -> None:
    heavy = ["proof_document", "audit_replay", "get_counterfactual_summary"]
    means = Means(PassportTier.TEAM, ("*",), credits_left)
    assert [cap for cap in heavy if cap in caps(means)] == (heavy if offered else [])
    assert reasons(means) == ({} if offered else dict.fromkeys(heavy, "credits"))


@pytest.mark.parametrize("prefer_bulk", [True, False])
def test_the_bulk_channel_is_preferred_where_there_is_one_unless_the_caller_wants_mcp(prefer_bulk: bool) -> None:
    bulk = {"retrieve", "session_context", "journal_stream", "proof_document", "memory_get", "audit_replay"}
    nodes = select(TEAM, Wishes(prefer_bulk=prefer_bulk)).nodes
    assert {node.cap for node in nodes if node.prefer == "bulk"} == (bulk if prefer_bulk else set())


@pytest.mark.parametrize(
    ("intent", "first"),
    [
        ("session_review", ["session_context", "memory.readable_editable", "memory.freshness", "journal_append"]),
        ("document_ingest", ["memory.readable_editable", "memory.freshness", "journal_append", "session_context"]),
        ("audit_review", ["proof_verify", "session_context"]),
        ("compliance_export", ["proof_verify", "session_context"]),
        ("knowledge_query", ["memory.readable_editable", "memory.freshness", "session_context", "journal_append"]),
        ("gardening", OFFERED_LOCALLY),
        (None, OFFERED_LOCALLY),
    ],
)
def test_an_intent_puts_first_what_suits_it_and_keeps_the_rest_in_order(intent: str | None, first: list[str]) -> None:
    ranked = caps(LOCAL, Wishes(intent))
    assert ranked == first + [cap for cap in OFFERED_LOCALLY if cap not in first]


def test_the_most_capabilities_count_with_a_known_intent_only() -> None:
    assert caps(LOCAL, Wishes("session_review", most=2)) == ["session_context", "memory.readable_editable"]
    assert caps(LOCAL, Wishes("session_review", most=0)) == []
    assert caps(LOCAL, Wishes("session_review", most=100)) == caps(LOCAL, Wishes("session_review"))
    assert caps(LOCAL, Wishes("gardening", most=2)) == caps(LOCAL, Wishes(most=2)) == OFFERED_LOCALLY
    assert reasons(LOCAL, Wishes("session_review", most=8)) == reasons() | {
        "output.verifiable_receipts": "max_capabilities"
    }


@pytest.mark.parametrize(
    ("cap", "category", "required_affinity", "min_tier"),
    [
        ("retrieve", "affinity_required", "retrieval", "free"),
        ("session_context", "public", None, None),
        ("journal_append", "affinity_required", "journal", None),
    ],
)
def test_a_node_says_what_it_asks_for(
    cap: str, category: str, required_affinity: str | None, min_tier: str | None
) -> None:
    (node,) = [node for node in select(TEAM, Wishes()).nodes if node.cap == cap]
    assert (node.category, node.required_affinity, node.min_tier) == (category, required_affinity, min_tier)
    assert (node.stability, node.since, node.attestations) == ("stable", "1.0.0", ())


def test_what_asks_for_a_tier_alone_is_gated_by_it() -> None:
    gated = Capability("x", "x", False, "Report", PassportTier.PRO, "free", None, "/x", required=False)
    (node,) = select(TEAM, Wishes(), [gated]).nodes
    assert (node.category, node.impl_path) == ("tier_gated", ImplPath(None, "/x"))


every_affinity = st.sampled_from(sorted({"*", *(capability.affinity for capability in CAPABILITIES)}))
every_means = st.builds(
    Means, st.sampled_from(PassportTier), st.lists(every_affinity).map(tuple), st.none() | st.integers(-9, 9)
)
every_wish = st.builds(
    Wishes, st.none() | st.sampled_from([*sorted(BIASES), "else"]), st.booleans(), st.none() | st.integers(0, 25)
)


@given(every_means, every_wish)
def test_every_capability_is_offered_or_excluded_and_the_order_is_that_of_the_bias(
    means: Means, wishes: Wishes
) -> None:
    selection = select(means, wishes)
    offered = [node.cap for node in selection.nodes]
    assert sorted([*offered, *(one.cap for one in selection.excluded)]) == sorted(ALL)
    bias = BIASES.get(wishes.intent or "", {})
    affinity = {capability.cap: capability.affinity for capability in CAPABILITIES}
    assert offered == sorted(offered, key=lambda cap: (-bias.get(affinity[cap], 0), ALL.index(cap)))
    if wishes.most is not None and bias:
        assert len(offered) <= wishes.most


@given(every_means, every_means)
def test_more_means_never_give_less(one: Means, other: Means) -> None:
    credits_left = [left for left in (one.credits_left, other.credits_left) if left is not None]
    both = Means(
        max(one.tier, other.tier, key=lambda tier: tier.rank),
        one.affinities + other.affinities,
        max(credits_left) if len(credits_left) == 2 else None,
    )
    assert set(caps(one)) | set(caps(other)) <= set(caps(both))
