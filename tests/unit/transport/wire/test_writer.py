import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.transport.wire.writer import LAST_CHUNK, LONGEST_KEPT_VALUE, Misuse, ResponseWriter, State, _field

STAMP = b"date: Tue, 01 Jan 2030 00:00:00 GMT\r\nserver: crux\r\n"
Pairs = list[tuple[bytes, bytes]]


def started(
    fields: Pairs | None = None,
    *,
    status: int = 200,
    method: str = "GET",
    version: str = "1.1",
    keep_alive: bool = True,
) -> ResponseWriter:
    writer = ResponseWriter(method, version, keep_alive=keep_alive)
    writer.start(status, fields or [], STAMP)
    return writer


def sent(writer: ResponseWriter, *parts: bytes) -> tuple[list[bytes], bytes]:
    """The response's field lines but for the stamp, and what follows its head."""
    data = b"".join(writer.body(part, more=True) for part in parts[:-1]) + writer.body(parts[-1], more=False)
    head, _, rest = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[1:3] == STAMP.split(b"\r\n")[:2]
    return lines[3:], rest


def test_a_small_answer_is_one_piece() -> None:
    writer = started([(b"Content-Type", b"text/plain")], status=404)
    assert writer.body(b"gone", more=False) == (
        b"HTTP/1.1 404 Not Found\r\n" + STAMP + b"Content-Type: text/plain\r\ncontent-length: 4\r\n\r\ngone"
    )
    assert (writer.state, writer.keep_alive) == (State.DONE, True)


@pytest.mark.parametrize(
    ("status", "line"), [(200, b"HTTP/1.1 200 OK"), (418, b"HTTP/1.1 418 I'm a Teapot"), (299, b"HTTP/1.1 299 ")]
)
def test_a_status_has_its_phrase_or_none(status: int, line: bytes) -> None:
    assert started(status=status).body(b"", more=False).startswith(line + b"\r\n")


@pytest.mark.parametrize(
    ("fields", "parts", "lines", "rest"),
    [
        ([], [b""], [b"content-length: 0"], b""),
        ([], [b"abc"], [b"content-length: 3"], b"abc"),
        ([], [b"abc", b""], [b"transfer-encoding: chunked"], b"3\r\nabc\r\n0\r\n\r\n"),
        (
            [],
            [b"", b"", b"a" * 26, b"", b"b"],
            [b"transfer-encoding: chunked"],
            b"1a\r\n%b\r\n1\r\nb\r\n0\r\n\r\n" % (b"a" * 26),
        ),
        ([(b"content-length", b"3")], [b"abc"], [b"content-length: 3"], b"abc"),
        ([(b"Content-Length", b"3")], [b"", b"ab", b"c", b""], [b"Content-Length: 3"], b"abc"),
        ([(b"content-length", b"0")], [b""], [b"content-length: 0"], b""),
    ],
)
def test_a_body_has_a_length_or_chunks(fields: Pairs, parts: list[bytes], lines: list[bytes], rest: bytes) -> None:
    writer = started(fields)
    assert sent(writer, *parts) == (lines, rest)
    assert writer.keep_alive


@pytest.mark.parametrize(
    ("fields", "parts", "lines", "rest", "lasts"),
    [
        ([], [b"abc"], [b"content-length: 3", b"connection: keep-alive"], b"abc", True),
        ([(b"content-length", b"3")], [b"a", b"bc"], [b"content-length: 3", b"connection: keep-alive"], b"abc", True),
        ([], [b"a", b"", b"bc"], [b"connection: close"], b"abc", False),
    ],
)
def test_http_1_0_is_told_whether_it_may_go_on_and_knows_no_chunks(
    fields: Pairs, parts: list[bytes], lines: list[bytes], rest: bytes, lasts: bool
) -> None:
    writer = started(fields, version="1.0")
    assert sent(writer, *parts) == (lines, rest)
    assert writer.keep_alive is lasts


