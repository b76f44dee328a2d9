"""Sealed numbers: one for one, and nothing of the order shows."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.seals import BITS, KEY_BYTES, seal, unseal

KEY = bytes(range(KEY_BYTES))
numbers = st.integers(0, 2**BITS - 1)


@given(numbers)
def test_a_seal_is_opened_again_and_stays_in_its_range(number: int) -> None:
    sealed = seal(number, KEY)
    assert 0 <= sealed < 2**BITS
    assert unseal(sealed, KEY) == number


@given(numbers, numbers)
def test_two_numbers_never_have_one_seal(one: int, other: int) -> None:
    assert (seal(one, KEY) == seal(other, KEY)) == (one == other)


def test_another_key_is_another_seal() -> None:
    assert seal(1, KEY) != seal(1, bytes(KEY_BYTES))


def test_numbers_in_a_row_are_sealed_in_no_order() -> None:
    sealed = [seal(number, KEY) for number in range(1000)]
    rising = sum(one < other for one, other in pairwise(sealed))
    assert 400 < rising < 600


@pytest.mark.parametrize(("number", "opens"), [(2**BITS - 1, True), (2**BITS, False)])
def test_what_is_out_of_range_is_no_seal(number: int, opens: bool) -> None:
    assert (unseal(number, KEY) is not None) == opens
