import re
import string
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.errors import SettingError
from crux.transport.gates import (
    GuardPolicy,
    Refusal,
    bearer_token,
    cors_headers,
    passport_header,
    session_header,
)

HOST = (b"host", b"127.0.0.1:14801")
PASSPORT = b"x-corecrux-passport-id"
SESSION = b"mcp-session-id"

POLICY = GuardPolicy(
    allowed_hosts=["Crux.Example", "other.example:8443", "192.168.1.5", "[fd00::1]:14801", "fd00::2"],
    allowed_origins=["https://Console.Example", "http://other.example:8080/", "https://tls.example:443", "app://crux"],
)


def status(*headers: tuple[bytes, bytes], policy: GuardPolicy = POLICY) -> int | None:
    refusal = policy.refusal(headers)
    return None if refusal is None else refusal.status


@pytest.mark.parametrize(
    "host",
    [
        *(b"localhost", b"LOCALHOST:14801", b"127.0.0.1", b"127.0.0.1:1", b"127.255.255.254:65535"),
        *(b"[::1]", b"[::1]:14800", b" 127.0.0.1:14801 ", b"localhost:"),
        *(b"crux.example", b"CRUX.example:9", b"other.example:8443", b"192.168.1.5:14801"),
        *(b"[FD00::1]:14801", b"[fd00::2]", b"[fd00::2]:14801"),
    ],
)
def test_loopback_names_on_any_port_and_listed_hosts_are_served(host: bytes) -> None:
    assert status((b"host", host)) is None
    assert status((b"host", host)) is None


@pytest.mark.parametrize(
    "host",
    [
        *(b"", b":14801", b"example.com", b"localhost.example.com", b"127.0.0.1.example.com", b"xlocalhost"),
        *(b"0.0.0.0", b"128.0.0.1", b"127.1", b"::1", b"[::2]", b"[::1", b"[::1]x", b"192.168.1.6"),
        *(b"other.example", b"other.example:8444", b"[fd00::1]", b"sub.crux.example", b"crux.example."),
        *(b"user@127.0.0.1", b"127.0.0.1/", b"127.0.0.1:80:80", b"127.0.0.1:x", b"127.0.0.1:123456"),
        *(b"127.0.0.1, evil.example", b"127.0.0.1\nevil", b"\xb927.0.0.1", b"l\xc3\xb6calhost", b"\xff"),
    ],
)
def test_any_other_host_is_misdirected_and_the_refusal_names_the_setting(host: bytes) -> None:
    refusal = POLICY.refusal([(b"host", host)])
    assert refusal is not None
    assert refusal.status == 421
    assert refusal.error == "host-not-allowed"
    assert "CRUX_ALLOWED_HOSTS" in refusal.hint
    assert refusal.hint.isascii() or len(host) > 64


@pytest.mark.parametrize("headers", [[], [(b"accept", b"*/*")], [HOST, HOST], [HOST, (b"host", b"evil.example")]])
def test_a_request_without_exactly_one_host_is_malformed(headers: list[tuple[bytes, bytes]]) -> None:
    assert status(*headers) == 400


@pytest.mark.parametrize(
    "origin",
    [
        *(b"http://localhost", b"https://localhost:5173", b"HTTP://LocalHost:1", b"http://127.0.0.1:6274"),
        *(b"http://127.9.9.9", b"http://[::1]:3000", b"https://[::1]"),
        *(b"https://console.example", b"https://CONSOLE.example:443", b"http://other.example:8080"),
        *(b"https://tls.example", b"https://tls.example:443", b"app://crux"),
    ],
)
def test_pages_of_loopback_and_of_listed_origins_may_call(origin: bytes) -> None:
    assert status(HOST, (b"origin", origin)) is None


