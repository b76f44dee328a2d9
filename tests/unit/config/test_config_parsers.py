from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.config import AuthMode, parsers
from crux.logs import LogFormat, LogLevel, Redact


@pytest.mark.parametrize("text", ["1", "true", "YES", " On "])
def test_a_switch_is_on_for_four_words_in_any_case(text: str) -> None:
    assert parsers.switch(text) is True


@pytest.mark.parametrize("text", ["0", "False", "no", "OFF"])
def test_a_switch_is_off_for_four_words_in_any_case(text: str) -> None:
    assert parsers.switch(text) is False


@pytest.mark.parametrize("text", ["2", "enabled", "y", "truefalse"])
def test_any_other_switch_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="1, true, yes or on"):
        parsers.switch(text)


@pytest.mark.parametrize(
    ("text", "on"),
    [("", False), ("  ", False), ("0", False), (" False", False), ("OFF ", False), ("1", True), ("On", True)],
)
def test_a_flag_is_a_switch_that_is_off_where_it_is_set_to_nothing(text: str, on: bool) -> None:
    assert parsers.flag(text) is on


@pytest.mark.parametrize("text", ["00", "disabled", "of", "n"])
def test_a_flag_is_no_guess(text: str) -> None:
    with pytest.raises(ValueError, match="1, true, yes or on"):
        parsers.flag(text)


@given(st.integers(0, 65535))
def test_every_port_number_is_a_port(number: int) -> None:
    assert parsers.port(f" {number} ") == number


@pytest.mark.parametrize("text", ["-1", "65536", "80.0", "1_000", "٨٠", "http", "9" * 5000])
def test_what_is_no_port_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a port number from 0 to 65535"):
        parsers.port(text)


def test_a_whole_number_keeps_to_its_bounds() -> None:
    parse = parsers.whole(1, 10)
    assert [parse("1"), parse("10")] == [1, 10]
    for text in ("0", "11"):
        with pytest.raises(ValueError, match="a whole number from 1 to 10"):
            parse(text)
    with pytest.raises(ValueError, match="a whole number of 1 or more"):
        parsers.whole(1)("0")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("LocalHost", "localhost"),
        ("crux.example.", "crux.example."),
    ],
)
def test_a_host_is_an_address_or_a_name(text: str, value: str) -> None:
    assert parsers.host(text) == value


@pytest.mark.parametrize("text", ["*", "1.2.3", "256.0.0.1", "http://a", "a:80", "a b", "-a", "a..b", "a" * 64])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an IP address or a host name"):
        parsers.host(text)


def test_text_loses_its_blanks_and_a_secret_keeps_them() -> None:
    assert parsers.text(" a b ") == "a b"
    assert parsers.secret(" a b ") == " a b "


def test_lists_drop_blanks_and_empty_entries() -> None:
    assert parsers.items(" team:, ,x:: ,") == ("team:", "x::")
    assert parsers.scopes("a:read, b:read\tb:read") == {"a:read", "b:read"}


@pytest.mark.parametrize("text", ["~user/data", "$DATA/x", "${HOME}/x", "a\0b"])
def test_a_path_with_an_unknown_variable_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a path"):
        parsers.path(text)


def test_a_path_may_be_relative() -> None:
    assert parsers.path(" data ") == Path("data")


def test_an_hs256_key_is_text_or_base64() -> None:
    assert parsers.hs256_key(" a key ") == b" a key "
    assert parsers.hs256_key("base64:AAEC") == b"\x00\x01\x02"
    assert parsers.hs256_key("\udcff") == b"\xff", "bytes of the environment that are not UTF-8 stay what they were"


@pytest.mark.parametrize("text", ["base64:AAE", "base64:AA-_", "base64:é"])
def test_a_key_in_bad_base64_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="standard base64"):
        parsers.hs256_key(text)


@pytest.mark.parametrize(
    ("mode", "spellings"),
    [
        (AuthMode.OFF, ["off", "OFF"]),
        (AuthMode.DEV_SCOPES, ["dev", "dev_scopes", "devscopes", "dev-scopes", "DEV_SCOPES"]),
        (AuthMode.JWT_HS256, ["jwt", "jwt_hs256", "jwt-hs256", "JWT"]),
    ],
)
def test_an_auth_mode_has_several_spellings(mode: AuthMode, spellings: list[str]) -> None:
    assert {parsers.auth_mode(spelling) for spelling in spellings} == {mode}


@pytest.mark.parametrize("text", ["jwt_jwks", "jwt-jwks", "jwks", "OIDC", "jwt-oidc"])
def test_a_jwks_mode_is_known_and_refused(text: str) -> None:
    with pytest.raises(ValueError, match="this release cannot verify tokens against a JWKS"):
        parsers.auth_mode(text)


def test_an_unknown_auth_mode_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"^off, dev_scopes or jwt_hs256$"):
        parsers.auth_mode("none")


def test_the_words_of_logging_are_read_in_any_case() -> None:
    assert parsers.log_format("JSON") is LogFormat.JSON
    assert [parsers.log_level("Warning"), parsers.log_level("warn")] == [LogLevel.WARN, LogLevel.WARN]
    assert [parsers.redact(word) for word in ("enforce", "Audit", "disabled")] == list(Redact)
    with pytest.raises(ValueError, match="trace, debug, info, warn or error"):
        parsers.log_level("loud")


@pytest.mark.parametrize(
    "parse",
    [parsers.port, parsers.switch, parsers.host, parsers.auth_mode, parsers.log_level],
)
def test_what_a_parser_says_never_repeats_the_value(parse: Callable[[str], object]) -> None:
    with pytest.raises(ValueError) as refusal:
        parse("$hunter2$")
    assert "hunter2" not in str(refusal.value)
