from collections.abc import Iterable
from itertools import product

import pytest

from crux.transport.wire.head import BadRequest, Head, HeadLimits
from crux.transport.wire.reader import LONGEST_KEPT_HEAD, RequestReader
from fuzz.wire_vs_h11 import whole_requests

LIMITS = HeadLimits()
GET = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
POST = b"POST /b?c HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"POST /d HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = CHUNKED + b"5;x=y\r\nhel\r\n\r\n2\r\nlo\r\n0\r\nX: y\r\n\r\n"
EMPTY = b"PUT /e HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"
OLD = b"GET /f HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
ABSOLUTE = b"GET http://b/g HTTP/1.1\r\nHost: a\r\n\r\n"
UPGRADE = b"POST /h HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"
SMUGGLED = b"POST /i HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%b" % (len(GET), GET)
EXPECTS = b"POST /j HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\na"
GOOD = [GET, POST, CHUNKS, EMPTY, OLD, ABSOLUTE, UPGRADE, SMUGGLED, EXPECTS]

BAD = {
    b"\r\n" + GET: 400,
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03": 400,
    b"GET / HTTP/1.1\nHost: a\n\n" + GET: 400,
    b"GET / HTTP/1.1\r\nHost: a\r\n b\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n": 400,
    b"GET / HTTP/1.1\r\n\r\n": 400,
    b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n": 501,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n": 505,
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n": 400,
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab": 400,
    b"POST / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n": 417,
    CHUNKED + b"5\r\nhello0\r\n\r\n": 400,
    CHUNKED + b"z\r\n": 400,
    CHUNKED + b"0\r\nX : a\r\n\r\n": 400,
    CHUNKED + b"5;a=" + b"a" * 1024 + b"\r\nhello\r\n0\r\n\r\n": 400,
    UPGRADE.partition(b"1\r\na")[0] + GET: 400,
}

Seen = tuple[list[tuple[Head, bytes]], int | None]


def fed(parts: Iterable[bytes], limits: HeadLimits = LIMITS) -> Seen:
    """The whole requests that are read, and the status of the refusal behind them."""
    reader = RequestReader(limits)
    seen: list[tuple[Head, bytes]] = []
    try:
        seen.extend(whole_requests(reader, parts))
    except BadRequest as refused:
        return seen, refused.status
    assert not reader.waiting
    return seen, None


def first_head(*parts: bytes) -> Head | None:
    reader = RequestReader(LIMITS)
    for part in parts:
        reader.feed(part)
        if (head := reader.next_head()) is not None:
            return head
    return None


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def read(data: bytes) -> list[tuple[str, bytes]]:
    requests, status = fed([data])
    assert status is None
    return [(head.path, body) for head, body in requests]


def test_requests_are_read_one_after_the_other() -> None:
    assert read(b"".join(GOOD)) == [
        ("/a", b""),
        ("/b", b"hello"),
        ("/d", b"hel\r\nlo"),
        ("/e", b""),
        ("/f", b""),
        ("/g", b""),
        ("/h", b"a"),
        ("/i", GET),
        ("/j", b"a"),
    ]


SETS = [
    *GOOD,
    *(b"".join(pair) for pair in product((GET, POST, CHUNKS, UPGRADE, SMUGGLED), repeat=2)),
    *(b"".join(three) for three in product((OLD, POST, CHUNKS), repeat=3)),
    *BAD,
    *(POST + bad for bad in BAD),
    *(CHUNKS + bad for bad in BAD),
]


@pytest.mark.parametrize("data", SETS, ids=range(len(SETS)))
def test_how_the_bytes_are_cut_makes_no_difference(data: bytes) -> None:
    whole = fed([data])
    assert fed(bytewise(data)) == whole
    for cut in range(len(data) + 1):
        assert fed([data[:cut], data[cut:]]) == whole


@pytest.mark.parametrize("before", [[], [GET], [POST, CHUNKS]])
@pytest.mark.parametrize(("bad", "status"), BAD.items())
def test_what_is_refused_is_refused_behind_good_requests_too(before: list[bytes], bad: bytes, status: int) -> None:
    requests, refused = fed([b"".join(before) + bad])
    assert (len(requests), refused) == (len(before), status)


