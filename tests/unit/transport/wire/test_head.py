import pytest

from crux.transport.wire.head import CHUNKED, BadRequest, Head, HeadLimits, check_unfinished, read_head

LIMITS = HeadLimits()


def head(*fields: bytes, line: bytes = b"GET / HTTP/1.1", host: bytes | None = b"Host: a") -> Head:
    lines = [line, *([] if host is None else [host]), *fields]
    return read_head(b"\r\n".join(lines) + b"\r\n\r\n", LIMITS)


def status(*fields: bytes, line: bytes = b"GET / HTTP/1.1", host: bytes | None = b"Host: a") -> int | None:
    try:
        head(*fields, line=line, host=host)
    except BadRequest as refused:
        return refused.status
    return None


def test_a_head_says_what_was_asked_for() -> None:
    assert head(b"Accept: a, b", line=b"POST /a%20b;c?d=%20 HTTP/1.1") == Head(
        method="POST",
        version="1.1",
        path="/a b;c",
        raw_path=b"/a%20b;c",
        query=b"d=%20",
        fields=((b"host", b"a"), (b"accept", b"a, b")),
        length=0,
        keep_alive=True,
        expects_continue=False,
    )


def test_field_names_are_lowered_and_values_lose_the_blanks_around_them_and_nothing_else() -> None:
    fields = head(b"X-A:\t b \t c\t ", b"X-A:", b"x!#$%&'*+-.^_`|~9: \xff\x80", host=b"HOST: a").fields
    assert fields == ((b"host", b"a"), (b"x-a", b"b \t c"), (b"x-a", b""), (b"x!#$%&'*+-.^_`|~9", b"\xff\x80"))


def test_fields_cannot_be_changed_by_an_application_they_are_given_to() -> None:
    assert isinstance(head().fields, tuple)


@pytest.mark.parametrize(
    "line",
    [
        *(b"get / HTTP/1.1", b"GE T / HTTP/1.1", b"G@T / HTTP/1.1", b" / HTTP/1.1", b"GET  / HTTP/1.1", b"GET /", b""),
        *(
            b"GET / http/1.1",
            b"GET / HTTP/1.1 ",
            b"GET / HTTP/11",
            b"GET / HTTP/1.10",
            b"GET / HTTP/1,1",
            b"GET\t/ HTTP/1.1",
        ),
        *(
            b"GET /a b HTTP/1.1",
            b"GET /\x7f HTTP/1.1",
            b"GET /\x00 HTTP/1.1",
            b"GET /\xe4 HTTP/1.1",
            b"GET /\t HTTP/1.1",
        ),
        *(b" GET / HTTP/1.1", b"\r\nGET / HTTP/1.1", b"\nGET / HTTP/1.1", b"GET / HTTP/1.1\rX: a", b"GET / HTTP/1.1\n"),
        b"A" * 21 + b" / HTTP/1.1",
    ],
)
def test_a_request_line_that_breaks_the_grammar_is_400(line: bytes) -> None:
    assert status(line=line) == 400


@pytest.mark.parametrize(
    "field",
    [
        *(
            b"X",
            b": a",
            b" X: a",
            b"\tX: a",
            b"X : a",
            b"X\t: a",
            b"X Y: a",
            b"X\x00: a",
            b"X\x80: a",
            b"X(): a",
            b"X\x7f: a",
        ),
        *(
            b"X: \x00",
            b"X: \x01",
            b"X: \x0b",
            b"X: \x0c",
            b"X: \x1f",
            b"X: \x7f",
            b"X: a\rY: b",
            b"X: a\nY: b",
            b"X: a\r",
        ),
        *(b"X: a\n", b"X: a\r\n b", b"X: a\r\n\tb", b" folded into the host"),
    ],
)
def test_a_field_that_breaks_the_grammar_is_400(field: bytes) -> None:
    assert status(field) == 400


@pytest.mark.parametrize("version", [b"0.9", b"1.2", b"2.0", b"3.0"])
def test_other_versions_are_505(version: bytes) -> None:
    assert status(line=b"GET / HTTP/" + version) == 505
    assert status(line=b"PRI * HTTP/2.0", host=None) == 505


