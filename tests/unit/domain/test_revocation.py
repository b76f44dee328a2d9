"""What a revoked caller may still call."""

import pytest

from crux.domain.revocation import Revocation, refusal


@pytest.mark.parametrize("tool", ["get_passport", "get_agent_identity"])
def test_a_revoked_caller_may_learn_what_became_of_it(tool: str) -> None:
    assert refusal(tool, Revocation("leaked key")) is None


@pytest.mark.parametrize("tool", ["store_fact", "ext.anything", "no_such_tool", "GET_PASSPORT"])
def test_a_revoked_caller_is_told_why_all_else_is_refused(tool: str) -> None:
    told = refusal(tool, Revocation("leaked key"))
    assert told is not None
    assert told.startswith(f"{tool} is refused")
    assert "leaked key" in told
    assert "get_passport" in told


def test_a_revocation_without_a_reason_says_so() -> None:
    assert "(no reason was recorded)" in (refusal("store_fact", Revocation()) or "")


def test_who_is_not_revoked_may_call_anything() -> None:
    assert refusal("store_fact", None) is None
