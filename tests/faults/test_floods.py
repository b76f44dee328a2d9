"""Callers that invent: methods, tools, names and intents without end, and connections that stop half way."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
import trio
import trio.testing

from crux.actors.intents import CurrentIntent
from crux.actors.meter import UsageOf
from crux.actors.traces import RecentTraces
from crux.domain.surface import IntentRecord, SurfaceMode
from crux.domain.traces import MOST_ENTRIES, MOST_NAME_BYTES, MOST_SIGNATURE_BYTES
from crux.transport.asgi import Message
from tests.serving import LIST, Serving, call_of, encoded, serving
from tests.wires import get, post, until

ROUNDS = 100_000
MB = 1_000_000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Each invented method is worth a line in the log, and a hundred thousand lines are of no use here."""
    structlog.configure(processors=[_drop])
    yield
    structlog.reset_defaults()


def _drop(*_: object) -> structlog.typing.EventDict:
    raise structlog.DropEvent


async def asked(daemon: Serving, body: bytes) -> bytes:
    """The answer of all that stands behind the listener."""
    sent: list[Message] = []
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/mcp",
        "headers": ((b"host", b"localhost"),),
        "client": ("127.0.0.1", 40000),
    }

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    async def send(message: Message) -> None:
        sent.append(message)

    await daemon.listener.app(scope, receive, send)
    assert sent[0]["status"] == 200
    return bytes(sent[1]["body"])


def method_of(name: str) -> bytes:
    return b'{"jsonrpc":"2.0","id":1,"method":"%b"}' % name.encode()


async def flood(daemon: Serving, bodies: Iterator[bytes]) -> None:
    """Each is answered that there is no such thing."""
    for number, body in enumerate(bodies):
        assert b'"error":{"code":-32601,' in await asked(daemon, body)
        if number % 100 == 0:
            await trio.testing.wait_all_tasks_blocked()  # what is recorded is accounted for


async def series(daemon: Serving) -> set[str]:
    """The names and labels of all that the daemon measures."""
    peer = await daemon.dial("http")
    async with peer.stream:
        answer = await peer.ask(get("/metrics", "X-Corecrux-Scopes: admin:read"))
    return {line.rpartition(" ")[0] for line in answer.body.decode().splitlines() if not line.startswith("#")}


