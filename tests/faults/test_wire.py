"""The wire under load and malice: drains at scale, peers that never read, resets, floods, no files left, any cut."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from crux.transport.asgi import Receive, Scope, Send
from crux.transport.wire import WireServer
from crux.transport.wire.byways import MOST_AT_ONCE
from crux.transport.wire.connection import MOST_WAITING
from crux.transport.wire.server import ACCEPT_BACKOFF_S
from tests.wires import FEED, chunked, dial, echo, endless_feed, get, listening, part, post, reset, server_of, until

FEEDS = 5_000
STUCK = 50
DRAIN_S = 2.0
FILES_OF_OTHERS = 500

TERMINATOR = b"\r\n0\r\n\r\n"


@pytest.fixture
def many_files() -> Iterator[int]:
    """As many open files as the system allows; how many connections, each with two ends here, that is enough for."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 2 * (FEEDS + STUCK) + FILES_OF_OTHERS
    wanted = most if hard == resource.RLIM_INFINITY else min(hard, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield (wanted - FILES_OF_OTHERS) // 2
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def feeds_and_floods(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["path"] == "/flood":
        await send(FEED)
        while True:
            await send(part(b"x" * 100_000, more=True))
    await endless_feed(scope, receive, send)


async def plain_peers(server: WireServer, count: int, request: bytes) -> list[socket.socket]:
    """Peers that have sent a request; plain sockets, since thousands of them are wanted."""
    peers = []
    before = server.counts.accepted
    address = server.sockets[0].getsockname()
    for number in range(1, count + 1):
        peer = socket.create_connection(address)
        peer.sendall(request)
        peers.append(peer)
        if number % 500 == 0 or number == count:  # the backlog is not endless
            await until(lambda: server.counts.accepted == before + number)  # noqa: B023
    return peers


class TestDrain:
    async def test_thousands_of_feeds_end_properly_and_stuck_peers_are_cut_in_time(self, many_files: int) -> None:
        server = await server_of(feeds_and_floods)
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            stuck = await plain_peers(server, STUCK, get("/flood"))
            peers = await plain_peers(server, many_files - STUCK, get("/feed"))
            await until(lambda: server.counts.streams == many_files)
            began = trio.current_time()
            await server.drain(began + DRAIN_S)
            assert DRAIN_S <= trio.current_time() - began <= DRAIN_S + 1
        assert server.counts.connections == server.counts.streams == server.counts.app_failures == 0
        for peer in peers:
            assert peer.recv(1000).endswith(TERMINATOR)
            assert peer.recv(1000) == b""
        for peer in (*peers, *stuck):
            peer.close()

    async def test_peers_that_never_read_do_not_hold_it_longer(self) -> None:
        """Not when they stopped in the middle of a head or a body either."""
        server = await server_of(echo)
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            peers = [
                peer
                for request in (b"", get()[:-1], post(b"x")[:-1], get(), get("/", "Connection: close"))
                for peer in await plain_peers(server, 10, request)
            ]
            await wait_all_tasks_blocked(0.01)
            began = trio.current_time()
            await server.drain(began + 0.5)
            assert trio.current_time() - began <= 0.5 + 1
        for peer in peers:
            peer.close()


class TestMalice:
    async def test_a_storm_of_resets_leaves_nothing_behind(self) -> None:
        server = await server_of(feeds_and_floods)
        requests = [b"", get()[:9], get("/feed"), get("/flood"), post(b"x" * 100)[:-1], get("/feed") * 100, b"\0"]
        async with listening(server) as port:
            for round_ in range(5):
                peers = []
                for request in requests:
                    peers += await plain_peers(server, 20, request)
                if round_ % 2:
                    await wait_all_tasks_blocked()
                for peer in peers:
                    reset(peer)
            await until(lambda: server.counts.connections == 0)
            counts = server.counts
            assert counts.accepted == 5 * 20 * len(requests)
            assert counts.streams == counts.inflight == counts.app_failures == counts.accept_failures == 0
            client = await dial(port)
            await client.send(get("/feed"))
            await client.until(b":\n\n")
            await client.stream.aclose()

    async def test_a_flood_of_requests_from_a_peer_that_does_not_read_is_bounded_and_cut(
        self, autojump_clock: MockClock
    ) -> None:
        async def flood() -> None:
            with pytest.raises(trio.BrokenResourceError):
                await client.send(get("/" + "x" * 1000) * 100_000)

        server = await server_of(echo)
        async with listening(server) as port, trio.open_nursery() as nursery:
            client = await dial(port)
            nursery.start_soon(flood)
            await until(lambda: server.counts.connections == 1)
            (connection,) = server._connections
            await trio.sleep(5)
            assert connection.reader.waiting <= MOST_WAITING + MOST_AT_ONCE
            await trio.sleep(10)
            assert (server.counts.stuck_writes, server.counts.connections) == (1, 0)
        await client.stream.aclose()


class TestFiles:
    @pytest.fixture
    def few_files(self) -> Iterator[None]:
        yield
        resource.setrlimit(resource.RLIMIT_NOFILE, self.limit)

    limit = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def test_without_files_it_waits_for_some(self, few_files: None) -> None:
        """Peers beyond the limit wait in the backlog, and are served as others leave."""
        server = await server_of(echo)
        peers = [await dial(server.sockets[0].getsockname()[1]) for _ in range(40)]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit_for_more(10), self.limit[1]))
        async with listening(server):
            began = trio.current_time()
            for peer in peers:
                assert (await peer.ask(get())).status == 200
                await peer.stream.aclose()
            took = trio.current_time() - began
            await until(lambda: server.counts.connections == 0)
        assert server.counts.accepted == 40
        assert 1 <= server.counts.accept_failures <= took / ACCEPT_BACKOFF_S + 1, "it did not spin"


def limit_for_more(files: int) -> int:
    """The limit under which so many files more can be opened."""
    taken = {int(file.name) for file in Path("/dev/fd").iterdir()}
    return next(islice((number for number in count() if number not in taken), files, None))


@pytest.mark.parametrize(
    "request_",
    [
        get("/path?query", "Accept: */*"),
        post(b"a body"),
        chunked(b"one", b"three"),
        chunked(b"x").replace(b"1\r\nx", b"1;extension\r\nx").replace(b"0\r\n", b"0\r\nTrailer: x\r\n"),
        b"GET /\r\n\r\n",
        post(b"x", "Transfer-Encoding: chunked"),
    ],
)
async def test_however_a_request_is_cut_it_gets_the_same_answer(request_: bytes) -> None:
    server = await server_of(echo)
    async with listening(server) as port:
        whole = await dial(port)
        expected = await whole.ask(request_)
        await whole.stream.aclose()
        cuts = [[request_[:at], request_[at:]] for at in range(1, len(request_))]
        for pieces in (*cuts, [bytes([byte]) for byte in request_]):
            client = await dial(port)
            for piece in pieces:
                try:
                    await client.send(piece)
                except trio.BrokenResourceError:
                    break  # it was refused before it was whole
                await wait_all_tasks_blocked()
            answer = await client.answer()
            assert (answer.status, answer.body) == (expected.status, expected.body)
            await client.stream.aclose()
