"""What bounds a call has, what is sent, and what of an answer is believed."""

from __future__ import annotations

import json
import math

import msgspec
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.manifests import Entry, EntryKind, Manifest, Safety
from crux.domain.outbound import (
    MOST_QUOTED,
    MOST_WRITES,
    AcceptedWrite,
    Answer,
    Budget,
    DispatchOutcome,
    ProposedWrite,
    budget_of,
    narrowed,
    request_body,
    response_in,
    sorted_out,
)
from crux.domain.outbound_config import OutboundConfig
from crux.domain.outbound_refusals import (
    DispatchRefused,
    MalformedResponse,
    NotEncodable,
    RequestTooLarge,
    UpstreamError,
    audit_reason,
)
from crux.domain.raw_json import MOST_NESTED
from crux.errors import RateLimited

DEFAULT = OutboundConfig()
NUMBERS = {
    "CORECRUXD_EXTENSIONS_TIMEOUT_SECONDS": "timeout_s",
    "CORECRUXD_EXTENSIONS_MAX_REQUEST_BYTES": "max_request_bytes",
    "CORECRUXD_EXTENSIONS_MAX_RESPONSE_BYTES": "max_response_bytes",
    "CORECRUXD_EXTENSIONS_DEFAULT_RATE_PER_MIN": "default_rate_per_min",
}


def test_the_bounds_of_an_empty_environment() -> None:
    assert OutboundConfig.from_env({}) == DEFAULT
    assert (DEFAULT.timeout_s, DEFAULT.max_request_bytes, DEFAULT.max_response_bytes) == (5, 262_144, 262_144)
    assert (DEFAULT.default_rate_per_min, DEFAULT.allow_plain_http) == (10, False)


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("7", 7), ("+7", 7), ("007", 7), ("18446744073709551615", 2**64 - 1), ("0" * 5000 + "9", 9)],
)
def test_a_bound_is_an_unsigned_number(name: str, text: str, value: int) -> None:
    assert getattr(OutboundConfig.from_env({name: text}), NUMBERS[name]) == value


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize(
    "text",
    [
        "",
        " 7",
        "7 ",
        "7\n",
        "-7",
        "-0",
        "++7",
        "+",
        "7.0",
        "1e3",
        "1_000",
        "0x7",
        "٧",
        "x",
        "18446744073709551616",
        "9" * 5000,
    ],
)
def test_a_malformed_bound_counts_as_unset(name: str, text: str) -> None:
    assert OutboundConfig.from_env({name: text}) == DEFAULT


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("1", True),
        ("true", True),
        (" YES\n", True),
        ("On", True),
        ("0", False),
        ("", False),
        ("y", False),
        ("2", False),
    ],
)
def test_plain_http_is_a_switch(text: str, on: bool) -> None:
    assert OutboundConfig.from_env({"CORECRUXD_EXTENSIONS_ALLOW_PLAIN_HTTP": text}).allow_plain_http is on


def test_private_hosts_are_a_list_of_names() -> None:
    config = OutboundConfig.from_env({"CORECRUXD_EXTENSIONS_ALLOW_PRIVATE_HOSTS": " A.example,, b.example ,*"})
    assert config.private_hosts == {"a.example", "b.example", "*"}


def manifest(runtime_ms: int = 0, output_bytes: int = 0) -> Manifest:
    return Manifest(
        schema="crux.integration.v1",
        id="ext.quote",
        name="Quote",
        version="1",
        publisher_passport_fpr="p",
        summary="",
        entry=Entry(EntryKind.EXTERNAL_TOOL, "x"),
        safety=Safety(max_runtime_ms=runtime_ms, max_output_bytes=output_bytes),
    )


@pytest.mark.parametrize(
    ("runtime_ms", "output_bytes", "budget"),
    [
        (0, 0, Budget(5, 262_144)),
        (4_999, 262_143, Budget(4.999, 262_143)),
        (5_000, 262_144, Budget(5, 262_144)),
        (5_001, 262_145, Budget(5, 262_144)),
        (600_000, 2**64 - 1, Budget(5, 262_144)),
        (1, 1, Budget(0.001, 1)),
    ],
)
def test_a_manifest_tightens_the_daemons_bounds_and_never_widens_them(
    runtime_ms: int, output_bytes: int, budget: Budget
) -> None:
    assert budget_of(manifest(runtime_ms, output_bytes), DEFAULT) == budget


