"""The bridge between memory streams and an upstream made of a function, with a clock that jumps."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import httpx
import pytest
import trio
from attrs import define, field
from trio.testing import MockClock, memory_stream_one_way_pair, wait_all_tasks_blocked

from crux import __version__
from crux.transport import stdio
from crux.transport.lines import InputFailed, LineSplitter
from crux.transport.stdio import Bridge

URL = "http://127.0.0.1:14801/mcp"
NONE = httpx.Response(405)
CHANGED = json.loads(stdio.LIST_CHANGED)

Answer = Callable[[httpx.Request], Awaitable[httpx.Response]]


def line(method: str, request_id: object = None) -> bytes:
    identity = {} if request_id is None else {"id": request_id}
    return json.dumps({"jsonrpc": "2.0", **identity, "method": method}).encode() + b"\n"


def handshake(version: str = __version__, session: str = "s1") -> httpx.Response:
    body = {"jsonrpc": "2.0", "id": 1, "result": {"serverInfo": {"name": "crux", "version": version}}}
    return httpx.Response(200, json=body, headers={"Mcp-Session-Id": session})


@define
class Events(httpx.AsyncByteStream):
    """The body of a push stream, fed by the test."""

    feed: trio.MemoryReceiveChannel[bytes]

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            try:
                chunk = await self.feed.receive()
            except trio.EndOfChannel:
                return
            yield chunk

    async def aclose(self) -> None:
        self.feed.close()


def pushing() -> tuple[httpx.Response, trio.MemorySendChannel[bytes]]:
    send, receive = trio.open_memory_channel[bytes](9)
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Events(receive)), send


@define
class Upstream:
    """What the bridge meets: answers to POSTs by method, and answers to GETs in turn, the last one for ever."""

    posts: dict[str, httpx.Response | Exception] = field(factory=dict)
    gets: list[httpx.Response | Exception] = field(factory=lambda: [NONE])
    asked: list[tuple[httpx.Request, float]] = field(factory=list)

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((request, trio.current_time()))
        if request.method == "POST":
            method = "" if b"method" not in request.content else json.loads(request.content)["method"]
            found = self.posts.get(method) or httpx.Response(200, content=request.content)
        else:
            found = self.gets.pop(0) if len(self.gets) > 1 else self.gets[0]
        if isinstance(found, Exception):
            raise found
        return found

    def of(self, method: str) -> list[httpx.Request]:
        return [request for request, _ in self.asked if request.method == method]


@define
class Peer:
    """The agent's host at the other ends of the streams."""

    upstream: Upstream
    stdin: Any
    stdout: Any
    notes: list[str]
    _splitter: LineSplitter = field(factory=lambda: LineSplitter(2**30))
    _waiting: list[bytes] = field(factory=list)

    async def say(self, data: bytes) -> None:
        await self.stdin.send_all(data)

    async def hear(self) -> Any:
        """The next line, which has to be JSON."""
        while not self._waiting:
            chunk = await self.stdout.receive_some()
            assert chunk
            self._waiting += [line for line in self._splitter.feed(chunk) if line is not None]
        return json.loads(self._waiting.pop(0))

    async def open(self) -> None:
        await self.say(line("initialize", 1))
        assert "result" in await self.hear()

    async def quiet(self) -> bool:
        """Whether nothing is said, as far as the bridge can come without a sleep."""
        await wait_all_tasks_blocked()
        with trio.move_on_after(0):
            self._waiting += [line for line in self._splitter.feed(await self.stdout.receive_some()) if line]
        return not self._waiting


@asynccontextmanager
async def bridged(upstream: Upstream, *, end: bool = True) -> AsyncIterator[Peer]:
    to_bridge, stdin = memory_stream_one_way_pair()
    stdout, from_bridge = memory_stream_one_way_pair()
    notes: list[str] = []
    upstream.posts.setdefault("initialize", handshake())
    async with httpx.AsyncClient(transport=httpx.MockTransport(upstream)) as client:
        async with trio.open_nursery() as nursery:
            bridge = Bridge(URL, client, stdin, stdout, notes.append)
            with trio.fail_after(10_000):
                nursery.start_soon(bridge.run)
                yield Peer(upstream, to_bridge, from_bridge, notes)
                if end:
                    await to_bridge.aclose()