@pytest.mark.parametrize("behind", [b"", b"GET"])
def test_a_head_may_be_as_long_as_its_limit_and_no_longer(behind: bytes) -> None:
    longest = b"GET / HTTP/1.1\r\nHost: a\r\nX: ".ljust(LIMITS.bytes - 4, b"a")
    for cut in (0, 20, LIMITS.bytes - 4, LIMITS.bytes - 1, LIMITS.bytes):
        data = longest + b"\r\n\r\n" + behind
        assert first_head(data[:cut], data[cut:]) is not None
        data = longest + b"a\r\n\r\n" + behind
        with pytest.raises(BadRequest) as refused:
            first_head(data[:cut], data[cut:])
        assert refused.value.status == 431


@pytest.mark.parametrize("broken", [b"\n", b"\x00", b"\rX"])
def test_a_head_that_is_broken_before_it_is_too_long_is_400_however_it_comes(broken: bytes) -> None:
    limits = HeadLimits(bytes=64)
    for place, expected in ((62, 400), (64, 431)):
        data = b"GET /".ljust(place, b"a") + broken + b"a" * 64 + b"\r\n\r\n"
        assert fed([data], limits) == fed(bytewise(data), limits) == ([], expected)


def test_a_body_is_given_as_it_comes() -> None:
    reader = RequestReader(LIMITS)
    reader.feed(POST[:-3])
    assert reader.next_head()
    assert reader.next_body() == (b"he", True)
    assert reader.next_body() == (b"", True)
    reader.feed(b"l")
    assert reader.next_body() == (b"l", True)
    reader.feed(b"lo" + GET)
    assert reader.next_body() == (b"lo", False)


def test_what_waits_is_counted() -> None:
    reader = RequestReader(LIMITS)
    assert (reader.waiting, reader.next_head()) == (0, None)
    reader.feed(POST + GET[:-1])
    reader.next_head()
    assert reader.waiting == len(b"hello" + GET) - 1
    reader.next_body()
    assert (reader.waiting, reader.next_head()) == (len(GET) - 1, None)
    reader.feed(GET[-1:])
    assert reader.next_head()
    assert (reader.waiting, reader.next_body()) == (0, (b"", False))


@pytest.mark.parametrize("data", [GET, POST, CHUNKS, UPGRADE, SMUGGLED])
def test_a_body_that_nobody_read_can_be_skipped(data: bytes) -> None:
    reader = RequestReader(LIMITS)
    reader.feed(data + GET)
    assert reader.next_head()
    assert reader.skip_body()
    assert reader.waiting == len(GET)


def test_of_an_unfinished_body_all_that_came_is_skipped() -> None:
    for data in (POST[:-1], CHUNKS[:-1], CHUNKED + b"5\r\nhe"):
        reader = RequestReader(LIMITS)
        reader.feed(data)
        assert reader.next_head()
        assert not reader.skip_body()
        assert reader.next_body() == (b"", True)


@pytest.mark.parametrize("data", [POST, CHUNKS])
def test_a_head_that_comes_again_is_not_read_again(data: bytes) -> None:
    reader = RequestReader(LIMITS)
    reader.feed(data * 2 + GET + data * 2)
    heads = []
    while (head := reader.next_head()) is not None:
        heads.append(head)
        assert reader.skip_body()
        if len(heads) == 4:
            reader.forget()
    assert [head is heads[0] for head in heads] == [True, True, False, False, False]
    assert heads[4] == heads[3] == heads[0]


def test_a_long_head_is_not_kept() -> None:
    for length, kept in ((LONGEST_KEPT_HEAD, True), (LONGEST_KEPT_HEAD + 1, False)):
        data = b"GET / HTTP/1.1\r\nHost: a\r\nX: ".ljust(length - 4, b"a") + b"\r\n\r\n"
        reader = RequestReader(LIMITS)
        reader.feed(data * 2)
        first, second = reader.next_head(), reader.next_head()
        assert first == second
        assert (first is second) is kept
