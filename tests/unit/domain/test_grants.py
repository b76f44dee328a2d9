from typing import Any

import msgspec
import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st

from crux.domain.extensions import MOST_TEXT, ExtensionGrant
from crux.domain.facts import Draft, Fact, next_version
from crux.domain.grants import (
    MOST_ENTRIES,
    MOST_RATE,
    check_grant,
    check_passport,
    check_prefix,
    grant_document,
    grant_draft,
    grant_entity,
    grant_kept_in,
)
from crux.domain.privacy import AGENT_PREFIX, BOOTSTRAP_PREFIX, BORN_PRIVATE_PREFIXES, DAEMON_PREFIXES
from crux.errors import InvalidArgument

GRANT = ExtensionGrant(extension_id="ext.quote", passport_fpr="alice", granted_at_unix_ms=7)
RESERVED = (AGENT_PREFIX, BOOTSTRAP_PREFIX, *DAEMON_PREFIXES, *BORN_PRIVATE_PREFIXES)
# The contract's list, written down apart from what the daemon's own code says is reserved.
UNGRANTABLE = (
    *("__ax__::", "__ax_session::", "__constraints__::", "__project_layer__::", "__plane__::", "__plane_layer__::"),
    *("__workspace__::", "__workspace_scan__::", "__repo_registry__::", "__repo_scan__::", "__repo_codegraph_ids__::"),
    *("__repo_extdeps__::", "__storybook__::", "__dossier__::", "__project_repo_link__::", "__extension__::"),
    *("__extension_grant__::", "__work__::", "__work_transition__::", "__passport__::", "__mint_request__::"),
    *("__bootstrap__::", "__project__::", "decisions::", "github::", "__candidate_fact__::", "__agent::", "__ops::"),
    *("__ops__::", "__workbench__::", "__answer_replay_capsule__::", "__session_binding__::", "__coord__::"),
    *("__incident__::", "__legal_hold__::", "__legal_hold_receipt__::", "__tenant_metadata__::"),
)

texts = st.text(st.characters(codec="utf-8"), max_size=12)


def kept(draft: Draft) -> Fact:
    return next_version(draft, None, fact_id="f", now_us=1)


@pytest.mark.parametrize("prefix", ["quotes::", "q", "personal::quotes::", "_", "decisionmaking::", "Decisions::", "é"])
def test_what_reaches_nothing_reserved_can_be_granted(prefix: str) -> None:
    if prefix == "_":
        with pytest.raises(InvalidArgument):
            check_prefix(prefix)
    else:
        check_prefix(prefix)


@pytest.mark.parametrize("reserved", sorted({*RESERVED, *UNGRANTABLE}))
def test_a_reserved_prefix_its_leading_parts_and_what_is_below_it_are_refused(reserved: str) -> None:
    for prefix in (*(reserved[:length] for length in range(len(reserved) + 1)), f"{reserved}below"):
        with pytest.raises(InvalidArgument, match="cannot be granted"):
            check_prefix(prefix)


def test_the_empty_prefix_is_refused_for_what_it_reaches() -> None:
    with pytest.raises(InvalidArgument, match="it reaches every entity"):
        check_prefix("")


def test_two_underscores_are_refused_whatever_follows() -> None:
    with pytest.raises(InvalidArgument) as refused:
        check_prefix("__of_a_later_version__::")
    assert refused.value.data == {"prefix": "__of_a_later_version__::", "reserved_prefix": "__"}


@given(prefix=st.text(st.sampled_from("_:adegithubcns"), max_size=12), below=texts)
@example(prefix="dec", below="isions::x")
def test_no_entity_below_a_granted_prefix_is_reserved(prefix: str, below: str) -> None:
    try:
        check_prefix(prefix)
    except InvalidArgument:
        return
    assert not (prefix + below).startswith(RESERVED)


@pytest.mark.parametrize("passport", ["alice", "p_1:2.3-4", "auth0|5f2", "jo@example.com", "é", "x" * MOST_TEXT, "a b"])
def test_a_passport_may_be_called_what_a_token_says(passport: str) -> None:
    check_passport(passport)


@pytest.mark.parametrize("passport", ["", "  ", "\t", " alice", "alice ", "a\nb", "x" * (MOST_TEXT + 1)])
def test_what_no_caller_is_called_is_no_passport(passport: str) -> None:
    with pytest.raises(InvalidArgument, match="'passport_fpr' must"):
        check_passport(passport)