@pytest.mark.parametrize(
    ("method", "expected"), [(b"BREW", 501), (b"GETT", 501), (b"CONNECT", 501), (b"PRI", 400), (b"SETUP", 400)]
)
def test_a_method_that_is_not_served_is_refused(method: bytes, expected: int) -> None:
    assert status(line=method + b" / HTTP/1.1") == expected


@pytest.mark.parametrize(
    "method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "M-SEARCH"]
)
def test_the_methods_of_http_are_taken(method: str) -> None:
    assert head(line=method.encode() + b" / HTTP/1.1").method == method


@pytest.mark.parametrize(
    ("target", "host", "path", "raw_path", "query"),
    [
        (b"/", b"a", "/", b"/", b""),
        (b"/?", b"a", "/", b"/", b""),
        (b"/??a?b", b"a", "/", b"/", b"?a?b"),
        (b"//b/c", b"a", "//b/c", b"//b/c", b""),
        (b"/%E2%82%AC%zz%2fx", b"a", "/\u20ac%zz/x", b"/%E2%82%AC%zz%2fx", b""),
        (b"/%ff", b"a", "/\ufffd", b"/%ff", b""),
        (b'/"<>\\^`{|}', b"a", '/"<>\\^`{|}', b'/"<>\\^`{|}', b""),
        (b"http://b", b"b", "/", b"/", b""),
        (b"http://b/", b"b", "/", b"/", b""),
        (b"https://b:81/c/d?e=http://f/", b"b:81", "/c/d", b"/c/d", b"e=http://f/"),
        (b"HTTP://[::1]:80?c", b"[::1]:80", "/", b"/", b"c"),
        (b"hTTpS://b-c.Example/%41", b"b-c.Example", "/A", b"/%41", b""),
    ],
)
def test_a_target_gives_host_path_and_query(
    target: bytes, host: bytes, path: str, raw_path: bytes, query: bytes
) -> None:
    seen = head(b"X: y", line=b"GET " + target + b" HTTP/1.1")
    assert (seen.fields, seen.path, seen.raw_path, seen.query) == (
        ((b"host", host), (b"x", b"y")),
        path,
        raw_path,
        query,
    )


def test_options_may_ask_about_the_server_as_such() -> None:
    assert (head(line=b"OPTIONS * HTTP/1.1").path, status(line=b"GET * HTTP/1.1")) == ("*", 400)


@pytest.mark.parametrize(
    "target",
    [
        *(
            b"a",
            b"a:80",
            b"a/b",
            b"*x",
            b"**",
            b"?a",
            b"#",
            b"/a#b",
            b"/#",
            b"http://a#b",
            b"http://a/#b",
            b"http:/a",
            b"http:a",
        ),
        *(
            b"http://",
            b"http:///a",
            b"http://?a",
            b"http://:80",
            b"http://u@a/",
            b"http://u:p@a/",
            b"http://a:b",
            b"http://[a",
        ),
        *(
            b"http://[a/b",
            b"http://[g]",
            b"http://a\\b/",
            b"http://a<b/",
            b"ftp://a/",
            b"ws://a/",
            b"file:///a",
            b"xhttp://a/",
        ),
    ],
)
def test_any_other_target_is_400(target: bytes) -> None:
    assert status(line=b"GET " + target + b" HTTP/1.1") == 400


@pytest.mark.parametrize(
    ("fields", "version", "expected"),
    [
        ([], b"1.1", 400),
        ([], b"1.0", None),
        ([b"Host: a"], b"1.0", None),
        ([b"Host:"], b"1.1", None),
        ([b"Host: a:1"], b"1.1", None),
        ([b"Host: a:"], b"1.1", None),
        ([b"Host: [::1]:1"], b"1.1", None),
        ([b"Host: a.b-c_d~%41!$&'()*+,;="], b"1.1", None),
        ([b"Host: a", b"Host: a"], b"1.1", 400),
        ([b"Host: a", b"HOST: b"], b"1.0", 400),
        *(
            ([b"Host: " + host], b"1.1", 400)
            for host in (b"a b", b"a/b", b"u@a", b"a:b", b"a:1:2", b"[::1", b"\xe4", b"a?", b"[]")
        ),
    ],
)
def test_a_request_has_one_host_and_that_is_an_authority(
    fields: list[bytes], version: bytes, expected: int | None
) -> None:
    assert status(*fields, line=b"GET / HTTP/" + version, host=None) == expected


