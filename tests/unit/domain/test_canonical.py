import json

import msgspec
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.canonical import canonical_json, short_hash

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_the_form_is_compact_and_sorted_and_leaves_unicode_as_it_is(value: object) -> None:
    expected = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    assert canonical_json(value) == expected.encode()


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_that_was_read_again_has_the_same_form(number: float) -> None:
    text = canonical_json(number)
    assert canonical_json(msgspec.json.decode(text)) == text


def test_the_members_of_a_record_are_sorted_too_and_a_raw_part_stands_as_it_is() -> None:
    class Record(msgspec.Struct):
        b: int
        a: msgspec.Raw

    assert canonical_json(Record(1, msgspec.Raw(b'{"y":1}'))) == b'{"a":{"y":1},"b":1}'


@pytest.mark.parametrize("text", [b"", b"null"])
def test_a_short_hash_is_the_first_eight_bytes(text: bytes) -> None:
    assert short_hash(text) == f"blake3:{blake3(text).digest()[:8].hex()}"