@pytest.mark.parametrize(
    ("fields", "parts", "lines"),
    [
        ([(b"content-length", b"3")], [b""], [b"content-length: 3"]),
        ([(b"content-length", b"3")], [b"abc"], [b"content-length: 3"]),
        ([(b"content-length", b"3")], [b"a", b"b"], [b"content-length: 3"]),
        ([], [b"abc"], [b"content-length: 3"]),
        ([], [b""], []),
        ([], [b"abc", b"d"], [b"transfer-encoding: chunked"]),
    ],
)
def test_head_gets_the_fields_of_get_and_no_body(fields: Pairs, parts: list[bytes], lines: list[bytes]) -> None:
    writer = started(fields, method="HEAD")
    assert sent(writer, *parts) == (lines, b"")
    assert (writer.state, writer.keep_alive) == (State.DONE, True)


@pytest.mark.parametrize(
    ("status", "fields", "lines"),
    [
        (204, [], []),
        (204, [(b"content-length", b"0"), (b"allow", b"GET")], [b"allow: GET"]),
        (304, [], []),
        (304, [(b"content-length", b"3")], [b"content-length: 3"]),
    ],
)
@pytest.mark.parametrize("parts", [[b""], [b"abc"], [b"a", b"b"]])
def test_some_statuses_have_no_body(status: int, fields: Pairs, lines: list[bytes], parts: list[bytes]) -> None:
    assert sent(started(fields, status=status), *parts) == (lines, b"")


@pytest.mark.parametrize(
    ("fields", "keep_alive"),
    [
        ([], False),
        ([(b"connection", b"close")], True),
        ([(b"Connection", b"Close")], True),
        ([(b"connection", b"x, close")], True),
        ([(b"connection", b"keep-alive")], False),
    ],
)
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_connection_ends_as_either_side_wants_and_says_so_once(fields: Pairs, keep_alive: bool, version: str) -> None:
    writer = started(fields, keep_alive=keep_alive, version=version)
    assert sent(writer, b"a") == ([b"content-length: 1", b"connection: close"], b"a")
    assert not writer.keep_alive


def test_fields_that_are_the_servers_to_say_are_left_out() -> None:
    fields = [
        (b"Date", b"today"),
        (b"server", b"other"),
        (b"transfer-encoding", b"chunked"),
        (b"connection", b"keep-alive"),
    ]
    assert sent(started([*fields, (b"x", b"y")]), b"a") == ([b"x: y", b"content-length: 1"], b"a")


@pytest.mark.parametrize(
    ("field", "kept"),
    [
        ((b"x", b"a" * LONGEST_KEPT_VALUE), 1),
        ((b"x", b"a" * (LONGEST_KEPT_VALUE + 1)), 0),
        ((b"mcp-session-id", b"a"), 0),
    ],
)
def test_a_field_is_kept_for_the_next_answer_unless_it_is_long_or_a_sessions_own(
    field: tuple[bytes, bytes], kept: int
) -> None:
    _field.cache_clear()
    assert sent(started([field]), b"") == ([b"%b: %b" % field, b"content-length: 0"], b"")
    assert _field.cache_info().currsize == kept


@pytest.mark.parametrize(
    "field",
    [
        *((b"x", b"a\r\ny: b"), (b"x", b"a\r\n\r\nbody"), (b"x", b"a\n"), (b"x", b"\ra"), (b"x", b"a\x00b")),
        *(
            (b"mcp-session-id", b"a\r\ny: b"),
            (b"x\r\ny", b"a"),
            (b"x\n", b"a"),
            (b"x\r", b"a"),
            (b"\x00", b"a"),
            (b"content-length", b"1\r\nx: y"),
        ),
        *((b"content-length", bad) for bad in (b"", b"-1", b"+1", b" 1", b"1_0", b"1, 1", b"x", b"\xb2")),
    ],
)
def test_a_field_that_would_split_or_misframe_the_response_is_misuse(field: tuple[bytes, bytes]) -> None:
    writer = ResponseWriter("GET", "1.1", keep_alive=True)
    with pytest.raises(Misuse):
        writer.start(200, [(b"a", b"b"), field], STAMP)
    assert writer.state is State.WAITING


