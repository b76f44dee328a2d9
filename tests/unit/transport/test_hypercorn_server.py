"""Peers that do not read, over real sockets: they are cut, and nobody else notices."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog.testing
import trio
import trio.testing
from attrs import frozen
from h2.connection import H2Connection
from h2.settings import SettingCodes, Settings

from crux.domain.agents import AgentRegistry
from crux.tools.registry import Services
from crux.transport.asgi import App, Receive, Scope, Send, respond
from crux.transport.front import Front, Limits, Load
from crux.transport.gates import GuardPolicy
from crux.transport.hypercorn_server import HypercornServer
from crux.transport.listening import bind
from crux.transport.mcp import render_gate
from crux.transport.mcp_auth import McpAuthenticator
from tests.serving import mcp_app

# Far more than the buffers of both ends take.
LARGE = b"x" * 50_000_000
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
SEND_S = 0.2
SLACK_S = 10.0


@frozen
class Served:
    """A server that works on one request at a time; `answered` is set when its application is done with one."""

    server: HypercornServer
    address: tuple[str, int]
    load: Load
    answered: trio.Event

    async def peer(self) -> trio.SocketStream:
        """A connection whose receive buffer is small."""
        sock = trio.socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        await sock.connect(self.address)
        return trio.SocketStream(sock)

    async def slot_is_free(self) -> None:
        with trio.fail_after(SLACK_S):
            await self.answered.wait()
        await trio.testing.wait_all_tasks_blocked()
        assert self.load.inflight == 0


async def answer_large(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, 200, LARGE)


@asynccontextmanager
async def served(app: App = answer_large, send_s: float = SEND_S) -> AsyncIterator[Served]:
    answered, load = trio.Event(), Load()

    async def watched(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        finally:
            answered.set()

    front = Front(watched, GuardPolicy(), Limits(body_bytes=0, inflight=1), load, render_gate)
    sockets = await bind("127.0.0.1", 0, "PORT")
    server = HypercornServer(front, sockets, send_s)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield Served(server, sockets[0].getsockname(), load, answered)
        nursery.cancel_scope.cancel()
    for each in sockets:
        each.close()


async def test_a_peer_that_never_reads_is_cut_and_its_slot_is_free_again() -> None:
    async with served() as it, await it.peer() as stuck:
        await stuck.send_all(GET)
        await it.slot_is_free()
        with trio.fail_after(SLACK_S):
            got = b""
            try:
                while part := await stuck.receive_some():
                    got += part
            except trio.BrokenResourceError:
                pass
        assert len(got) < len(LARGE)


async def test_a_peer_that_is_cut_leaves_nothing_that_a_drain_would_wait_for() -> None:
    async with served() as it, await it.peer() as stuck:
        await stuck.send_all(GET * 3)
        await it.slot_is_free()
        with trio.fail_after(SLACK_S):
            await it.server.drain(deadline=float("inf"))


async def test_a_peer_that_never_sends_its_body_is_told_and_cut_off(deaf_services: Services) -> None:
    nobody = McpAuthenticator(AgentRegistry())
    app = mcp_app(deaf_services, nobody, body_timeout_s=SEND_S)
    async with served(app) as it, await it.peer() as silent:
        await silent.send_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
        with trio.fail_after(SLACK_S):
            answer = b"".join([part async for part in silent])
        assert answer.startswith(b"HTTP/1.1 408")
        assert answer.count(b"connection: close") == 1
        await it.slot_is_free()


async def test_a_peer_that_reads_gets_everything_and_may_go_on() -> None:
    async with served(send_s=SLACK_S) as it, await it.peer() as reader:
        for _ in range(2):
            await reader.send_all(GET)
            got = 0
            with trio.fail_after(SLACK_S * 2):
                while got < len(LARGE):
                    got += len(await reader.receive_some())
            await it.slot_is_free()


async def test_work_that_does_not_end_is_ended_with_the_drain() -> None:
    begun = trio.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        begun.set()
        await trio.sleep_forever()

    async with served(endless) as it, await it.peer() as waiting:
        await waiting.send_all(GET)
        with trio.fail_after(SLACK_S):
            await begun.wait()
            await it.server.drain(deadline=trio.current_time())
        assert it.answered.is_set()


async def test_what_a_peer_does_not_read_is_cut_at_the_end_of_the_drain() -> None:
    async with served(send_s=1000) as it, await it.peer() as stuck:
        await stuck.send_all(GET)
        assert await stuck.receive_some(1) == b"H"
        with trio.fail_after(SLACK_S):
            await it.server.drain(deadline=trio.current_time())
        await it.slot_is_free()


HEADERS = [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/")]


async def test_a_peer_that_grants_no_window_is_cut_as_well() -> None:
    """In HTTP/2 an answer waits for the peer's window, and nothing is being sent."""
    async with served() as it, await it.peer() as stuck:
        peer = H2Connection()
        peer.local_settings = Settings(initial_values={SettingCodes.INITIAL_WINDOW_SIZE: 0})
        peer.initiate_connection()
        peer.send_headers(1, HEADERS, end_stream=True)
        await stuck.send_all(peer.data_to_send())
        await it.slot_is_free()


async def test_a_connection_that_fails_is_logged_and_does_not_end_the_server() -> None:
    """Hypercorn raises KeyError for a part of a body that comes after the answer."""

    async def brief(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, b"brief")

    async with served(brief) as it:
        with structlog.testing.capture_logs() as logs:
            async with await it.peer() as odd:
                peer = H2Connection()
                peer.initiate_connection()
                peer.send_headers(1, HEADERS)
                await odd.send_all(peer.data_to_send())
                with trio.fail_after(SLACK_S):
                    while b"brief" not in await odd.receive_some():
                        pass
                    peer.send_data(1, b"late")
                    await odd.send_all(peer.data_to_send())
                    while await odd.receive_some():
                        pass
        assert [line["event"] for line in logs] == ["a connection failed"]
        async with await it.peer() as reader:
            await reader.send_all(GET)
            assert (await reader.receive_some()).startswith(b"HTTP/1.1 200")
