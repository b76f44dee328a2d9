"""Endpoints of extensions that stall, lie or break off: none holds a call beyond its deadline, and none is read beyond its
cap."""

from __future__ import annotations

import gc
import gzip

import pytest
import trio
import trio.testing

from crux.domain.endpoints import Endpoint, read_endpoint
from crux.domain.outbound import Answer
from crux.domain.outbound_refusals import (
    DispatchRefused,
    MalformedResponse,
    ResponseTooLarge,
    Transport,
    UpstreamError,
)
from crux.transport.exchange import EVENTS_AT_ONCE, MOST_INTERIM, READ_BYTES, exchange
from crux.transport.outbound import HttpPost
from tests.endpoints import (
    BODY,
    BRIEF_S,
    CAP,
    GOOD,
    PARTY,
    PATIENT_S,
    STRICT,
    answer,
    call,
    post_in,
    posted,
    refusal,
    request_on,
    saying,
    tolerant,
)
from tests.upstream import answered_by


@pytest.fixture(autouse=True)
def _nothing_is_left() -> object:
    """What a call leaves to the garbage collector is reported as a warning, which fails the test."""
    yield
    gc.collect()


async def test_an_answer_comes_back_as_it_was_sent() -> None:
    assert await posted(saying(answer(GOOD))) == Answer(200, GOOD)
    assert await posted(saying(answer(b"no", b"404 Not Found"))) == Answer(404, b"no")


async def drip(stream: trio.abc.Stream, head: bytes) -> None:
    async with stream:
        await request_on(stream)
        await stream.send_all(head)
        while True:
            await stream.send_all(b"x")
            await trio.sleep(BRIEF_S / 20)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nX: ",
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
    ],
    ids=["in the head", "in the body", "without a length"],
)
async def test_a_slow_drip_ends_with_the_deadline_of_the_whole(head: bytes) -> None:
    """Each byte comes well within the time; all of them do not."""
    error = await refusal(lambda stream: drip(stream, head), timeout_s=BRIEF_S)
    assert isinstance(error, Transport)
    assert error.message.startswith("no answer from '127.0.0.1:")
    assert error.message.endswith("' within 0.2 s")


async def test_an_endpoint_that_never_answers_is_left() -> None:
    async def hang(stream: trio.abc.Stream) -> None:
        async with stream:
            await trio.sleep_forever()

    assert isinstance(await refusal(hang, timeout_s=BRIEF_S), Transport)


async def test_a_head_without_end_is_left() -> None:
    async def converse(stream: trio.abc.Stream) -> None:
        async with stream:
            await request_on(stream)
            while True:
                await stream.send_all(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000)

    error = await refusal(converse)
    assert isinstance(error, Transport)


async def test_interim_answers_without_end_are_left_at_the_deadline() -> None:
    async def converse(stream: trio.abc.Stream) -> None:
        async with stream:
            await request_on(stream)
            while True:
                await stream.send_all(b"HTTP/1.1 102 Processing\r\n\r\n" * 10)
                await trio.sleep(BRIEF_S / 20)

    assert isinstance(await refusal(converse, timeout_s=BRIEF_S), Transport)


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_without_end_is_read_as_far_as_its_cap(chunked: bool) -> None:
    left = trio.Event()

    async def converse(stream: trio.abc.Stream) -> None:
        async with stream:
            await request_on(stream)
            await stream.send_all(
                b"HTTP/1.1 200 OK\r\n%b\r\n" % (b"Transfer-Encoding: chunked\r\n" if chunked else b"")
            )
            part = b"x" * 500
            try:
                while True:
                    await stream.send_all(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
            except trio.BrokenResourceError:
                left.set()

    async with trio.open_nursery() as nursery:
        url: str = await nursery.start(answered_by, converse)
        with pytest.raises(ResponseTooLarge) as refused:
            await call(url, post_in(nursery), STRICT)
        with trio.fail_after(PATIENT_S):
            await left.wait()
        nursery.cancel_scope.cancel()
    error = refused.value
    read = int(error.message.split("(")[1].split()[0])
    assert CAP < read <= CAP + READ_BYTES
    assert error.message == f"response too large ({read} bytes, max {CAP})"


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("size", "taken"), [(CAP, True), (CAP + 1, False)])
async def test_a_body_may_be_as_long_as_its_cap(size: int, taken: bool, chunked: bool) -> None:
    body = b"x" * size
    whole = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (size, body)
        if chunked
        else answer(body)
    )
    if taken:
        assert await posted(saying(whole)) == Answer(200, body)
    else:
        assert isinstance(await refusal(saying(whole)), ResponseTooLarge)


async def test_the_size_is_judged_before_the_status() -> None:
    assert isinstance(await refusal(saying(answer(b"x" * (CAP + 1), b"500 Oops"))), ResponseTooLarge)


async def test_a_compressed_answer_is_bytes_that_are_no_json() -> None:
    bomb = gzip.compress(bytes(10_000_000))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    assert await posted(saying(head + bomb), cap=len(bomb)) == Answer(200, bomb)
    assert isinstance(await refusal(saying(head + bomb), cap=len(bomb)), MalformedResponse)


async def test_a_body_shorter_than_announced_is_no_answer() -> None:
    assert isinstance(await refusal(saying(answer(GOOD, length=len(GOOD) + 1))), Transport)