async def test_lines_go_out_and_answers_come_back_as_they_were() -> None:
    text = b'{"id" : 7,  "method":"tools/call", "params": {"x": 1.50, "y": "\\u00e9\xc3\xa9"} }'
    async with bridged(Upstream()) as peer:
        await peer.say(text + b"\r\n")
        assert await peer.stdout.receive_some() == text + b"\n"
    (request,) = peer.upstream.of("POST")
    assert request.content == text + b"\r"
    assert request.headers["content-type"] == "application/json"


async def test_lines_are_relayed_in_order_blank_ones_skipped_and_the_last_needs_no_end() -> None:
    async with bridged(Upstream()) as peer:
        await peer.say(line("a", 1) + b"\n \t\r\n" + line("b", 2) + line("c", 3).rstrip())
        await peer.stdin.aclose()
        assert [(await peer.hear())["id"] for _ in range(3)] == [1, 2, 3]
    assert len(peer.upstream.of("POST")) == 3


async def test_an_answer_that_spans_lines_becomes_one_line() -> None:
    body = b'{\r\n  "id": 1,\n  "result": "a\\nb"\n}\n'
    async with bridged(Upstream({"m": httpx.Response(200, content=body)})) as peer:
        await peer.say(line("m", 1))
        assert await peer.stdout.receive_some() == b'{"id":1,"result":"a\\nb"}\n'


async def test_an_accepted_notification_prints_nothing() -> None:
    async with bridged(Upstream({"n": httpx.Response(202)})) as peer:
        await peer.say(line("n"))
        assert await peer.quiet()
    assert peer.notes == []


REFUSED = httpx.Response(401, json={"error": "unauthorized", "hint": "send a token"})
LOST = httpx.ReadError("connection reset")
FAILURES = [
    (REFUSED, "answered 401 unauthorized: send a token"),
    (httpx.Response(502, content=b"<html>"), "answered 502 Bad Gateway"),
    (httpx.Response(307, headers={"location": "http://elsewhere"}), "answered 307"),
    (httpx.Response(200, content=b"<html>"), "not JSON"),
    (httpx.Response(200, content=b"\xff"), "not JSON"),
    (httpx.Response(202), "not JSON"),
    (httpx.ConnectError("refused"), "nothing answers at"),
    (LOST, "what became of the request is not known"),
]


@pytest.mark.parametrize(("answer", "said"), FAILURES)
@pytest.mark.parametrize("request_id", [7, "seven"])
async def test_an_upstream_failure_is_an_error_of_the_request(
    answer: httpx.Response | Exception, said: str, request_id: object
) -> None:
    async with bridged(Upstream({"m": answer})) as peer:
        await peer.say(line("m", request_id))
        heard = await peer.hear()
    assert (heard["jsonrpc"], heard["id"], heard["error"]["code"]) == ("2.0", request_id, -32000)
    assert said in heard["error"]["message"]
    assert peer.notes == [heard["error"]["message"]]


@pytest.mark.parametrize("text", [b"{", b"[1]", b"\xff", b'{"id":1', b"[" * 5000])
async def test_a_line_that_says_no_id_fails_with_null(text: bytes) -> None:
    async with bridged(Upstream({"": REFUSED})) as peer:
        await peer.say(text + b"\n")
        heard = await peer.hear()
    assert (heard["id"], heard["error"]["code"]) == (None, -32000)


@pytest.mark.parametrize("text", [line("m"), b'{"method":"m","id":null}\n'])
async def test_a_failed_notification_is_told_on_standard_error_alone(text: bytes) -> None:
    async with bridged(Upstream({"m": LOST})) as peer:
        await peer.say(text)
        assert await peer.quiet()
    assert len(peer.notes) == 1


async def test_a_line_that_is_too_long_is_refused_and_the_next_one_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "MAX_LINE_BYTES", 100)
    async with bridged(Upstream()) as peer:
        await peer.say(b"x" * 101 + b"\n" + line("m", 1))
        heard = await peer.hear()
        assert (heard["id"], heard["error"]["code"]) == (None, -32700)
        assert (await peer.hear())["id"] == 1


async def test_the_session_of_initialize_goes_along_until_the_next_one() -> None:
    upstream = Upstream()
    async with bridged(upstream) as peer:
        await peer.open()
        await peer.say(line("m", 2))
        await peer.hear()
        upstream.posts["initialize"] = handshake(session="s2")
        await peer.open()
        await peer.say(line("m", 3))
        await peer.hear()
    assert [request.headers.get("mcp-session-id") for request in upstream.of("POST")] == [None, "s1", None, "s2"]
    assert [request.headers["mcp-session-id"] for request in upstream.of("GET")] == ["s1", "s2"]