def test_a_bound_of_nothing_lets_nothing_through() -> None:
    config = OutboundConfig(timeout_s=0, max_response_bytes=0)
    assert budget_of(manifest(3000, 100), config) == Budget(0, 0)


def test_the_envelope_is_compact_and_in_the_order_of_the_seed() -> None:
    assert (
        request_body("ext.q", {"topic": "é", "n": [1.5, 2**70]}, "p_alice", "req-1", DEFAULT)
        == (
            '{"tool":"ext.q","args":{"topic":"é","n":[1.5,1180591620717411303424]},'
            '"calling_passport_id":"p_alice","request_id":"req-1"}'
        ).encode()
    )


def test_a_request_may_be_as_large_as_its_cap_in_bytes() -> None:
    size = len(request_body("t", "é", "p", "r", DEFAULT))
    assert request_body("t", "é", "p", "r", OutboundConfig(max_request_bytes=size))
    with pytest.raises(RequestTooLarge) as refused:
        request_body("t", "é", "p", "r", OutboundConfig(max_request_bytes=size - 1))
    assert refused.value.message == f"request too large ({size} bytes, max {size - 1})"


@pytest.mark.parametrize("args", ["\ud800", {1, object()}, object()])
def test_arguments_that_are_no_json_are_refused(args: object) -> None:
    with pytest.raises(NotEncodable) as refused:
        request_body("t", args, "p", "r", DEFAULT)
    assert (refused.value.status, refused.value.reason) == (502, "json")


@pytest.mark.parametrize("status", [200, 201, 299])
def test_a_success_is_read(status: int) -> None:
    response = response_in(Answer(status, b'{"extra": 1, "result": { "a" : 1.0 } }'))
    assert bytes(response.result) == b'{ "a" : 1.0 }'
    assert response.fact_writes == []


@pytest.mark.parametrize("status", [199, 300, 301, 400, 500, 999])
def test_any_other_status_is_refused_with_the_start_of_the_body(status: int) -> None:
    with pytest.raises(UpstreamError) as refused:
        response_in(Answer(status, "é".encode() * (MOST_QUOTED + 1)))
    assert refused.value.message == f"upstream returned status {status}: {'é' * MOST_QUOTED}"
    with pytest.raises(UpstreamError) as refused:
        response_in(Answer(status, b"\xff" * MOST_QUOTED))
    assert refused.value.message.endswith("\ufffd" * MOST_QUOTED)


@pytest.mark.parametrize(
    "value", [b"null", b"0", b"-0.0", b"1e999", b"12345678901234567890123456789", b'"\\u00e9\\n"', b"[]"]
)
def test_the_result_is_kept_to_the_letter(value: bytes) -> None:
    response = response_in(Answer(200, b'{"result":' + value + b',"fact_writes":[]}'))
    assert bytes(response.result) == value


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_characters="\0", codec="utf-8")),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_characters="\0", codec="utf-8")), inner)
        ),
    ),
    st.booleans(),
)
def test_every_json_value_is_a_result(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert bytes(response_in(Answer(200, f'{{"result":{text}}}'.encode())).result) == text.encode()


def with_writes(writes: str) -> bytes:
    return f'{{"result":1,"fact_writes":{writes}}}'.encode()


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (b"", "the body is empty"),
        (b" ", "truncated"),
        (b"hello", "malformed"),
        (b"[1]", "Expected `object`"),
        (b"null", "Expected `object`"),
        (b"{}", "missing required field `result`"),
        (b'{"fact_writes":[]}', "missing required field `result`"),
        (b'{"result":1', "truncated"),
        (b'{"result":1}x', "trailing"),
        (b'\xef\xbb\xbf{"result":1}', "malformed"),
        (b'{"result":NaN}', "malformed"),
        (b'{"result":Infinity}', "malformed"),
        (b'{"result":-Infinity}', "malformed"),
        (b'{"result":"\xff"}', "utf-8"),
        (b'{"result":"\xed\xa0\x80"}', "utf-8"),
        (b'{"result":"a\\u0000b"}', "NUL"),
        (b'{"\\u0000":1,"result":1}', "NUL"),
        (b'{"result":"a\\\\\\u0000"}', "NUL"),
        (b'{"result":"\\ud800"}', "surrogates"),
        (b'{"result":"\\uDC00 and much more of it"}', "surrogates"),
        (b'{"result":"\\udc00\\ud800"}', "surrogates"),
        (b'{"result":"\\ud800\\\\\\udc00"}', "surrogates"),
        (b'{"result":"\\ud800\\ud800\\udc00"}', "surrogates"),
        (b'{"result":"\\ud800\\udc00\\udc00"}', "surrogates"),
        (with_writes("null"), "Expected `array`"),
        (with_writes("{}"), "Expected `array`"),
        (with_writes("[1]"), "Expected `object`"),
        (with_writes('[{"key":"k","value":"v"}]'), "missing required field `entity`"),
        (with_writes('[{"entity":"e","value":"v"}]'), "missing required field `key`"),
        (with_writes('[{"entity":"e","key":"k"}]'), "missing required field `value`"),
        (with_writes('[{"entity":"e","key":"k","value":1}]'), "Expected `str`"),
        (with_writes('[{"entity":"e","key":"k","value":null}]'), "Expected `str`"),
        (with_writes('[{"entity":1,"key":"k","value":"v"}]'), "Expected `str`"),
        (with_writes('[{"entity":"e","key":"k","value":"v","confidence":null}]'), "Expected `float`"),
        (with_writes('[{"entity":"e","key":"k","value":"v","confidence":"1"}]'), "Expected `float`"),
        (with_writes('[{"entity":"e","key":"k","value":"v","confidence":1e999}]'), "out of range"),
        (b'{"result":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper"),
    ],
)
def test_an_answer_of_another_shape_is_malformed_as_a_whole(body: bytes, what: str) -> None:
    with pytest.raises(MalformedResponse) as refused:
        response_in(Answer(200, body))
    assert refused.value.message.startswith("upstream returned malformed response: ")
    assert what in refused.value.message
    assert (refused.value.status, refused.value.reason) == (502, "malformed_response")