async def test_what_comes_after_the_announced_length_is_not_read() -> None:
    assert isinstance(await refusal(saying(answer(GOOD, length=len(GOOD) - 1))), MalformedResponse)
    assert await posted(saying(answer(GOOD) + answer(b'{"result":"of somebody else"}'))) == Answer(200, GOOD)


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (answer(b"hello"), MalformedResponse),
        (answer(b"{}"), MalformedResponse),
        (
            answer(b'{"result":1,"fact_writes":[{"entity":"a","key":"k","value":"v"},{"entity":"a"}]}'),
            MalformedResponse,
        ),
        (b"HTTP/1.1 204 No Content\r\n\r\n", MalformedResponse),
        (answer(b""), MalformedResponse),
        (answer(b"", b"304 Not Modified"), UpstreamError),
        (b"", Transport),
        (b"HTTP/1.1 200 OK\r\n", Transport),
        (b"SSH-2.0-OpenSSH_9.6\r\n", Transport),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nxx", Transport),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", Transport),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", Transport),
        (b"\x15\x03\x01\x00\x02\x02F", Transport),
    ],
)
async def test_what_is_no_answer_is_refused(said: bytes, kind: type[DispatchRefused]) -> None:
    assert type(await refusal(saying(said))) is kind


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    head = b"HTTP/1.1 %d Moved\r\nLocation: http://169.254.169.254/latest\r\nContent-Length: 0\r\n\r\n" % status
    error = await refusal(saying(head))
    assert error.message == f"upstream returned status {status}: "


async def test_a_reset_in_the_middle_of_the_body_is_no_answer() -> None:
    async def converse(stream: trio.abc.Stream) -> None:
        assert isinstance(stream, trio.SocketStream)
        await request_on(stream)
        await stream.send_all(answer(b'{"result":', length=500))
        # Closing with a linger time of zero resets.
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        stream.socket.close()

    error = await refusal(converse)
    assert isinstance(error, Transport)
    assert "failed: " in error.message


async def test_a_refusal_that_comes_before_the_request_was_read_is_heard() -> None:
    async def converse(stream: trio.abc.Stream) -> None:
        async with stream:
            await stream.send_all(answer(b"too much", b"413 Too Large"))
            await stream.receive_some()

    assert await posted(converse) == Answer(413, b"too much")


async def test_a_port_that_nobody_listens_on_is_told_of(nursery: trio.Nursery) -> None:
    with trio.socket.socket() as held:
        await held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        with pytest.raises(Transport, match="Connection refused"):
            await call(f"http://127.0.0.1:{port}/", post_in(nursery), STRICT)


async def test_two_hundred_calls_of_a_slow_endpoint_all_succeed() -> None:
    waiting, all_wait = 0, trio.Event()

    async def converse(stream: trio.abc.Stream) -> None:
        nonlocal waiting
        async with stream:
            await request_on(stream)
            waiting += 1
            if waiting == 200:
                all_wait.set()
            await all_wait.wait()
            await stream.send_all(answer(GOOD))

    answers = []

    async def one(post: HttpPost, endpoint: Endpoint) -> None:
        answers.append(
            await post(endpoint, BODY, party=PARTY, timeout_s=PATIENT_S, max_response_bytes=CAP, config=STRICT)
        )

    async with trio.open_nursery() as nursery:
        url: str = await nursery.start(answered_by, tolerant(converse))
        post = post_in(nursery)
        async with trio.open_nursery() as callers:
            for _ in range(200):
                callers.start_soon(one, post, read_endpoint(url))
        nursery.cancel_scope.cancel()
    assert answers == [Answer(200, GOOD)] * 200


@pytest.mark.parametrize(("interim", "taken"), [(MOST_INTERIM, True), (MOST_INTERIM + 1, False)])
async def test_so_many_interim_answers_are_waited_out_and_no_more(interim: int, taken: bool) -> None:
    said = saying(b"HTTP/1.1 102 Processing\r\n\r\n" * interim + answer(GOOD))
    if taken:
        assert await posted(said) == Answer(200, GOOD)
    else:
        error = await refusal(said)
        assert (type(error), "more than 16 interim answers" in error.message) == (Transport, True)


async def test_an_answer_in_tiny_parts_lets_others_have_their_turn() -> None:
    parts = CAP
    turns = 0
    done = trio.Event()

    async def watch() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        here, there = trio.testing.memory_stream_pair()
        await there.send_all(head + b"1\r\nx\r\n" * parts + b"0\r\n\r\n")
        nursery.start_soon(watch)
        exchanged = await exchange(here, read_endpoint("http://tools.example/"), BODY, CAP)
        done.set()
    assert exchanged.answer == Answer(200, b"x" * parts)
    assert turns >= parts // EVENTS_AT_ONCE


@pytest.mark.parametrize("said", [b"HTTP/1.1 200 OK\r\n" + b"\xff" * 64_000, b"SSH-2.0-" + b"x" * 60_000 + b"\r\n"])
async def test_what_is_no_http_is_quoted_in_a_few_words(said: bytes) -> None:
    error = await refusal(saying(said))
    assert isinstance(error, Transport)
    assert len(error.message) < 200