async def test_another_version_of_the_daemon_is_noted() -> None:
    async with bridged(Upstream({"initialize": handshake("0.0.7")})) as peer:
        await peer.open()
    assert peer.notes[0] == f"the daemon is version 0.0.7, this bridge {__version__}"


async def test_a_failed_initialize_opens_no_stream() -> None:
    upstream = Upstream({"initialize": httpx.Response(200, json={"id": 1, "error": {"code": -1}})})
    async with bridged(upstream) as peer:
        await peer.say(line("initialize", 1))
        await peer.hear()
    assert upstream.of("GET") == []


async def test_what_is_pushed_comes_out_one_line_an_event() -> None:
    response, push = pushing()
    async with bridged(Upstream(gets=[response])) as peer:
        await peer.open()
        for part in (b":\n\nevent: message\nda", b'ta: {"a":1}\r\n\r\n', b'data: {"b":\ndata: 2}\n\ndata: no JSON\n\n'):
            await push.send(part)
        assert await peer.hear() == {"a": 1}
        assert await peer.hear() == {"b": 2}
        assert await peer.quiet()
    assert len(peer.notes) == 1
    assert "dropped a pushed message" in peer.notes[0]


async def test_the_line_after_initialize_waits_for_the_stream() -> None:
    response, _push = pushing()
    async with bridged(Upstream(gets=[response])) as peer:
        await peer.say(line("initialize", 1) + line("m", 2))
        await peer.hear()
        await peer.hear()
    assert [request.method for request, _ in peer.upstream.asked] == ["POST", "GET", "POST"]


@pytest.mark.parametrize("status", [400, 401, 403, 405, 429, 200])
async def test_a_stream_that_is_not_to_be_had_is_noted_once(status: int, autojump_clock: MockClock) -> None:
    async with bridged(Upstream(gets=[httpx.Response(status, json={"error": "why"})])) as peer:
        await peer.open()
        await trio.sleep(1000)
        await peer.say(line("m", 2))
        assert (await peer.hear())["id"] == 2
    assert len(peer.upstream.of("GET")) == 1
    assert len(peer.notes) == 1
    assert f"answered {status} why" in peer.notes[0]


async def test_a_stream_that_ends_is_opened_again_with_growing_pauses(autojump_clock: MockClock) -> None:
    first, push = pushing()
    last, _push = pushing()
    away, starting = httpx.ConnectError("refused"), httpx.Response(503)
    async with bridged(Upstream(gets=[first, *(away,) * 3, *(starting,) * 5, last])) as peer:
        await peer.open()
        push.close()
        assert await peer.hear() == CHANGED, "nobody knows what was missed"
    times = [at for request, at in peer.upstream.asked if request.method == "GET"]
    assert [after - before for before, after in pairwise(times)] == pytest.approx([0.5, 1, 2, 4, 8, 16, 30, 30, 30])
    assert len(peer.notes) == 1


async def test_a_stream_that_stood_long_is_opened_again_at_once(autojump_clock: MockClock) -> None:
    (first, push), (second, push2), (third, _) = pushing(), pushing(), pushing()
    async with bridged(Upstream(gets=[first, second, third])) as peer:
        await peer.open()
        for channel in (push, push2):
            await trio.sleep(1000)
            channel.close()
            closed_at = trio.current_time()
            assert await peer.hear() == CHANGED
            assert trio.current_time() - closed_at == pytest.approx(stdio.RECONNECT_FIRST_S)
    assert len(peer.notes) == 2


async def test_the_end_of_input_ends_an_open_stream_too() -> None:
    response, push = pushing()
    async with bridged(Upstream(gets=[response])) as peer:
        await peer.open()
    with pytest.raises(trio.BrokenResourceError):
        push.send_nowait(b"data")


async def test_the_bridge_ends_when_nobody_reads_its_output() -> None:
    async with bridged(Upstream(), end=False) as peer:
        await peer.stdout.aclose()
        await peer.say(line("m", 1) + line("m", 2))
    assert len(peer.upstream.of("POST")) == 1


async def test_input_that_breaks_is_raised() -> None:
    class Broken(trio.abc.ReceiveStream):
        async def receive_some(self, max_bytes: int | None = None) -> bytes:
            raise InputFailed("standard input cannot be read: it broke")

        async def aclose(self) -> None:
            await trio.lowlevel.checkpoint()

    async with httpx.AsyncClient() as client:
        with pytest.raises(InputFailed):
            await Bridge(URL, client, Broken(), memory_stream_one_way_pair()[0], print).run()
