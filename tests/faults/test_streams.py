"""Push streams by the thousand: as many as the limits allow, abandoned in every way, and never read."""

from __future__ import annotations

import gc
import json
import socket
import sys
from collections.abc import Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio

from crux.actors.outbox import MOST_BYTES, Outbox
from crux.actors.sessions import LIST_CHANGED, AnnounceTools
from crux.transport.wire.connection import Connection
from tests.serving import Serving, serving
from tests.wires import Answer, Client, get, post, reset, until

T = TypeVar("T")

STREAM = get("/mcp", "Accept: text/event-stream")
INITIALIZE = post(b'{"jsonrpc":"2.0","id":1,"method":"initialize"}', path="/mcp")

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere 127.0.0.1 is the only loopback address")


def plain_peer(daemon: Serving, request: bytes, host: str = "127.0.0.1", receive_buffer: int = 0) -> socket.socket:
    """A peer that has sent its request; a plain socket, since thousands of them are wanted."""
    peer = socket.socket()
    if receive_buffer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    peer.bind((host, 0))
    peer.connect(("127.0.0.1", daemon.port("mcp")))
    peer.sendall(request)
    return peer


async def streams_of(daemon: Serving, count: int, host: str = "127.0.0.1") -> list[socket.socket]:
    """So many peers with an open stream each, from one address."""
    counts = daemon.listener.counts
    before = counts.streams
    peers = [plain_peer(daemon, STREAM, host) for _ in range(count)]
    await until(lambda: counts.streams == before + count)
    return peers


async def asked_from(daemon: Serving, host: str) -> Answer:
    """The answer to one more request for a stream."""
    peer = Client(await trio.open_tcp_stream("127.0.0.1", daemon.port("mcp"), local_address=host))
    async with peer.stream:
        return await peer.ask(STREAM)


# --- how many there may be


@linux_only
async def test_by_default_there_are_64_streams_of_an_address_and_1024_in_all(tmp_path: Path) -> None:
    async with serving(tmp_path) as daemon:
        peers = await streams_of(daemon, 64, "127.0.0.1")
        refused = await asked_from(daemon, "127.0.0.1")
        assert refused.status == 429
        assert json.loads(refused.body) == {"error": "sse_session_limit", "scope": "owner", "limit": 64}
        for number in range(2, 17):
            peers += await streams_of(daemon, 64, f"127.0.0.{number}")
        assert await daemon.streams() == 1024
        refused = await asked_from(daemon, "127.0.0.17")
        assert refused.status == 429
        assert json.loads(refused.body) == {"error": "sse_session_limit", "scope": "global", "limit": 1024}
        peers.pop().close()
        await until(lambda: daemon.listener.counts.streams == 1023)
        peers += await streams_of(daemon, 1, "127.0.0.17")
        for peer in peers:
            peer.close()


@pytest.mark.parametrize(
    "limits", [{"sse_max_sessions": 0, "sse_max_sessions_per_owner": 0}, {"sse_max_sessions_per_owner": 0}]
)
async def test_a_limit_of_0_is_none(tmp_path: Path, limits: dict[str, Any]) -> None:
    more_than_the_default = 1025 if "sse_max_sessions" in limits else 65
    async with serving(tmp_path, **limits) as daemon:
        peers = await streams_of(daemon, more_than_the_default)
        assert await daemon.streams() == more_than_the_default
        for peer in peers:
            peer.close()


# --- what is left of those that nobody wants any more


def close(peer: socket.socket) -> None:
    peer.close()


def half_close(peer: socket.socket) -> None:
    """End one's own side, and stay."""
    peer.shutdown(socket.SHUT_WR)


WAYS_TO_LEAVE = (close, reset, half_close)


async def abandon(daemon: Serving, requests: Iterator[bytes], leave: Callable[[socket.socket], None]) -> None:
    """Peers, one for each request, are answered and leave in one way."""
    counts = daemon.listener.counts
    accepted, peers = counts.accepted, [plain_peer(daemon, request) for request in requests]
    for peer in peers:
        peer.setblocking(False)
        await trio.lowlevel.wait_readable(peer)
        assert peer.recv(4096).startswith(b"HTTP/1.1 200")
    assert counts.accepted == accepted + len(peers)
    for peer in peers:
        leave(peer)
    await until(lambda: counts.connections == counts.streams == 0)
    for peer in peers:
        peer.close()


def kept(kind: type[T]) -> list[T]:
    """What there is of one kind in this process."""
    return [each for each in gc.get_objects() if type(each) is kind]


async def test_two_thousand_abandoned_sessions_leave_nothing_behind(tmp_path: Path) -> None:
    requests = cycle((INITIALIZE, STREAM, get("/mcp", "Accept: text/event-stream", "Mcp-Session-Id: shared")))
    async with serving(tmp_path, sse_max_sessions_per_owner=0) as daemon:

        async def wave(count: int) -> tuple[int, int, int, int]:
            """What is there after so many sessions for each way to leave."""
            for leave in WAYS_TO_LEAVE:
                await abandon(daemon, islice(requests, count), leave)
            assert await daemon.streams() == 0
            gc.collect()
            files = len(list(Path("/dev/fd").iterdir()))
            return files, len(kept(Outbox)), len(kept(Connection)), len(gc.get_objects())

        *before, objects_before = await wave(667)  # the writer's cache of header fields is full after these
        *after, objects_after = await wave(667)
        assert daemon.listener.counts.accepted == 2 * 3 * 667
        assert after == before
        assert after[1:] == [0, 0]
        assert objects_after - objects_before < 200, "not one for ten sessions"
        counts = daemon.listener.counts
        assert counts.inflight == counts.app_failures == counts.accept_failures == 0


# --- what a peer costs that does not read


async def test_a_stream_that_is_never_read_is_dropped_and_no_other_notices(tmp_path: Path) -> None:
    async with serving(tmp_path, wire_write_s=1) as daemon:
        sessions, server = daemon.parts.mailboxes["sessions"], daemon.listener
        for listening in server.sockets:  # so that the system keeps little of what nobody reads
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 16 * 1024)
        stuck = plain_peer(
            daemon, get("/mcp", "Accept: text/event-stream", "Mcp-Session-Id: stuck"), receive_buffer=4096
        )
        reader = await daemon.dial()
        await reader.send(get("/mcp", "Accept: text/event-stream", "Mcp-Session-Id: read"))
        await reader.until(b"\r\n\r\n")
        await until(lambda: server.counts.streams == 2)
        pushed = 0
        with trio.fail_after(20):
            while pushed < 10_000 or not server.counts.stuck_writes:
                for _ in range(100):
                    await sessions.ask(AnnounceTools("stuck"))
                pushed += 100
                assert await sessions.ask(AnnounceTools("read"))
                await reader.until(LIST_CHANGED)
                assert all(len(outbox._frames) <= MOST_BYTES for outbox in kept(Outbox))
        await until(lambda: server.counts.connections == 1)
        assert not await sessions.ask(AnnounceTools("stuck"))
        assert await daemon.streams() == 1
        await reader.stream.aclose()
        stuck.close()
