import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.raw_json import MOST_NESTED
from crux.errors import InvalidArgument, ParseError
from crux.transport.json_text import read_json, refusal_of, with_lone_surrogates

values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_characters="\0", codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(values)
def test_any_json_is_read_however_it_is_escaped(value: Any) -> None:
    assert read_json(json.dumps(value).encode()) == value
    assert read_json(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize("around", ["[%s]", '{"a": %s}', '[1, {"a": %s}]'])
def test_nesting_is_taken_up_to_a_bound(around: str) -> None:
    levels = around.count("[") + around.count("{")
    text = "0"
    for _ in range(MOST_NESTED // levels):
        text = around % text
    read_json(text.encode())
    with pytest.raises(ParseError, match="nested deeper than 200"):
        read_json(f"[{text}]".encode())


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(ParseError, match="nested deeper than 200"):
        read_json(b"[" * 100_000 + b"]" * 100_000)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    assert read_json(b"[" + b"[]," * 1000 + b"[]]") == [[]] * 1001


@pytest.mark.parametrize("body", [b'"\\u0000"', b'["a", {"b": "x\\u0000y"}]', b'{"a\\u0000": 1}'])
def test_nul_is_refused_wherever_it_is(body: bytes) -> None:
    with pytest.raises(InvalidArgument, match="NUL"):
        read_json(body)


def test_an_escaped_backslash_before_zeros_is_no_nul() -> None:
    assert read_json(b'"\\\\u0000"') == "\\u0000"


@pytest.mark.parametrize("body", [b'"\\ud800"', b'{"\\udfff": 1}', b'["\\ud83d x"]', b'"\xed\xa0\x80"'])
def test_lone_surrogates_are_refused_by_name(body: bytes) -> None:
    with pytest.raises(InvalidArgument, match="lone surrogates"):
        read_json(body)


def test_a_surrogate_pair_is_a_character() -> None:
    assert read_json(b'"\\ud83d\\ude00"') == "\U0001f600"


@pytest.mark.parametrize("before", [0, 150, 180, 190, 199, 205])
def test_a_complaint_shows_no_secret_nor_half_of_one(before: int) -> None:
    secret = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJib2IifQ.c2lnbmF0dXJl"
    text = refusal_of("JSON", ValueError(f"{'x' * before} {secret} {'y' * 100}")).message
    assert text.startswith("not JSON: ")
    assert len(text) <= 210
    assert secret[:5] not in text


@pytest.mark.parametrize(
    "body", [b"", b"{", b"nul", b"NaN", b"[1e400]", b"'a'", b'"\xff"', b"\xff\xfe", b"{}{}", b'"\x00"', b"9" * 5000]
)
def test_what_is_no_json_is_refused(body: bytes) -> None:
    assert with_lone_surrogates(body) is None
    with pytest.raises(ParseError, match="not JSON"):
        read_json(body)