def test_two_lengths_are_misuse() -> None:
    with pytest.raises(Misuse):
        started([(b"content-length", b"1"), (b"Content-Length", b"1")])


@pytest.mark.parametrize("status", [-1, 0, 100, 101, 103, 199, 600, 999, 1000])
def test_a_status_that_is_not_final_is_misuse(status: int) -> None:
    with pytest.raises(Misuse):
        started(status=status)


@pytest.mark.parametrize("parts", [[b"abcd"], [b"ab"], [b""], [b"ab", b""], [b"ab", b"cd"], [b"abcd", b""]])
def test_a_body_that_is_not_as_long_as_was_said_is_misuse(parts: list[bytes]) -> None:
    writer = started([(b"content-length", b"3")])
    with pytest.raises(Misuse):
        sent(writer, *parts)
    assert not writer.keep_alive
    assert writer.state is (State.STARTED if parts in ([b"abcd"], [b"ab"], [b""], [b"abcd", b""]) else State.SENDING)


def test_calls_out_of_turn_are_misuse() -> None:
    writer = ResponseWriter("GET", "1.1", keep_alive=True)
    with pytest.raises(Misuse):
        writer.body(b"", more=False)
    writer.start(200, [], STAMP)
    with pytest.raises(Misuse):
        writer.start(200, [], STAMP)
    writer.body(b"", more=False)
    with pytest.raises(Misuse):
        writer.body(b"", more=False)


@pytest.mark.parametrize(
    ("writer", "begin", "ending"),
    [
        (started(), True, LAST_CHUNK),
        (started(), False, b""),
        (started(version="1.0"), True, b""),
        (started([(b"content-length", b"9")]), True, b""),
        (started(method="HEAD"), True, b""),
        (ResponseWriter("GET", "1.1", keep_alive=True), False, b""),
    ],
)
def test_an_aborted_stream_ends_properly_where_its_framing_can_say_so(
    writer: ResponseWriter, begin: bool, ending: bytes
) -> None:
    if begin:
        writer.body(b"a", more=True)
    assert (writer.abort(), writer.abort()) == (ending, b"")
    assert (writer.state, writer.keep_alive) == (State.DONE, False)


@given(
    method=st.sampled_from(["GET", "HEAD", "POST"]),
    version=st.sampled_from(["1.0", "1.1"]),
    status=st.sampled_from([200, 204, 304, 404, 500]),
    parts=st.lists(st.binary(max_size=20), min_size=1, max_size=4),
    declared=st.booleans(),
    keep_alive=st.booleans(),
)
def test_h11_reads_back_what_was_written(
    method: str, version: str, status: int, parts: list[bytes], declared: bool, keep_alive: bool
) -> None:
    body = b"".join(parts)
    fields = [(b"content-length", b"%d" % len(body))] if declared else []
    writer = started(fields, status=status, method=method, version=version, keep_alive=keep_alive)
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target="/", headers=[("Host", "a"), ("Content-Length", "0")]))
    client.send(h11.EndOfMessage())
    client.receive_data(
        b"".join(writer.body(part, more=True) for part in parts[:-1]) + writer.body(parts[-1], more=False)
    )
    if not writer.keep_alive:
        client.receive_data(b"")
    response, found = client.next_event(), b""
    assert isinstance(response, h11.Response)
    while isinstance(event := client.next_event(), h11.Data):
        found += event.data
    assert isinstance(event, h11.EndOfMessage)
    assert (response.status_code, found) == (status, b"" if method == "HEAD" or status in (204, 304) else body)
    assert client.trailing_data[0] == b""
    assert (client.their_state is h11.DONE) is writer.keep_alive