async def test_a_hundred_thousand_unknown_methods_leave_nothing_behind(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        await flood(daemon, (method_of(f"early/{number}") for number in range(1000)))
        before, objects = await series(daemon), len(gc.get_objects())
        await flood(daemon, (method_of(f"nonsense/{number}") for number in range(ROUNDS)))
        gc.collect()
        assert len(gc.get_objects()) - objects < 200
        assert await series(daemon) == before
        assert not [name for name in before if "tool=" in name], "a method is no tool"


async def test_a_hundred_thousand_unknown_tools_are_one_label_and_a_bounded_ring(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        mailboxes = daemon.parts.mailboxes
        await flood(daemon, (encoded(call_of(f"early_{number}")) for number in range(10)))
        before = await series(daemon)
        await flood(
            daemon, (encoded(call_of(f"invented_{number}", x=number)) for number in range(ROUNDS - 2 * MOST_ENTRIES))
        )
        tracemalloc.start()
        try:
            await flood(daemon, (encoded(call_of(f"again_{number}", x=number)) for number in range(MOST_ENTRIES)))
            full = traced()
            await flood(daemon, (encoded(call_of(f"newer_{number}", x=number)) for number in range(MOST_ENTRIES)))
            assert traced() - full < 256 * 1024
        finally:
            tracemalloc.stop()
        assert await series(daemon) == before
        assert {name.partition('tool="')[2].partition('"')[0] for name in before if 'tool="' in name} == {"unknown"}
        ring = await mailboxes["traces"].ask(RecentTraces("__anon__", ROUNDS))
        assert (len(ring), ring[0].tool) == (MOST_ENTRIES, f"newer_{MOST_ENTRIES - 1}")
        assert (await mailboxes["meter"].ask(UsageOf("__anon__"))).calls == 10 + ROUNDS
        assert mailboxes["traces"].figures.dropped == mailboxes["meter"].figures.dropped == 0


def traced() -> int:
    """Bytes that Python holds of what it was asked for since tracing began."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("settings", [{}, {"rcx_router": "local"}], ids=["open", "router"])
async def test_names_of_a_megabyte_are_neither_kept_nor_sent_back(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with serving(tmp_path, **settings) as daemon:
        mailboxes = daemon.parts.mailboxes
        for number in range(5):
            name = f"{number}" + "é" * (MB // 2)
            assert len(await asked(daemon, method_of(name))) < 1000
            assert len(await asked(daemon, encoded(call_of(name)))) < 2000
            call = call_of("get_agent_identity", turn_id=name, entity=name, key=name, session_id=name)
            assert b'"result"' in await asked(daemon, encoded(call))
        for entry in await mailboxes["traces"].ask(RecentTraces("__anon__", 100)):
            assert len(entry.tool.encode()) <= MOST_NAME_BYTES
            assert len((entry.signature or "").encode()) <= MOST_SIGNATURE_BYTES
            assert len((entry.turn_id or "").encode()) <= MOST_NAME_BYTES
        assert not [name for name in await series(daemon) if "é" in name]


async def test_of_two_thousand_intents_one_is_kept_and_each_list_is_right(tmp_path: Path) -> None:
    async with serving(tmp_path, tool_surface=SurfaceMode.DYNAMIC) as daemon:

        async def declare(intent: str) -> None:
            assert b'"result"' in await asked(daemon, encoded(call_of("cuecrux_session", intent=intent)))

        async def listed() -> int:
            result = json.loads(await asked(daemon, encoded(LIST)))["result"]
            return len(result["tools"])

        floor = await listed()
        for hundred in range(20):
            async with trio.open_nursery() as nursery:
                for number in range(100):
                    nursery.start_soon(declare, f"intent {hundred}.{number}")
            assert await listed() == floor
        gc.collect()
        assert sum(type(each) is IntentRecord for each in gc.get_objects()) == 1
        await declare("knowledge_query")
        assert await daemon.parts.mailboxes["intents"].ask(CurrentIntent("__anon__")) == "knowledge_query"
        assert await listed() > floor


# --- half a request

WHOLE = post(encoded(LIST), path="/mcp")
HALVES = {
    "nothing": b"",
    "half a head": WHOLE[:20],
    "a head": WHOLE.partition(b"\r\n\r\n")[0] + b"\r\n\r\n",
    "half a body": WHOLE[:-20],
    "half a chunk": b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n40\r\n{",
}
EACH = 10


async def test_peers_that_stop_half_way_and_stay_are_told_and_cut_and_hold_nobody_up(tmp_path: Path) -> None:
    async with serving(tmp_path, wire_head_s=1, wire_body_grace_s=1) as daemon:
        counts = daemon.listener.counts
        peers = [(case, await daemon.dial()) for case in HALVES for _ in range(EACH)]
        for case, peer in peers:
            await peer.send(HALVES[case])
        await until(lambda: counts.inflight == 3 * EACH)
        honest = await daemon.dial()
        assert (await honest.ask(WHOLE)).status == 200
        for case, peer in peers:
            with trio.fail_after(20):
                told = await peer.rest()
            assert told == b"" if case == "nothing" else told.startswith(b"HTTP/1.1 408"), case
            await peer.stream.aclose()
        await honest.stream.aclose()
        await until(lambda: counts.connections == 0)
        assert (counts.inflight, counts.app_failures) == (0, 0)


@pytest.mark.parametrize("leave", ["close", "half-close"])
async def test_peers_that_stop_half_way_and_leave_hold_nothing(tmp_path: Path, leave: str) -> None:
    async with serving(tmp_path, max_inflight=3 * EACH) as daemon:
        counts = daemon.listener.counts
        for _ in range(3):
            peers = [(half, await daemon.dial()) for half in HALVES.values() for _ in range(EACH)]
            for half, peer in peers:
                await peer.send(half)
            await until(lambda: counts.inflight == 3 * EACH)
            for _, peer in peers:
                assert isinstance(peer.stream, trio.SocketStream)
                await (peer.stream.aclose() if leave == "close" else peer.stream.send_eof())
            await until(lambda: counts.connections == counts.inflight == 0)
            for _, peer in peers:
                await peer.stream.aclose()
        assert counts.app_failures == 0
        honest = await daemon.dial()
        assert (await honest.ask(WHOLE)).status == 200
        await honest.stream.aclose()
