"""Lines of the audit trail: what is kept of an event, and what readers are shown."""

import json

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.audit import (
    AUDIT_ENTITY,
    OPERATOR,
    AuditEvent,
    audit_document,
    audit_draft,
    audit_kept_in,
    place_after,
    suppression_marker,
)
from crux.domain.facts import Draft, Fact, next_version
from crux.domain.manifests import Json
from crux.domain.privacy import PrivacyRules, reserved_prefix

NOW = 1_800_000_000_000_000
FULL = AuditEvent(
    action="extension_invoke_rejected",
    pack_id="ext.a",
    ts_unix_ms=5,
    actor="p_alice",
    version="0.1.0",
    outcome="rejected",
    detail=Json('{"tool_name":"ext.a.t","reason":"no_grant"}'),
)


def kept(draft: Draft) -> Fact:
    return next_version(draft, None, fact_id="f", now_us=NOW)


def test_an_event_is_shown_with_its_members_in_the_contract_s_order() -> None:
    assert json.dumps(audit_document(FULL)) == (
        '{"ts_unix_ms": 5, "action": "extension_invoke_rejected", "actor": "p_alice", "pack_id": "ext.a", '
        '"version": "0.1.0", "outcome": "rejected", "detail": {"tool_name": "ext.a.t", "reason": "no_grant"}}'
    )


def test_what_is_empty_is_left_out_and_an_empty_detail_is_not_empty() -> None:
    bare = AuditEvent(action="a", pack_id="p", ts_unix_ms=0)
    assert audit_document(bare) == {"ts_unix_ms": 0, "action": "a", "actor": OPERATOR, "pack_id": "p"}
    assert audit_document(evolve(bare, detail=Json("{}")))["detail"] == {}


@given(
    st.builds(
        AuditEvent,
        action=st.text(),
        pack_id=st.text(),
        ts_unix_ms=st.integers(0, 2**63 - 1),
        actor=st.text(),
        version=st.text(),
        outcome=st.text(),
        detail=st.none()
        | st.dictionaries(st.text(), st.text() | st.integers(-(2**53), 2**53) | st.none()).map(
            lambda value: Json(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
        ),
    )
)
def test_an_event_is_read_as_it_was_kept(event: AuditEvent) -> None:
    assert audit_kept_in(kept(audit_draft(event, 0))) == event


def test_a_line_without_an_actor_is_the_operator_s() -> None:
    fact = kept(Draft(AUDIT_ENTITY, "0", '{"ts_unix_ms":1,"action":"a","pack_id":"p","passport_fpr":"else"}'))
    assert audit_kept_in(fact) == AuditEvent(action="a", pack_id="p", ts_unix_ms=1, actor=OPERATOR)


def test_an_event_is_kept_as_a_private_fact_that_belongs_to_the_daemon() -> None:
    draft = audit_draft(FULL, 7)
    assert (draft.entity, draft.key, draft.private, draft.actor) == (AUDIT_ENTITY, "0" * 19 + "7", True, "p_alice")
    assert reserved_prefix(AUDIT_ENTITY) == "__audit__::"
    assert PrivacyRules(shared=("__audit__::",)).is_private(AUDIT_ENTITY)


@pytest.mark.parametrize("place", [0, 9, 10, 2**63 - 2])
def test_places_follow_one_another_and_their_keys_sort_so(place: int) -> None:
    fact = kept(audit_draft(FULL, place))
    assert place_after(fact) == place + 1
    assert fact.key < audit_draft(FULL, place + 1).key


def test_an_empty_trail_begins_at_zero() -> None:
    assert place_after(None) == 0


@pytest.mark.parametrize(("silent_before", "more"), [(0, {}), (9, {"suppressed_before": 9})])
def test_a_marker_says_what_is_left_out(silent_before: int, more: dict[str, int]) -> None:
    assert audit_document(suppression_marker(FULL, 61, silent_before)) == {
        "ts_unix_ms": 5,
        "action": "audit_suppressed",
        "actor": "p_alice",
        "pack_id": "ext.a",
        "version": "0.1.0",
        "outcome": "suppressed",
        "detail": {"event_family": "extension_invoke", "count": 61, "limit_per_min": 60} | more,
    }
