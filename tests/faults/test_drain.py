"""Stopping: what is in flight ends, what is stuck is cut, and both in time."""

from __future__ import annotations

from pathlib import Path

import httpx
import trio
import trio.testing

from tests.serving import Serving, call_of, encoded, serving, tool
from tests.wires import post

# Real seconds: the drain setting of these tests, and what a machine under load may need on top.
DRAIN_S = 2
SLACK_S = 8


async def stops_in_time(daemon: Serving) -> None:
    daemon.stop.set()
    with trio.fail_after(DRAIN_S + SLACK_S):
        await daemon.done.wait()


async def test_a_peer_that_never_reads_does_not_hold_the_stop(tmp_path: Path) -> None:
    async with serving(tmp_path, shutdown_drain_s=DRAIN_S) as daemon, httpx.AsyncClient(trust_env=False) as client:
        for number in range(8):
            await tool(client, daemon.mcp, "store_fact", entity="large", key=str(number), value="x" * 1_000_000)
        stuck = await trio.open_tcp_stream("127.0.0.1", daemon.port("mcp"))
        await stuck.send_all(post(encoded(call_of("query_facts", entity="large")), path="/mcp"))
        assert await stuck.receive_some(1) == b"H", "its answer has begun"
        await stops_in_time(daemon)
        await stuck.aclose()


async def test_idle_connections_do_not_hold_the_stop(tmp_path: Path) -> None:
    async with serving(tmp_path, shutdown_drain_s=DRAIN_S * 100) as daemon:
        idle = []
        for which in ("mcp", "http") * 25:
            stream = await trio.open_tcp_stream("127.0.0.1", daemon.port(which))
            path = b"/mcp" if which == "mcp" else b"/healthz"
            await stream.send_all(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await stream.receive_some()).startswith(b"HTTP/1.1 200")
            idle.append(stream)
        await stops_in_time(daemon)
        for stream in idle:
            await stream.aclose()


async def test_a_call_in_flight_gets_its_answer(tmp_path: Path) -> None:
    async with serving(tmp_path, shutdown_drain_s=DRAIN_S * 5) as daemon:
        stream = await trio.open_tcp_stream("127.0.0.1", daemon.port("mcp"))
        call = post(encoded(call_of("store_fact", entity="a", key="k", value="kept")), path="/mcp")
        await stream.send_all(call[:-20])
        await trio.testing.wait_all_tasks_blocked(0.05)
        daemon.stop.set()
        await trio.testing.wait_all_tasks_blocked(0.05)
        await stream.send_all(call[-20:])
        answer = b""
        with trio.fail_after(SLACK_S):
            while b"fact_id" not in answer:
                part = await stream.receive_some()
                assert part, f"closed without an answer: {answer!r}"
                answer += part
        await stream.aclose()
    async with serving(tmp_path) as daemon, httpx.AsyncClient(trust_env=False) as client:
        found = await tool(client, daemon.mcp, "query_facts", entity="a")
        assert "kept" in found["result"]["content"][0]["text"]
