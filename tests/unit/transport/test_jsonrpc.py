"""Reading requests: what is one, what is refused, and that an id comes back byte for byte."""

import json
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.raw_json import MOST_NESTED
from crux.errors import InvalidArgument, ParseError
from crux.transport.json_text import MOST_CONTAINERS
from crux.transport.jsonrpc import (
    BadText,
    error_response,
    read_request,
    result_response,
)


def request(**members: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": "m", **members}).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"[]",
        b'[{"jsonrpc":"2.0","method":"m","id":1}]',
        b'"text"',
        b"null",
        b"{}",
        b'{"jsonrpc":"2.0"}',
        b'{"method":"m"}',
        b'{"jsonrpc":2,"method":"m"}',
        b'{"jsonrpc":"2.0","method":null}',
        b'{"jsonrpc":"2.0","method":["m"]}',
        b'{"jsonrpc":"2.0","method":"m"} trailing',
        b'{"jsonrpc":"2.0","method":"m","id":NaN}',
        b'{"jsonrpc":"2.0","method":"\xff"}',
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","method":"m","params":"raw \x00 byte"}',
    ],
)
def test_what_is_no_request_is_a_parse_error(body: bytes) -> None:
    with pytest.raises(ParseError):
        read_request(body)


@pytest.mark.parametrize(
    "raw_id", ["1", "-1", "0", "1.50", '"a"', '""', "[1, 2]", '{"a" : 1}', "true", "123456789012345678901234567890"]
)
def test_an_id_is_echoed_unchanged(raw_id: str) -> None:
    found = read_request(f'{{"jsonrpc":"2.0","method":"m","id":{raw_id}}}'.encode())
    assert not found.is_notification
    assert result_response(found.id, b"{}") == f'{{"jsonrpc":"2.0","id":{raw_id},"result":{{}}}}'.encode()


@pytest.mark.parametrize("body", [request(), request(id=None)])
def test_an_absent_or_null_id_makes_a_notification(body: bytes) -> None:
    assert read_request(body).is_notification


def test_the_version_is_not_checked_and_other_members_are_ignored() -> None:
    found = read_request(b'{"jsonrpc":"1.9","method":"m","id":1,"extra":[{}]}')
    assert (found.method, found.params) == ("m", None)


def test_of_a_repeated_member_the_last_one_wins() -> None:
    assert read_request(b'{"jsonrpc":"2.0","method":"a","method":"b","id":1}').method == "b"


def nested(depth: int, opening: str = "[", closing: str = "]") -> bytes:
    return f'{{"jsonrpc":"2.0","method":"m","id":1,"params":{opening * depth}{closing * depth}}}'.encode()


def test_nesting_is_taken_up_to_its_bound() -> None:
    assert read_request(nested(MOST_NESTED - 1)).method == "m"


@pytest.mark.parametrize("depth", [MOST_NESTED, 900, 10_000, 100_000])
def test_deeper_nesting_is_a_parse_error(depth: int) -> None:
    with pytest.raises(ParseError):
        read_request(nested(depth))


def test_many_brackets_are_not_deep() -> None:
    wide: list[list[object]] = [[] for _ in range(10_000)]
    assert read_request(request(id=1, params=wide)).params == wide


def crowd(containers: int, opening: str, closing: str) -> bytes:
    """A request of so many arrays and objects in all, itself and its list of parameters among them."""
    inside = ",".join([opening + closing] * (containers - 2))
    return f'{{"jsonrpc":"2.0","method":"m","id":1,"params":[{inside}]}}'.encode()


@pytest.mark.parametrize("pair", ["[]", "{}"])
def test_arrays_and_objects_are_taken_up_to_their_bound(pair: str) -> None:
    assert read_request(crowd(MOST_CONTAINERS, *pair)).method == "m"
    with pytest.raises(ParseError, match="arrays and objects"):
        read_request(crowd(MOST_CONTAINERS + 1, *pair))


