"""The rules of facts that need no store."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.decay import Horizon
from crux.domain.facts import Draft, Fact, check_deletable, check_retirable, draft_fact, next_version, shown_to
from crux.domain.privacy import (
    ANONYMOUS,
    DAEMON_PREFIXES,
    RAW_ADMIN,
    PrivacyRules,
    Viewer,
    private_entity,
    reserved_prefix,
    split_entity,
)
from crux.domain.words import LONGEST_QUERY, LONGEST_WORD, MOST_WORDS, query_words
from crux.errors import Denied, InvalidArgument

RULES = PrivacyRules()
BOB = Viewer(("bob",))


def draft(entity: str, viewer: Viewer = BOB, **more: object) -> Draft:
    return draft_fact(entity=entity, key="k", value="v", viewer=viewer, rules=RULES, **more)  # type: ignore[arg-type]


def fact(entity: str, *, private: bool = False, deleted: bool = False, fact_id: str = "f_1") -> Fact:
    return Fact(fact_id, "default", entity, "k", "v", 1, 1, 1, private=private, deleted=deleted)


@pytest.mark.parametrize("prefix", [*DAEMON_PREFIXES, "__agent::"])
def test_names_of_the_daemon_are_not_written(prefix: str) -> None:
    with pytest.raises(InvalidArgument, match="belong to the daemon"):
        draft(f"{prefix}x")


@pytest.mark.parametrize(
    "entity", ["__bootstrap__::pattern:x", "decisions::1", "github::x", "a", "agent::x", "__agent"]
)
def test_other_names_are_written(entity: str) -> None:
    assert draft(entity).entity == entity


def test_a_private_fact_is_stored_under_its_owner() -> None:
    assert draft("plan", private=True).entity == "__agent::bob::plan"
    with pytest.raises(InvalidArgument, match="need an owner"):
        draft("plan", ANONYMOUS, private=True)


@pytest.mark.parametrize(
    ("entity", "private"),
    [("a", False), ("__bootstrap__::x", True), ("decisions::1", True), ("github::x", True), ("console:page:1", True)],
)
def test_some_names_are_private_from_birth(entity: str, private: bool) -> None:
    assert draft(entity).private is private


def test_the_operator_adds_and_exempts_prefixes_but_never_the_daemon_s() -> None:
    rules = PrivacyRules(always_private=("team:",), shared=("github::", "__work__::", "team:public:"))
    assert rules.is_private("team:x")
    assert not rules.is_private("team:public:x")
    assert not rules.is_private("github::x")
    assert rules.is_private("github::x", requested=True)
    assert rules.is_private("__work__::x")
    assert rules.is_private(private_entity("bob", "github::x"))


@pytest.mark.parametrize(
    ("given_horizon", "prose", "horizon"),
    [
        (None, None, Horizon.NONE),
        (Horizon.STABLE, "2 hours", Horizon.STABLE),
        (None, "2 hours", Horizon.VOLATILE),
        (None, "whatever", Horizon.NONE),
    ],
)
def test_a_named_horizon_wins_over_prose(given_horizon: Horizon | None, prose: str | None, horizon: Horizon) -> None:
    assert draft("a", horizon=given_horizon, freshness_horizon=prose).horizon is horizon


def test_without_a_horizon_the_name_decides() -> None:
    assert draft("incident:7").horizon is Horizon.MEDIUM
    assert draft("incident:7", private=True).horizon is Horizon.NONE, "the stored name has another prefix"


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_no_two_owners_share_a_stored_name(owner: str, other: str, logical: str, another: str) -> None:
    if (owner, logical) != (other, another):
        assert private_entity(owner, logical) != private_entity(other, another)


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_stored_name_tells_its_owner_and_logical_name(owner: str, logical: str) -> None:
    assert split_entity(private_entity(owner, logical)) == (owner, logical)


@pytest.mark.parametrize(
    ("stored", "viewer", "shown"),
    [
        (fact("a"), ANONYMOUS, "a"),
        (fact("a", private=True), BOB, None),
        (fact("__agent::bob::a", private=True), BOB, "a"),
        (fact("__agent::eve::a", private=True), BOB, None),
        (fact("__agent::bob::a", private=True), ANONYMOUS, None),
        (fact("__agent::old::a", private=True), Viewer(("bob", "old")), "a"),
        (fact("__agent::bob::a", private=True), RAW_ADMIN, "__agent::bob::a"),
        (fact("__agent::nobody", private=True), Viewer(("nobody",)), None),
    ],
)
def test_a_fact_is_shown_to_its_owner_alone(stored: Fact, viewer: Viewer, shown: str | None) -> None:
    assert shown_to(viewer, stored) == shown


def test_the_first_version_has_no_predecessor_and_the_next_one_has() -> None:
    first = next_version(Draft("a", "k", "värde"), None, fact_id="f_1", now_us=5)
    second = next_version(Draft("a", "k", "v"), first, fact_id="f_2", now_us=6)
    assert (first.version, first.supersedes, first.tokens, first.anchor_us) == (1, None, 2, 5)
    assert (second.version, second.supersedes) == (2, "f_1")


def test_reserved_targets_are_named_before_invalid_ones() -> None:
    targets = [fact("__agent::bob::__work__::1", private=True), None]
    with pytest.raises(InvalidArgument) as caught:
        check_retirable(targets, ["f_1", "f_2"], BOB, "default")
    assert caught.value.data is not None
    assert caught.value.data["error_code"] == "RESERVED_SUPERSEDES_TARGET"


@pytest.mark.parametrize(
    "target",
    [None, fact("a", deleted=True), fact("__agent::eve::a", private=True), fact("a", private=True)],
)
def test_what_is_not_there_for_the_caller_cannot_be_retired(target: Fact | None) -> None:
    with pytest.raises(InvalidArgument, match="do not exist or are not visible"):
        check_retirable([target], ["f_1"], BOB, "default")
    with pytest.raises(InvalidArgument):
        check_retirable([fact("a")], ["f_1"], BOB, "another tenant")


def test_visible_facts_can_be_retired_and_deleted() -> None:
    check_retirable([fact("a")], ["f_1"], BOB, "default")
    check_deletable(fact("a"), "a")
    with pytest.raises(Denied):
        check_deletable(fact("__work__::1"), "__work__::1")


def test_reserved_prefixes_are_told() -> None:
    assert reserved_prefix("__work__::1") == "__work__::"
    assert reserved_prefix("work") is None


def test_words_are_distinct_lower_case_and_in_order() -> None:
    assert query_words("  Beta\talpha\nBETA\u2003x ") == ("beta", "alpha", "x")
    assert query_words(None) == query_words("") == query_words(" \n ") == ()


@pytest.mark.parametrize(
    ("query", "accepted"),
    [
        (" ".join(map(str, range(MOST_WORDS))), True),
        (" ".join(map(str, range(MOST_WORDS + 1))), False),
        ("x" * LONGEST_WORD, True),
        ("x" * (LONGEST_WORD + 1), False),
        ("ab ".ljust(LONGEST_QUERY), True),
        ("ab ".ljust(LONGEST_QUERY + 1), False),
    ],
)
def test_a_query_has_bounds(query: str, accepted: bool) -> None:
    if accepted:
        assert query_words(query)
    else:
        with pytest.raises(InvalidArgument):
            query_words(query)