def test_an_absolute_target_needs_the_host_field_too_and_overrules_it() -> None:
    line = b"GET http://b/ HTTP/1.1"
    assert status(line=line, host=None) == 400
    assert status(line=line, host=b"Host: a b") == 400
    assert head(b"X: y", line=line).fields == ((b"host", b"b"), (b"x", b"y"))
    assert head(line=b"GET http://b/ HTTP/1.0", host=None).fields == ((b"host", b"b"),)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([], 0),
        ([b"Content-Length: 0"], 0),
        ([b"Content-Length: 17"], 17),
        ([b"CONTENT-LENGTH:\t0017 \t"], 17),
        ([b"Content-Length: 9999999999999999999"], 9999999999999999999),
        ([b"Transfer-Encoding: chunked"], CHUNKED),
        ([b"transfer-encoding:\tChunked "], CHUNKED),
    ],
)
def test_the_length_of_a_body_is_known_from_its_head(fields: list[bytes], expected: int) -> None:
    assert head(*fields).length == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        *(
            ([b"Content-Length: " + length], 400)
            for length in (
                *(
                    b"",
                    b"+1",
                    b"-1",
                    b"1, 1",
                    b"1,2",
                    b"1 1",
                    b"1.0",
                    b"0x1",
                    b"1x",
                    b"x",
                    b"1_0",
                    b"1;",
                    b"\xb2",
                    b"1\xa0",
                ),
                *(b"00000000000000000001", b"18446744073709551616", b"99999999999999999999999"),
            )
        ),
        ([b"Content-Length: 1", b"Content-Length: 1"], 400),
        ([b"Content-Length: 1", b"Content-Length: 2"], 400),
        ([b"Content-Length: 1", b"content-length:"], 400),
        ([b"Content-Length: 1", b"Transfer-Encoding: chunked"], 400),
        ([b"Transfer-Encoding: chunked", b"Content-Length: 1"], 400),
        ([b"Transfer-Encoding: chunked", b"Content-Length: 0"], 400),
        *(
            ([b"Transfer-Encoding: " + coding], 400)
            for coding in (b"", b"gzip", b"identity", b"chunked, gzip", b"chunked, chunked")
        ),
        *(
            ([b"Transfer-Encoding: " + coding], 400)
            for coding in (b"xchunked", b"chunkedx", b"chunked;q=1", b'"chunked"')
        ),
        ([b"Transfer-Encoding: gzip, chunked"], 501),
        ([b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"], 501),
        ([b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"], 400),
    ],
)
def test_a_length_that_could_be_read_in_two_ways_is_refused(fields: list[bytes], expected: int) -> None:
    assert status(*fields) == expected


def test_http_1_0_has_no_chunks() -> None:
    assert status(b"Transfer-Encoding: chunked", line=b"POST / HTTP/1.0") == 400


@pytest.mark.parametrize(
    ("connection", "in_1_0", "in_1_1"),
    [
        ([], False, True),
        ([b"close"], False, False),
        ([b"Close"], False, False),
        ([b"keep-alive"], True, True),
        ([b"Keep-Alive"], True, True),
        ([b"keep-alive, close"], False, False),
        ([b"keep-alive", b"close"], False, False),
        ([b"TE ,\tclose\t, x"], False, False),
        ([b"TE, keep-alive"], True, True),
        ([b""], False, True),
        ([b",,"], False, True),
        ([b"closed"], False, True),
        ([b"upgrade"], False, True),
    ],
)
@pytest.mark.parametrize("body", [[], [b"Content-Length: 1"]])
def test_a_connection_lasts_as_the_peer_wants_it_to(
    connection: list[bytes], in_1_0: bool, in_1_1: bool, body: list[bytes]
) -> None:
    fields = [*(b"Connection: " + options for options in connection), *body]
    assert head(*fields, line=b"POST / HTTP/1.0").keep_alive is in_1_0
    assert head(*fields, line=b"POST / HTTP/1.1").keep_alive is in_1_1


@pytest.mark.parametrize(
    ("fields", "version", "expected"),
    [
        ([], b"1.1", False),
        ([b"Expect: 100-continue"], b"1.1", True),
        ([b"Expect: 100-Continue"], b"1.1", True),
        ([b"Expect: 100-continue"], b"1.0", False),
    ],
)
def test_a_continue_is_waited_for_where_it_is_asked_for(fields: list[bytes], version: bytes, expected: bool) -> None:
    assert head(*fields, b"Content-Length: 1", line=b"POST / HTTP/" + version).expects_continue is expected


@pytest.mark.parametrize(
    "fields", [[b"Expect:"], [b"Expect: 200-ok"], [b"Expect: 100-continue, x"], [b"Expect: 100-continue"] * 2]
)
def test_any_other_expectation_is_417(fields: list[bytes]) -> None:
    assert status(*fields) == 417


@pytest.mark.parametrize("body", [b"Content-Length: 5", b"Transfer-Encoding: chunked", b"X: y"])
def test_an_upgrade_is_not_taken_up(body: bytes) -> None:
    upgrade = (b"Connection: upgrade, http2-settings", b"Upgrade: h2c", b"HTTP2-Settings: a")
    plain, upgraded = head(body), head(body, *upgrade)
    assert (upgraded.method, upgraded.length, upgraded.keep_alive) == (plain.method, plain.length, True)
    assert upgraded.fields[:2] == plain.fields


def test_a_head_has_at_most_so_many_fields() -> None:
    assert len(head(*[b"X:"] * 99).fields) == 100
    assert status(*[b"X:"] * 100) == 431


@pytest.mark.parametrize(
    "begun",
    [
        *(
            b"",
            b"G",
            b"GET",
            b"A" * 20,
            b"M-SEARCH ",
            b"GET /",
            b"GET / HTTP/1.1",
            b"GET / HTTP/1.1\r",
            b"GET / HTTP/1.1\r\n",
        ),
        *(b"GET / HTTP/1.1\r\nHost", b"GET / HTTP/1.1\r\nHost: \t\xff\r\n\r"),
    ],
)
def test_a_head_may_come_in_parts(begun: bytes) -> None:
    check_unfinished(begun, 0, LIMITS)


@pytest.mark.parametrize(
    "begun",
    [
        *(
            b"\x16\x03\x01\x02\x00\x01\x00",
            b"\x80\x2e\x01",
            b"\x00",
            b"\r",
            b"\n",
            b"\r\n",
            b" ",
            b"get",
            b"1",
            b"{",
            b"SSH-2",
            b"GET\r",
        ),
        *(
            b"GET\t/",
            b"A" * 21,
            b"GET /\x00",
            b"GET / HTTP/1.1\n",
            b"GET / HTTP/1.1\r\nX: a\n",
            b"GET / HTTP/1.1\rX",
            b"GET /\x7f",
        ),
    ],
)
def test_what_can_never_become_a_head_is_400_at_once(begun: bytes) -> None:
    with pytest.raises(BadRequest) as refused:
        check_unfinished(begun, 0, LIMITS)
    assert refused.value.status == 400
    with pytest.raises(BadRequest) as refused:
        read_head(begun + b"\r\n\r\n", LIMITS)
    assert refused.value.status == 400


def test_an_unfinished_head_may_be_as_long_as_a_whole_one() -> None:
    check_unfinished(b"GET /".ljust(LIMITS.bytes, b"a"), 0, LIMITS)
    with pytest.raises(BadRequest) as refused:
        check_unfinished(b"GET /".ljust(LIMITS.bytes + 1, b"a"), 0, LIMITS)
    assert (refused.value.status, refused.value.reason) == (431, "the head has more than 32768 bytes")