@pytest.mark.parametrize("text", ["[", "{", '\\"[', "\\\\[", "\n[", "é{"])
def test_brackets_in_text_count_for_nothing(text: str) -> None:
    params = {"a": json.loads(f'"{text}"'.replace("\n", "\\n")) * (MOST_CONTAINERS + 1), '"': "b"}
    assert read_request(request(id=1, params=params)).params == params


@pytest.mark.parametrize("tail", ['"' + '\\"' * 1_000_000, '"' + "\\" * 999_999, '"' * 1_000_001, '"x\\'])
def test_a_crowd_before_a_string_without_end_is_refused_at_once(tail: str) -> None:
    """A search that began again at each quote would not come to an end here."""
    with pytest.raises(ParseError, match="arrays and objects"):
        read_request(b"[" * (MOST_CONTAINERS + 1) + tail.encode())


@pytest.mark.parametrize("depth", [MOST_NESTED, 900])
def test_deeper_nesting_is_a_parse_error_whatever_its_text_holds(depth: int) -> None:
    with pytest.raises(ParseError, match="nested"):
        read_request(nested(depth, "[", "]").replace(b"[]", b'["\\ud800"]'))


@pytest.mark.parametrize("params", [{"a": "x\0y"}, {"a\0": 1}, [["\0"]], "\0"])
def test_nul_in_text_is_refused_with_the_request_s_id(params: object) -> None:
    with pytest.raises(BadText) as caught:
        read_request(request(id="seven", params=params))
    assert bytes(caught.value.request_id) == b'"seven"'
    assert isinstance(caught.value, InvalidArgument)


def test_an_escaped_backslash_before_u0000_is_not_nul() -> None:
    assert read_request(request(id=1, params=r"\u0000")).params == r"\u0000"


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udc00\ud800"])
def test_a_lone_surrogate_is_refused_with_the_request_s_id(text: str) -> None:
    with pytest.raises(BadText) as caught:
        read_request(request(id=7, params={"value": text}))
    assert bytes(caught.value.request_id) == b"7"


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_of_a_notification_the_text_is_not_looked_at(text: str) -> None:
    assert read_request(request(params={"value": text})).is_notification


@pytest.mark.parametrize("raw_id", [b'"\xff"', b'["\xff"]', b"[" * 300 + b"]" * 300])
def test_an_id_that_cannot_be_echoed_is_a_parse_error(raw_id: bytes) -> None:
    with pytest.raises(ParseError):
        read_request(b'{"jsonrpc":"2.0","method":"m","id":' + raw_id + b"}")


@pytest.mark.parametrize("members", [{"method": "m\0"}, {"id": "\0"}])
def test_nul_in_the_method_or_the_id_is_refused(members: dict[str, object]) -> None:
    with pytest.raises(BadText):
        read_request(request(**{"id": 1, **members}))


@pytest.mark.parametrize("number", ["1e400", "NaN", "-Infinity"])
def test_a_number_that_json_has_not_is_a_parse_error_beside_a_surrogate_too(number: str) -> None:
    with pytest.raises(ParseError):
        read_request(f'{{"jsonrpc":"2.0","method":"m","id":{number},"params":"\\ud800"}}'.encode())


def test_a_surrogate_pair_is_one_character() -> None:
    assert read_request(b'{"jsonrpc":"2.0","method":"m","id":1,"params":"\\ud83e\\udd80"}').params == "🦀"


def test_the_complaint_holds_nothing_of_the_body() -> None:
    with pytest.raises(ParseError) as caught:
        read_request(b'{"jsonrpc":"2.0","method": token-abcdef-secret }')
    assert "secret" not in caught.value.message


def test_an_error_has_data_only_where_there_is_some() -> None:
    plain = json.loads(error_response(None, ParseError("no")))
    assert plain == {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}}
    more = json.loads(error_response(msgspec.Raw(b"1"), InvalidArgument("no", data={"param": "a"})))
    assert more["error"] == {"code": -32602, "message": "no", "data": {"param": "a"}}


@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with suppress(ParseError, InvalidArgument):
        assert read_request(body).method is not None