@pytest.mark.parametrize("name", ["allowed_tool_names", "allowed_prefixes_read", "allowed_prefixes_write"])
def test_lists_and_their_texts_have_a_longest(name: str) -> None:
    def grant(texts: list[str]) -> ExtensionGrant:
        members: dict[str, Any] = {name: tuple(texts)}
        return evolve(GRANT, **members)

    check_grant(grant(["x"] * MOST_ENTRIES))
    check_grant(grant(["x" * MOST_TEXT]))
    with pytest.raises(InvalidArgument, match=f"'{name}' must have at most {MOST_ENTRIES} entries"):
        check_grant(grant(["x"] * (MOST_ENTRIES + 1)))
    with pytest.raises(InvalidArgument, match=f"'{name}' must hold texts of at most {MOST_TEXT} characters"):
        check_grant(grant(["x" * (MOST_TEXT + 1)]))


@pytest.mark.parametrize("rate", [None, 0, 1, MOST_RATE])
def test_a_rate_of_32_bits_is_taken(rate: int | None) -> None:
    check_grant(evolve(GRANT, rate_limit_per_min=rate))


@pytest.mark.parametrize("rate", [-1, MOST_RATE + 1])
def test_any_other_rate_is_refused(rate: int) -> None:
    with pytest.raises(InvalidArgument, match="'rate_limit_per_min' must be an integer from 0"):
        check_grant(evolve(GRANT, rate_limit_per_min=rate))


@pytest.mark.parametrize("side", ["allowed_prefixes_read", "allowed_prefixes_write"])
def test_every_prefix_of_both_lists_is_looked_at(side: str) -> None:
    members: dict[str, Any] = {side: ("quotes::", "__passport__::")}
    with pytest.raises(InvalidArgument, match="'__passport__::' cannot be granted"):
        check_grant(evolve(GRANT, **members))


def test_of_several_faults_the_passport_is_told_first_then_reads_then_writes() -> None:
    faulty = evolve(GRANT, passport_fpr="", allowed_prefixes_read=("github::",), allowed_prefixes_write=("_",))
    for passport, read, told in (("", "github::", "passport_fpr"), ("a", "github::", "github"), ("a", "q", "'_'")):
        with pytest.raises(InvalidArgument, match=told):
            check_grant(evolve(faulty, passport_fpr=passport, allowed_prefixes_read=(read,)))


def test_what_a_grant_does_not_say_is_left_out_and_empty_lists_are_not() -> None:
    assert grant_document(GRANT) == {
        "extension_id": "ext.quote",
        "passport_fpr": "alice",
        "allowed_tool_names": (),
        "allowed_prefixes_read": (),
        "allowed_prefixes_write": (),
        "granted_at_unix_ms": 7,
    }
    full = evolve(GRANT, rate_limit_per_min=0, granted_by_passport="bob")
    assert grant_document(full).items() >= {"rate_limit_per_min": 0, "granted_by_passport": "bob"}.items()


@given(
    passport=texts,
    lists=st.lists(st.lists(texts.map("q".__add__), max_size=3).map(tuple), min_size=3, max_size=3),
    rate=st.none() | st.integers(0, MOST_RATE),
    by=st.none() | texts,
)
def test_a_grant_that_is_kept_is_read_back_whole(
    passport: str, lists: list[tuple[str, ...]], rate: int | None, by: str | None
) -> None:
    grant = ExtensionGrant(
        extension_id="ext.quote",
        passport_fpr=f"p{passport}".strip() if passport.isprintable() else "p",
        allowed_tool_names=lists[0],
        allowed_prefixes_read=lists[1],
        allowed_prefixes_write=lists[2],
        rate_limit_per_min=rate,
        granted_at_unix_ms=1,
        granted_by_passport=by,
    )
    draft = grant_draft(grant, "bob")
    assert (draft.private, draft.actor, draft.key) == (True, "bob", "record")
    assert grant_kept_in(kept(draft)) == grant


ids = st.text("abz09.-_", min_size=1, max_size=8)


@given(one=st.tuples(ids, texts), other=st.tuples(ids, texts))
def test_no_two_grants_share_a_place(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert (grant_entity(*one) == grant_entity(*other)) == (one == other)


@pytest.mark.parametrize(
    "change",
    [
        {"value": "not JSON"},
        {"value": "[]"},
        {"value": '{"extension_id": "ext.quote"}'},
        {"value": '{"extension_id": "ext.quote", "passport_fpr": 1, "granted_at_unix_ms": 7}'},
        {"entity": "__extension_grant__::ext.quote::bob"},
        {"key": "other"},
    ],
)
def test_a_fact_that_keeps_no_such_grant_is_refused(change: dict[str, str]) -> None:
    fact = kept(grant_draft(GRANT, None))
    with pytest.raises(InvalidArgument):
        grant_kept_in(msgspec.structs.replace(fact, **change))


def test_what_could_not_be_granted_now_is_not_read_back_either() -> None:
    stored = grant_draft(evolve(GRANT, allowed_prefixes_write=("__passport__::",)), None)
    with pytest.raises(InvalidArgument, match="cannot be granted"):
        grant_kept_in(kept(stored))
