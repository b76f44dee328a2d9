"""What one capability token does to a list of tools, and when its verdicts may change."""

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.rcx_validation import examine
from crux.domain.router import Router
from tests.rcx_tokens import EXPIRES_AT, ISSUED_AT, PUBLIC, minted

ROUTER = Router(examine(minted(), PUBLIC))


@frozen
class Named:
    name: str
    affinity: str | None = None
    floor_rank: int | None = None


LEARN, STORE = Named("learn"), Named("store_fact")


def test_only_what_the_token_lists_is_permitted() -> None:
    assert ROUTER.permitted([STORE, LEARN], now_s=ISSUED_AT) == (LEARN,)
    assert ROUTER.decide("learn", now_s=ISSUED_AT).authorised
    assert ROUTER.decide("store_fact", now_s=ISSUED_AT).reason_code == "denied:capability_not_permitted"


@pytest.mark.parametrize(
    ("now_s", "permitted"),
    [(ISSUED_AT - 1, ()), (ISSUED_AT, (LEARN,)), (EXPIRES_AT - 1, (LEARN,)), (EXPIRES_AT, ())],
)
def test_a_token_permits_from_its_first_second_to_its_last(now_s: int, permitted: tuple[Named, ...]) -> None:
    assert ROUTER.permitted([LEARN], now_s=now_s) == permitted


@given(st.integers(ISSUED_AT - 2, EXPIRES_AT + 2), st.integers(ISSUED_AT - 2, EXPIRES_AT + 2))
def test_within_a_phase_no_verdict_changes(one: int, other: int) -> None:
    if ROUTER.phase(now_s=one) == ROUTER.phase(now_s=other):
        assert ROUTER.permitted([LEARN, STORE], now_s=one) == ROUTER.permitted([LEARN, STORE], now_s=other)


def test_a_stamp_names_the_token_and_nothing_of_the_caller() -> None:
    reference = {"token_id": ROUTER.examined.token.token_id, "token_hash": ROUTER.examined.token_hash}
    assert ROUTER.stamp() == {
        "filtered_by": "rcx-capability-token",
        "token_ref": reference,
        "receipt_class": "verified",
        "tier": "free",
    }
    assert ROUTER.schema_stamp() == {
        "x-crux-token-ref": reference,
        "x-crux-receipt-class": "verified",
        "x-crux-tier": "free",
    }
