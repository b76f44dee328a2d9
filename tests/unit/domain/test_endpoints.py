"""Which URLs are endpoints, and which entries of `allowed_hosts` cover them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.endpoints import Endpoint, check_allowed, read_allowed_host, read_endpoint
from crux.domain.outbound_refusals import EndpointNotAllowed, InvalidEndpoint


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("https://tools.example.com/crux/invoke", ("https", "tools.example.com", 443, "/crux/invoke")),
        ("https://Tools.Example.COM", ("https", "tools.example.com", 443, "/")),
        ("https://a.example?x=1", ("https", "a.example", 443, "/?x=1")),
        ("https://a.example/p?q=a b#frag", ("https", "a.example", 443, "/p?q=a%20b")),
        ("https://a.example/#/?x", ("https", "a.example", 443, "/")),
        ("https://a.example/é/%2e%2E/..", ("https", "a.example", 443, "/%C3%A9/%2e%2E/..")),
        ("https://a.example:/p", ("https", "a.example", 443, "/p")),
        ("http://a.example", ("http", "a.example", 80, "/")),
        ("http://127.0.0.1:8080/x", ("http", "127.0.0.1", 8080, "/x")),
        ("https://[::1]:8443/x", ("https", "::1", 8443, "/x")),
        ("https://[0:0:0:0:0:0:0:1]", ("https", "::1", 443, "/")),
        ("https://me:s3cret@a.example/p", ("https", "a.example", 443, "/p")),
        ("https://good.example@evil.example/", ("https", "evil.example", 443, "/")),
        ("https://a@b@evil.example/", ("https", "evil.example", 443, "/")),
        ("https://a.example:65535", ("https", "a.example", 65535, "/")),
        ("https://a.example:00443", ("https", "a.example", 443, "/")),
    ],
)
def test_an_http_url_with_a_host_is_an_endpoint(url: str, endpoint: tuple[str, str, int, str]) -> None:
    read = read_endpoint(url)
    assert (read.scheme, read.host, read.port, read.target) == endpoint


@pytest.mark.parametrize(
    "url",
    [
        "https://",
        "https:///path",
        "https://:443/",
        "https://user@/",
        "https://a.example:65536",
        "https://a.example:99999999999999999999",
        "https://a.example:80x",
        "https://a.example:-1",
        "https://a b.example",
        "https://a%2eexample",
        "https://bücher.example",
        "https://a.example\\@evil.example",
        "https://a.exam\tple",
        "https://a.example/\r\nHost: evil",
        "https://a.example/\x00",
        "https://[::1",
        "https://::1/",
        "https://[::1%25eth0]/",
        "https://[1.2.3.4]/",
        "https://[zz]/",
        "ftp://a.example",
        " https://a.example",
        "",
    ],
)
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(InvalidEndpoint, match=r"^invalid endpoint .*: expected ") as refused:
        read_endpoint(url)
    assert (refused.value.status, refused.value.reason) == (502, "invalid_endpoint")


def test_a_refused_url_is_shown_without_its_password() -> None:
    with pytest.raises(InvalidEndpoint) as refused:
        read_endpoint("https://me:s3cret@")
    assert "s3cret" not in refused.value.message


@given(st.text(max_size=40))
def test_every_text_is_an_endpoint_or_refused(text: str) -> None:
    try:
        endpoint = read_endpoint(f"https://{text}")
    except InvalidEndpoint:
        return
    assert re.fullmatch(r"[a-z0-9._:-]+", endpoint.host)
    assert re.fullmatch(r"[!-~]+", endpoint.target), "it goes into the head of a request as it is"
    assert 0 <= endpoint.port <= 65535


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://A.example:443/x", "a.example"),
        ("https://a.example:444/x", "a.example:444"),
        ("http://a.example:443/x", "a.example:443"),
        ("http://a.example:80", "a.example"),
        ("https://[::1]:444", "[::1]:444"),
        ("https://[::1]/", "[::1]"),
        ("https://u:p@a.example/", "a.example"),
    ],
)
def test_a_message_shows_the_host_and_a_port_that_is_not_the_schemes_own(url: str, shown: str) -> None:
    assert read_endpoint(url).authority == shown


def covers(entry: str, endpoint: Endpoint) -> bool:
    allowed = read_allowed_host(entry)
    return allowed is not None and allowed.covers(endpoint)


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("tools.example.com", "https://tools.example.com"),
        ("tools.example.com", "https://tools.example.com:8443"),
        ("  TOOLS.Example.com\t", "https://tools.example.COM"),
        ("tools.example.com:443", "https://tools.example.com/x"),
        ("tools.example.com:443", "https://tools.example.com:443/x"),
        ("tools.example.com:80", "http://tools.example.com/x"),
        ("tools.example.com:8443", "https://tools.example.com:8443/x"),
        ("127.0.0.1:8443", "https://127.0.0.1:8443"),
        ("[::1]", "https://[::1]:9"),
        ("[::1]:8443", "https://[::1]:8443"),
        ("[0:0::1]:8443", "https://[::0001]:8443"),
        ("[FE80::A]", "https://[fe80::a]"),
        ("a.example:65535", "https://a.example:65535"),
    ],
)
def test_an_entry_covers_its_host_and_port(entry: str, url: str) -> None:
    assert covers(entry, read_endpoint(url))


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        ("example.com", "https://tools.example.com"),
        ("tools.example.com", "https://tools.example.com.evil.example"),
        ("tools.example.com:443", "http://tools.example.com"),
        ("tools.example.com:443", "https://tools.example.com:444"),
        ("[::1]:8443", "https://[::1]"),
        ("[::2]", "https://[::1]"),
    ],
)
def test_an_entry_covers_nothing_else(entry: str, url: str) -> None:
    assert not covers(entry, read_endpoint(url))


@pytest.mark.parametrize(
    "entry",
    [
        "",
        " ",
        "https://a.example",
        "a.example/",
        "a.example/path",
        "a.example?x",
        "a.example#x",
        "*",
        "*.example",
        "a.*",
        "a.example:",
        "a.example:x",
        "a.example:65536",
        "a.example:-1",
        "a.example:443:443",
        "::1",
        "::1:443",
        "[::1",
        "::1]",
        "[]",
        "[a.example]",
        "[1.2.3.4]",
        "[::1]443",
        "[::1]:",
        "[fe80::1%eth0]",
        ":443",
    ],
)
def test_a_malformed_entry_allows_nothing(entry: str) -> None:
    assert read_allowed_host(entry) is None


def test_no_list_allows_every_host_and_a_list_of_typos_none() -> None:
    endpoint = read_endpoint("https://a.example:444/x")
    check_allowed(endpoint, (), "ext.quote")
    check_allowed(endpoint, ("b.example", "a.example"), "ext.quote")
    with pytest.raises(EndpointNotAllowed) as refused:
        check_allowed(endpoint, ("https://a.example:444",), "ext.quote")
    assert refused.value.message == (
        "endpoint 'a.example:444' is not allowed by extension 'ext.quote' network.allowed_hosts"
    )


@given(st.text(max_size=30))
def test_every_entry_is_read_or_allows_nothing(entry: str) -> None:
    allowed = read_allowed_host(entry)
    assert allowed is None or (allowed.host and (allowed.port is None or allowed.port <= 65535))