@pytest.mark.parametrize(
    "origin",
    [
        *(b"null", b"", b"*", b"http://", b"localhost", b"//localhost", b"http://localhost/", b"http://localhost/x"),
        *(b"http://evil.example", b"http://localhost.evil.example", b"http://127.0.0.1.evil.example"),
        *(b"http://localhost@evil.example", b"http://evil.example:80", b"ftp://localhost", b"file://localhost"),
        *(b"http://console.example", b"https://console.example:8443", b"https://console.example:80", b"app://other"),
        *(b"http://localhost http://evil.example", b"http://localhost\x00", b"http://l\xc3\xb6calhost", b"\xff"),
    ],
)
def test_pages_of_any_other_origin_may_not_and_the_refusal_names_the_setting(origin: bytes) -> None:
    refusal = POLICY.refusal([HOST, (b"origin", origin)])
    assert refusal is not None
    assert refusal.status == 403
    assert refusal.error == "origin-not-allowed"
    assert "CRUX_ALLOWED_ORIGINS" in refusal.hint


def test_two_origins_are_refused_even_when_each_is_allowed() -> None:
    origin = (b"origin", b"http://localhost")
    assert status(HOST, origin, origin) == 403


def test_a_foreign_host_is_refused_before_the_origin_is_looked_at() -> None:
    assert status((b"origin", b"null"), (b"host", b"evil.example")) == 421


def test_a_long_host_is_shown_shortened() -> None:
    refusal = POLICY.refusal([(b"host", b"a" * 5000)])
    assert refusal is not None
    assert len(refusal.hint) < 300
    assert "a…'" in refusal.hint


@pytest.mark.parametrize(
    "entry", ["", "https://crux.example", "crux.example/path", "*", "*.example", "a b", "[::1", "ö.de"]
)
def test_a_listed_host_of_another_form_is_refused_at_start(entry: str) -> None:
    with pytest.raises(SettingError, match="CRUX_ALLOWED_HOSTS"):
        GuardPolicy(allowed_hosts=[entry])


@pytest.mark.parametrize(
    "entry", ["", "null", "*", "crux.example", "https://", "https://a/b", "https://*.a", "https://ö.de"]
)
def test_a_listed_origin_of_another_form_is_refused_at_start(entry: str) -> None:
    with pytest.raises(SettingError, match="CRUX_ALLOWED_ORIGINS"):
        GuardPolicy(allowed_origins=[entry])


ports = st.one_of(st.just(""), st.integers(0, 65535).map(":{}".format))
octets = st.integers(0, 255)
hosts = st.one_of(
    st.ip_addresses(v=4).map(str),
    st.builds("127.{}.{}.{}".format, octets, octets, octets),
    st.ip_addresses(v=6).map("[{}]".format),
    st.sampled_from(["localhost", "[::1]", "example.com"]),
)


@given(hosts, ports)
def test_without_a_list_just_the_loopback_hosts_are_served(host: str, port: str) -> None:
    own = host == "localhost" or (host[0] in "[0123456789" and ip_address(host.strip("[]")).is_loopback)
    assert (status((b"host", f"{host}{port}".encode()), policy=GuardPolicy()) is None) == own
    origin = (b"origin", f"http://{host}{port}".encode())
    assert (status(HOST, origin, policy=GuardPolicy()) is None) == own


@given(st.binary(), st.binary())
def test_no_bytes_break_the_guard(host: bytes, origin: bytes) -> None:
    assert status((b"host", host)) in (None, 421)
    assert status(HOST, (b"origin", origin)) in (None, 403)


IDS = [
    (b"a", True),
    (b"a" * 128, True),
    (b"a" * 129, False),
    (b"AZaz09._:-", True),
    (b" \tp_alice ", True),
    (b"", False),
    (b"   ", False),
    (b"a~", False),
    (b"a b", False),
    (b"a\n", False),
    (b"a,b", False),
    (b"\xc3\xa9", False),
    (b"\xff", False),
]


@pytest.mark.parametrize(("value", "accepted"), IDS)
def test_a_passport_or_session_id_is_1_to_128_characters_of_its_charset(value: bytes, accepted: bool) -> None:
    passport = passport_header([HOST, (PASSPORT, value)])
    session = session_header([HOST, (SESSION, value)])
    if accepted:
        assert passport == session == value.decode().strip()
        return
    assert isinstance(passport, Refusal)
    assert isinstance(session, Refusal)
    assert (passport.status, passport.error) == (400, "invalid-passport-header")
    assert (session.status, session.error) == (400, "invalid_mcp_session_id")
    assert "128" in passport.hint
    assert "128" in session.hint


def test_a_request_without_those_headers_names_nobody() -> None:
    assert passport_header([HOST]) is None
    assert session_header([HOST]) is None