@pytest.mark.parametrize("value", [b'"\\ud83d\\ude00"', b'"\\\\u0000"', b'"\\\\ud800"', b'"\\\\\\\\u0000 \\u00e9"'])
def test_pairs_of_surrogates_and_escaped_backslashes_are_text(value: bytes) -> None:
    assert bytes(response_in(Answer(200, b'{"result":' + value + b"}")).result) == value


@given(st.lists(st.sampled_from(["\\ud800", "\\udBff", "\\uDC00", "\\udfff", "\\\\", "\\u0000", "\\n", "u0000", "x"])))
def test_text_is_taken_as_python_reads_it(parts: list[str]) -> None:
    text = f'"{"".join(parts)}"'
    read = json.loads(text)
    good = "\0" not in read and not any("\ud800" <= char <= "\udfff" for char in read)
    try:
        response_in(Answer(200, f'{{"result":{text}}}'.encode()))
    except MalformedResponse:
        assert not good
    else:
        assert good


@pytest.mark.parametrize("brackets", [("[", "]"), ('{"a":', "}")])
@pytest.mark.parametrize(("depth", "taken"), [(MOST_NESTED - 1, True), (MOST_NESTED, False)])
def test_an_answer_is_nested_as_deep_as_others_read(brackets: tuple[str, str], depth: int, taken: bool) -> None:
    opened, closed = brackets
    # The answer itself is one level. Brackets in strings are none.
    body = f'{{"result":{opened * depth}"{"[" * 1000}\\"["{closed * depth}}}'.encode()
    if taken:
        response_in(Answer(200, body))
    else:
        with pytest.raises(MalformedResponse, match=f"nested deeper than {MOST_NESTED}"):
            response_in(Answer(200, body))


def test_many_brackets_side_by_side_are_not_deep() -> None:
    response_in(Answer(200, b'{"result":[' + b"[],{}," * 1000 + b"1]}"))


@pytest.mark.parametrize(("count", "taken"), [(MOST_WRITES, True), (MOST_WRITES + 1, False)])
def test_an_answer_has_a_bounded_number_of_writes(count: int, taken: bool) -> None:
    body = with_writes(json.dumps([{"entity": "e", "key": "k", "value": "v"}] * count))
    if taken:
        assert len(response_in(Answer(200, body)).fact_writes) == count
    else:
        with pytest.raises(MalformedResponse, match=f"at most {MOST_WRITES} fact_writes, got {count}"):
            response_in(Answer(200, body))


def test_a_write_without_confidence_is_certain() -> None:
    (write,) = response_in(Answer(200, with_writes('[{"entity":"e","key":"k","value":"","x":1}]'))).fact_writes
    assert write == ProposedWrite("e", "k", "", 1.0)


