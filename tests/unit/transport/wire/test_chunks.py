import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.transport.wire.chunks import LONGEST_FRAMING_LINE, ChunkedBody
from crux.transport.wire.head import BadRequest, HeadLimits

LIMITS = HeadLimits()


def decoded(data: bytes, limits: HeadLimits = LIMITS) -> tuple[bytes, bytes]:
    """The body, and what stands behind it."""
    body = ChunkedBody(limits)
    part, used = body.read(data)
    assert body.ended
    return part, data[used:]


def status(data: bytes, limits: HeadLimits = LIMITS) -> int | None:
    try:
        ChunkedBody(limits).read(data)
    except BadRequest as refused:
        return refused.status
    return None


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"0\r\n\r\n", b""),
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", b"hello!"),
        (b"0000000000000005\r\nhello\r\n0000000000000000\r\n\r\n", b"hello"),
        (b"a\r\n0123456789\r\nA\r\n0123456789\r\n00\r\n\r\n", b"0123456789" * 2),
        (b'5;a\r\nhello\r\n1;a=b;c="d \\" \t;";e\r\n!\r\n0;a=b\r\n\r\n', b"hello!"),
        (b"4\r\n\r\n\r\n\r\n0\r\n\r\n", b"\r\n\r\n"),
        (b"5\r\n0\r\n\r\n\r\n0\r\n\r\n", b"0\r\n\r\n"),
        (b"5\r\nhello\r\n0\r\nX-A: b\r\nX-C:\td\xff\r\n\r\n", b"hello"),
        (b"0\r\nConnection: close\r\nUpgrade: x\r\n\r\n", b""),
    ],
)
def test_chunks_are_put_together_and_what_stands_behind_them_is_left(data: bytes, expected: bytes) -> None:
    assert decoded(data + b"GET /") == (expected, b"GET /")


@pytest.mark.parametrize(
    "line",
    [
        *(
            b"",
            b" 5",
            b"5 ",
            b"5\t",
            b"+5",
            b"-5",
            b"0x5",
            b"5h",
            b"g",
            b"5.",
            b"5,",
            b"\xb5",
            b"5\x00",
            b"5\x0b",
            b"5\r",
        ),
        *(
            b"5;",
            b"5 ;a",
            b"5;;a",
            b"5; a",
            b"5;a=",
            b'5;a="',
            b"5;a=b\rc",
            b"5;\x00",
            b"5;\x7f",
            b"5;\xff",
            b"5;a=\xff",
        ),
        *(b"00000000000000005", b"10000000000000000"),
    ],
)
def test_a_size_line_that_breaks_the_grammar_is_400(line: bytes) -> None:
    assert status(line + b"\r\nhello\r\n0\r\n\r\n") == 400


@pytest.mark.parametrize(
    "data",
    [
        *(b"5\nhello\r\n0\r\n\r\n", b"5\r\nhello\n0\r\n\r\n", b"5\r\nhello\r\n0\n\r\n", b"5\r\nhello\r\n0\r\n\n"),
        *(
            b"5\r\nhello0\r\n\r\n",
            b"5\r\nhello\r0\r\n\r\n",
            b"5\r\nhello\r\n\r\n0\r\n\r\n",
            b"5\r\nhello!\r\n0\r\n\r\n",
        ),
        *(b"6\r\nhello\r\n0\r\n\r\n", b"5\r\nhello\r\n0\r\n\rX", b"5\n\r\nhello\r\n"),
    ],
)
def test_lines_end_with_cr_lf_where_their_size_says(data: bytes) -> None:
    assert status(data + b"\r\n\r\n") == 400


@pytest.mark.parametrize(
    "trailer",
    [
        *(b"X", b": a", b" X: a", b"X : a", b"X: a\n", b"X: a\r\n b", b"X: a\rY: b", b"X: \x00", b"X\xff: a"),
        *(
            b"Content-Length: 5",
            b"Content-Length: x",
            b"Transfer-Encoding: gzip",
            b"Transfer-Encoding: chunked, chunked",
        ),
    ],
)
def test_a_trailer_that_breaks_the_grammar_or_frames_a_message_is_400(trailer: bytes) -> None:
    assert status(b"0\r\n" + trailer + b"\r\n\r\n") == 400


def test_a_framing_line_has_a_longest_length() -> None:
    for before, after in ((b"1;a=", b"\r\na\r\n0\r\n\r\n"), (b"0\r\nX:", b"\r\n\r\n")):
        start = before.rpartition(b"\n")[2]
        longest = before.ljust(len(before) - len(start) + LONGEST_FRAMING_LINE - 2, b"a")
        assert decoded(longest + after)
        assert status(longest + b"a" + after) == 400
        assert status(longest + b"a") is None
        assert status(longest + b"aa") == 400


def test_a_trailer_is_as_long_as_a_head_may_be() -> None:
    limits = HeadLimits(bytes=40)
    assert decoded(b"0\r\n" + b"X: 45678\r\n" * 3 + b"X: 456\r\n\r\n", limits) == (b"", b"")
    assert status(b"0\r\n" + b"X: 45678\r\n" * 3 + b"X: 4567\r\n\r\n", limits) == 431
    assert status(b"0\r\n" + b"X: 45678\r\n" * 5, limits) == 431


def test_the_largest_size_is_waited_for() -> None:
    assert ChunkedBody(LIMITS).read(b"ffffffffffffffff\r\nhello\r\n") == (b"hello\r\n", 25)


@given(st.lists(st.binary(min_size=1, max_size=40)), st.lists(st.integers(0, 40), min_size=1))
def test_a_body_is_the_same_however_it_is_cut(chunks: list[bytes], steps: list[int]) -> None:
    data = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\nX: a\r\n\r\nGET"
    body, found, waiting, turn = ChunkedBody(LIMITS), b"", b"", 0
    while not body.ended:
        step = steps[turn % len(steps)] if turn < 3 * len(steps) else 1
        turn += 1
        waiting, data = waiting + data[:step], data[step:]
        part, used = body.read(waiting)
        found, waiting = found + part, waiting[used:]
    assert (found, waiting + data) == (b"".join(chunks), b"GET")