def test_every_occurrence_of_a_passport_header_counts_and_all_have_to_agree() -> None:
    alice, bob, bad = (PASSPORT, b"alice"), (PASSPORT, b"bob"), (PASSPORT, b"b@d")
    assert passport_header([alice, HOST, (PASSPORT, b" alice ")]) == "alice"
    for headers in ([alice, bob], [alice, bad], [bad, alice], [bad, bad]):
        assert isinstance(passport_header(headers), Refusal)


def test_a_session_header_that_is_sent_twice_is_refused_though_equal() -> None:
    assert isinstance(session_header([(SESSION, b"s1"), (SESSION, b"s1")]), Refusal)


@given(st.lists(st.one_of(st.binary(max_size=6), st.sampled_from([b"alice", b" alice"])), max_size=3))
def test_a_passport_header_is_refused_just_when_a_value_is_bad_or_two_differ(values: list[bytes]) -> None:
    texts = {value.strip(b" \t").decode("latin-1") for value in values}
    found = passport_header([(PASSPORT, value) for value in values])
    if not texts:
        assert found is None
    elif len(texts) == 1 and all(re.fullmatch(r"[A-Za-z0-9._:-]{1,128}", text) for text in texts):
        assert found in texts
    else:
        assert isinstance(found, Refusal)


@pytest.mark.parametrize(
    ("values", "token"),
    [
        ([b"Bearer abc"], "abc"),
        ([b"Bearer  abc "], " abc "),
        ([b"Bearer "], ""),
        ([b"Bearer \xe9"], "é"),
        ([b"Bearer"], None),
        ([b"bearer abc"], None),
        ([b"BEARER abc"], None),
        ([b"Bearer\tabc"], None),
        ([b" Bearer abc"], None),
        ([b"Basic abc"], None),
        ([b""], None),
        ([], None),
        ([b"Bearer abc", b"Bearer abc"], None),
        ([b"Bearer abc", b"Basic abc"], None),
    ],
)
def test_a_bearer_token_is_what_follows_the_exact_prefix_in_a_single_header(
    values: list[bytes], token: str | None
) -> None:
    assert bearer_token([(b"authorization", value) for value in values]) == token


def test_other_spellings_of_the_scheme_count_only_where_asked_for() -> None:
    headers = [(b"authorization", b"bearer abc")]
    assert bearer_token(headers, (b"Bearer ", b"bearer ")) == "abc"


def test_an_allowed_page_may_read_the_answer_and_two_of_its_headers() -> None:
    assert dict(cors_headers([HOST, (b"origin", b"http://localhost:5173")], POLICY)) == {
        b"access-control-allow-origin": b"http://localhost:5173",
        b"access-control-expose-headers": b"Mcp-Session-Id, WWW-Authenticate",
        b"vary": b"Origin",
    }


def test_the_preflight_of_an_allowed_page_allows_the_mcp_headers_and_methods() -> None:
    found = dict(cors_headers([(b"origin", b"https://console.example")], POLICY, preflight=True))
    assert found[b"access-control-allow-origin"] == b"https://console.example"
    assert found[b"access-control-allow-methods"] == b"GET, POST, OPTIONS"
    assert set(found[b"access-control-allow-headers"].lower().split(b", ")) == {
        *(b"content-type", b"accept", b"authorization"),
        *(b"mcp-session-id", b"mcp-protocol-version", b"last-event-id"),
    }
    assert found[b"vary"] == b"Origin"
    assert int(found[b"access-control-max-age"]) > 0


@pytest.mark.parametrize("preflight", [False, True])
@pytest.mark.parametrize("origins", [[], [b"null"], [b"http://evil.example"], [b"http://localhost"] * 2])
def test_no_other_page_gets_any_such_header(origins: list[bytes], preflight: bool) -> None:
    headers = [(b"origin", origin) for origin in origins]
    assert cors_headers(headers, POLICY, preflight=preflight) == ()


@given(st.text(string.printable).map(str.encode))
def test_no_origin_gets_a_wildcard_or_breaks_a_header_line(origin: bytes) -> None:
    for _, value in cors_headers([(b"origin", origin)], POLICY):
        assert b"*" not in value
        assert not re.search(rb"[\r\n]", value)
