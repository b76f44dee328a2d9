from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.facts import Fact, next_version
from crux.domain.instants import rfc3339
from crux.domain.privacy import PrivacyRules, reserved_prefix
from crux.domain.sessions import (
    SESSION_KEY,
    SESSION_PREFIX,
    SessionState,
    archived,
    check_session_id,
    saved,
    session_draft,
    session_entity,
    session_kept_in,
    session_scope,
    unarchived,
)
from crux.errors import InvalidArgument

NOW = 1_800_000_000_000_000
SECOND = 1_000_000

owners = st.none() | st.text(min_size=1, max_size=8, alphabet="ab:%3A_")
ids = st.text(min_size=1, max_size=8, alphabet="ab:%3A_")
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("aé☃"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)


def kept(owner: str | None, record: SessionState) -> Fact:
    return next_version(session_draft(owner, record), None, fact_id="f_1", now_us=NOW)


@given(st.tuples(owners, ids), st.tuples(owners, ids))
def test_two_sessions_have_one_name_only_if_owner_and_id_are_the_same(
    one: tuple[str | None, str], other: tuple[str | None, str]
) -> None:
    assert (session_entity(*one) == session_entity(*other)) == (one == other)


@given(owners, owners, ids)
def test_the_names_of_an_owner_start_with_its_scope_and_those_of_others_do_not(
    owner: str | None, other: str | None, session_id: str
) -> None:
    assert session_entity(owner, session_id).startswith(session_scope(other)) == (owner == other)


def test_a_record_belongs_to_the_daemon_and_is_private() -> None:
    draft = session_draft("alice", saved("s", {}, now_us=NOW))
    assert (draft.entity, draft.key, draft.actor) == ("__session_state__::alice::s", SESSION_KEY, "alice")
    assert reserved_prefix(draft.entity) == SESSION_PREFIX
    assert draft.private
    assert PrivacyRules().is_private(draft.entity)


@given(json_values)
def test_a_state_is_kept_as_it_is_and_costs_its_compact_json_over_four(state: Any) -> None:
    record = saved("s", state, now_us=NOW)
    assert session_kept_in(kept("alice", record), now_us=NOW) == record
    assert msgspec.json.decode(record.state) == state
    size = len(msgspec.json.encode(state))
    assert 0 <= record.total_tokens * 4 - size < 4


def test_a_record_shows_only_what_is_there() -> None:
    record = saved("s", {"a": 1}, now_us=NOW)
    assert msgspec.json.decode(msgspec.json.encode(record)) == {
        "session_id": "s",
        "state": {"a": 1},
        "updated_at": rfc3339(NOW),
        "total_tokens": 2,
    }


@pytest.mark.parametrize("reason", [None, "", "done"])
def test_archive_marks_come_and_go_and_change_nothing_else(reason: str | None) -> None:
    record = saved("s", {"a": 1}, now_us=NOW, ttl_s=60)
    marked = archived(record, reason, now_us=NOW + SECOND)
    assert (marked.archived, marked.archived_at, marked.archive_reason) == (True, rfc3339(NOW + SECOND), reason)
    assert session_kept_in(kept(None, marked), now_us=NOW) == marked
    assert unarchived(marked) == record
    assert unarchived(record) == record


@pytest.mark.parametrize(
    ("ttl_s", "after_us", "is_there"),
    [
        (None, 10**15, True),
        (60, 60 * SECOND - 1, True),
        (60, 60 * SECOND, False),
        (0, 0, False),
    ],
)
def test_a_record_is_there_until_its_lifetime_is_over(ttl_s: int | None, after_us: int, is_there: bool) -> None:
    fact = kept("alice", saved("s", {}, now_us=NOW, ttl_s=ttl_s))
    assert (session_kept_in(fact, now_us=NOW + after_us) is not None) == is_there


def test_where_there_is_no_fact_there_is_no_record() -> None:
    assert session_kept_in(None, now_us=NOW) is None


def test_a_lifetime_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="cannot live for"):
        saved("s", {}, now_us=NOW, ttl_s=10**12)


@pytest.mark.parametrize("session_id", ["a", "x" * 512, "é" * 256, "__agent::bob::x", " ", "a/b"])
def test_an_id_is_any_short_text(session_id: str) -> None:
    check_session_id(session_id)


@pytest.mark.parametrize("session_id", ["", "x" * 513, "é" * 257, "a\0", "__agent_session::bob::x"])
def test_an_id_that_is_none_is_refused(session_id: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        check_session_id(session_id)
    assert refusal.value.data == {"param": "session_id"}