def test_writes_are_covered_by_the_start_of_their_entity() -> None:
    writes = [ProposedWrite(entity, "k", "v") for entity in ("a::1", "secrets::api-key", "a:", "A::1", "b::", "xa::")]
    accepted, reasons = sorted_out(writes, ("a::", "b"))
    assert [write.entity for write in accepted] == ["a::1", "b::"]
    assert reasons[0] == "fact_writes[1] entity 'secrets::api-key' not covered by grant.allowed_prefixes_write"
    assert [reason.split()[0] for reason in reasons] == [
        "fact_writes[1]",
        "fact_writes[2]",
        "fact_writes[3]",
        "fact_writes[5]",
    ]


def test_a_grant_without_prefixes_covers_nothing() -> None:
    accepted, reasons = sorted_out([ProposedWrite("a", "k", "v")], ())
    assert accepted == ()
    assert len(reasons) == 1


@pytest.mark.parametrize(("entity", "key", "member"), [(" ", "k", "entity"), (" e", " ", "key"), (" e", "", "key")])
def test_what_is_covered_has_to_be_a_fact(entity: str, key: str, member: str) -> None:
    writes = [ProposedWrite("e", "", "dropped, whatever it is"), ProposedWrite(entity, key, "v")]
    with pytest.raises(MalformedResponse, match=rf"fact_writes\[1\]\.{member} must not be blank$"):
        sorted_out(writes, (" ",))


def test_what_is_granted_no_more_is_dropped_with_its_place_in_the_answer() -> None:
    writes = tuple(AcceptedWrite(index, entity, "k", "v", 1.0) for index, entity in ((1, "a::x"), (4, "b::x")))
    outcome = DispatchOutcome(
        result=b"1", writes=writes, drop_reasons=("why",), upstream_status=200, elapsed_ms=1, request_id="r"
    )
    assert narrowed(outcome, ("a::", "b::")) == outcome
    late = "fact_writes[4] entity 'b::x' not covered by grant.allowed_prefixes_write"
    assert narrowed(outcome, ("a::",)) == evolve(outcome, writes=writes[:1], drop_reasons=("why", late))
    assert narrowed(outcome, ()).writes == ()


@given(st.lists(st.text("ab", min_size=1, max_size=3)), st.lists(st.text("ab", max_size=2)))
def test_each_write_is_either_kept_or_told_of(entities: list[str], prefixes: list[str]) -> None:
    accepted, reasons = sorted_out([ProposedWrite(entity, "k", "v") for entity in entities], tuple(prefixes))
    assert [write.entity for write in accepted] == [e for e in entities if any(e.startswith(p) for p in prefixes)]
    assert len(accepted) + len(reasons) == len(entities)


@given(st.floats(allow_nan=False))
def test_confidence_is_brought_within_its_range(confidence: float) -> None:
    (accepted,), _ = sorted_out([ProposedWrite("a", "k", "v", confidence)], ("a",))
    assert 0 <= accepted.confidence <= 1
    assert accepted.confidence == confidence or not 0 <= confidence <= 1
    assert math.isfinite(accepted.confidence)


def test_the_outcome_is_shown_in_the_order_of_the_seed() -> None:
    outcome = DispatchOutcome(
        result=b'{ "quote":1.50 }',
        writes=(AcceptedWrite(0, "a", "k", "v", 1.0),),
        drop_reasons=("why",),
        upstream_status=200,
        elapsed_ms=143,
        request_id="req-1",
    )
    assert msgspec.json.encode(outcome.document()) == (
        b'{"result":{ "quote":1.50 },"accepted_fact_writes":1,"dropped_fact_writes":1,"drop_reasons":["why"],'
        b'"upstream_status":200,"elapsed_ms":143,"request_id":"req-1"}'
    )


def test_the_audit_has_a_word_for_every_end() -> None:
    words = {refusal.reason for refusal in DispatchRefused.__subclasses__()}
    assert words | {audit_reason(RateLimited("x"))} == {
        "not_external_tool",
        "tool_not_in_manifest",
        "no_grant",
        "tool_not_in_grant",
        "rate_limited",
        "request_too_large",
        "response_too_large",
        "plain_http_blocked",
        "invalid_endpoint",
        "endpoint_not_allowed",
        "transport",
        "upstream_error",
        "malformed_response",
        "json",
    }
    assert audit_reason(ValueError("x")) == "internal"
