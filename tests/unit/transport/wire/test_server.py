"""The listener: what it accepts and turns away, what it survives, its application's lifespan, and its drain."""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from crux.errors import StartRefused
from crux.transport.asgi import App, Receive, Scope, Send
from crux.transport.listening import bind
from crux.transport.wire import WireLimits, WireServer
from crux.transport.wire.server import ACCEPT_BACKOFF_S, CUT_GRACE_S
from tests.wires import Client, dial, echo, endless_feed, get, listening, part, server_of, start, unix_socket, until


class TestAccepting:
    async def test_requests_are_served_on_every_socket(self) -> None:
        sockets = [(await server_of(echo)).sockets[0] for _ in range(2)]
        async with listening(WireServer(echo, sockets)):
            for each in sockets:
                client = await dial(each.getsockname()[1])
                assert (await client.ask(get())).status == 200
                await client.stream.aclose()

    async def test_small_answers_are_not_held_back(self) -> None:
        server = await server_of(echo)
        async with listening(server) as port:
            client = await dial(port)
            await client.ask(get())
            (connection,) = server._connections
            assert connection._byway._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)  # type: ignore[attr-defined]
            await client.stream.aclose()

    @pytest.mark.parametrize(
        ("limits", "count"),
        [
            (WireLimits(connections=2), "refused_connections"),
            (WireLimits(connections_per_address=2), "refused_addresses"),
        ],
    )
    async def test_connections_above_a_limit_are_turned_away_until_another_one_ends(
        self, limits: WireLimits, count: str
    ) -> None:
        server = await server_of(echo, limits)
        async with listening(server) as port:
            clients = [await dial(port) for _ in range(2)]
            for client in clients:
                assert (await client.ask(get())).status == 200
            refused = await dial(port)
            assert (await refused.answer()).status == 503
            assert getattr(server.counts, count) == 1
            assert server.counts.connections == 2
            await clients[0].stream.aclose()
            await until(lambda: server.counts.connections == 1)
            again = await dial(port)
            assert (await again.ask(get())).status == 200
            for client in (*clients, refused, again):
                await client.stream.aclose()
            await until(lambda: server.counts.connections == 0)
            assert not server._addresses
            assert (server.counts.accepted, server.counts.inflight) == (3, 0)

    async def test_peers_on_a_unix_socket_have_no_address(self, tmp_path: Path) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start())
            await send(part(repr((scope["client"], scope["server"])).encode()))

        server = WireServer(app, [unix_socket(tmp_path / "crux")], WireLimits(connections_per_address=1))
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            for _ in range(2):
                client = Client(await trio.open_unix_socket(tmp_path / "crux"))
                assert (await client.ask(get())).body == repr((None, (str(tmp_path / "crux"), None))).encode()
                await client.stream.aclose()
            nursery.cancel_scope.cancel()

    @pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EINVAL])
    async def test_a_shortage_is_waited_out(self, number: int, autojump_clock: MockClock) -> None:
        server = await server_of(echo)
        server.sockets = [Failing(server.sockets[0], iter([number] * 5))]
        async with listening(server) as port:
            client = await dial(port)
            assert (await client.ask(get())).status == 200
            assert server.counts.accept_failures == 5
            assert ACCEPT_BACKOFF_S * 5 <= trio.current_time() < ACCEPT_BACKOFF_S * 6
            await client.stream.aclose()

    async def test_a_connection_that_was_lost_before_it_was_taken_is_no_shortage(self) -> None:
        server = await server_of(echo)
        server.sockets = [Failing(server.sockets[0], iter([errno.ECONNABORTED]))]
        async with listening(server) as port:
            client = await dial(port)
            assert (await client.ask(get())).status == 200
            assert server.counts.accept_failures == 0
            await client.stream.aclose()

    async def test_a_stream_of_connections_leaves_time_for_others(self) -> None:
        server = await server_of(echo)
        clients = [socket.create_connection(server.sockets[0].getsockname()) for _ in range(200)]
        async with listening(server):
            await until(lambda: server.counts.connections == 200)
            for client in clients:
                client.close()
            await until(lambda: server.counts.connections == 0)


class TestFairness:
    async def test_pipelined_requests_let_other_tasks_run(self) -> None:
        turns = 0
        seen: list[int] = []

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            seen.append(turns)
            await echo(scope, receive, send)

        async def count() -> None:
            nonlocal turns
            while True:
                await trio.lowlevel.checkpoint()
                turns += 1

        async with listening(await server_of(app)) as port, trio.open_nursery() as nursery:
            nursery.start_soon(count)
            client = await dial(port)
            await client.send(get() * 50)
            for _ in range(50):
                await client.answer()
            await client.stream.aclose()
            nursery.cancel_scope.cancel()
        assert seen[-1] - seen[0] >= 40


class Failing(socket.socket):
    """A listening socket whose `accept` fails a few times first."""

    def __init__(self, listening: socket.socket, failures: Iterator[int]) -> None:
        super().__init__(listening.family, listening.type, fileno=listening.detach())
        self._failures = failures

    def accept(self) -> tuple[socket.socket, object]:
        for number in self._failures:
            raise OSError(number, "not now")
        return super().accept()


class TestTime:
    async def test_a_late_connection_is_ended_and_the_date_renewed(
        self, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("time.time", lambda: 1_800_000_000 + trio.current_time())
        server = await server_of(echo)
        async with listening(server) as port:
            client = await dial(port)
            assert (await client.ask(get())).headers["date"] == "Fri, 15 Jan 2027 08:00:00 GMT"
            await trio.sleep(60)
            assert (await client.ask(get())).headers["date"] == "Fri, 15 Jan 2027 08:01:00 GMT"
            assert await client.rest() == b""
            assert server.counts.idle_closed == 1
            await client.stream.aclose()


class Alive:
    """An application with a lifespan, that notes what it was told."""

    def __init__(self, *, failing: str = "", leaving: str = "") -> None:
        self.failing = failing
        self.leaving = leaving
        self.told: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await send(start())
            await send(part(repr(scope["state"]).encode()))
            return
        for what in ("startup", "shutdown"):
            message = await receive()
            assert message == {"type": f"lifespan.{what}"}
            self.told.append(what)
            scope["state"][what] = True
            if self.failing == what:
                await send({"type": f"lifespan.{what}.failed", "message": "no luck"})
                return
            await send({"type": f"lifespan.{what}.complete"})
            if self.leaving == what:
                raise ValueError("a bug")


async def without_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    assert scope["type"] == "http"
    await echo(scope, receive, send)


async def with_an_empty_lifespan(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "http":
        await echo(scope, receive, send)


class TestLifespan:
    async def test_it_begins_before_the_first_request_and_ends_after_the_last(self) -> None:
        app = Alive()
        server = WireServer(app, await bind("127.0.0.1", 0, "PORT"))
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            assert app.told == ["startup"]
            client = await dial(server.sockets[0].getsockname()[1])
            assert (await client.ask(get())).body == b"{'startup': True}"
            await server.drain(trio.current_time() + 5)
            assert app.told == ["startup", "shutdown"]
            await client.stream.aclose()

    @pytest.mark.parametrize(
        "app", [without_lifespan, with_an_empty_lifespan, Alive(leaving="startup"), Alive(failing="shutdown")]
    )
    async def test_an_application_that_does_not_know_it_or_breaks_it_is_served(self, app: App) -> None:
        server = WireServer(app, await bind("127.0.0.1", 0, "PORT"))
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            client = await dial(server.sockets[0].getsockname()[1])
            assert (await client.ask(get())).status == 200
            await server.drain(trio.current_time() + 5)
            await client.stream.aclose()

    async def test_a_startup_that_fails_keeps_the_server_from_serving(self) -> None:
        server = WireServer(Alive(failing="startup"), await bind("127.0.0.1", 0, "PORT"))
        with pytest.RaisesGroup(pytest.RaisesExc(StartRefused, match="startup failed: no luck")):
            await server.run()
        assert server.sockets[0].fileno() < 0
        await server.drain(trio.current_time())


@asynccontextmanager
async def one_in_flight(app: App) -> AsyncIterator[WireServer]:
    """A server that works on a request of a peer who stays; the block has to drain it."""
    server = await server_of(app)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        client = await dial(server.sockets[0].getsockname()[1])
        await client.send(get())
        await until(lambda: server.counts.inflight == 1)
        yield server
        await client.stream.aclose()


class TestDrain:
    async def test_nothing_is_accepted_any_more(self) -> None:
        server = await server_of(echo)
        async with trio.open_nursery() as nursery:
            await nursery.start(server.run)
            port = server.sockets[0].getsockname()[1]
            await server.drain(trio.current_time() + 5)
        with pytest.raises(OSError, match="connect"):
            await dial(port)

    async def test_one_before_the_start_keeps_the_server_from_accepting(self, autojump_clock: MockClock) -> None:
        server = await server_of(echo)
        await server.drain(trio.current_time())
        with trio.fail_after(5):
            await server.run()

    async def test_what_does_not_end_is_cut_at_the_deadline(self, autojump_clock: MockClock) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            try:
                await trio.sleep_forever()
            finally:
                cancelled.set()

        cancelled = trio.Event()
        async with one_in_flight(app) as server:
            await server.drain(trio.current_time() + 30)
            assert cancelled.is_set()
            assert trio.current_time() < 31

    async def test_a_send_that_shields_itself_is_cut_too(self, autojump_clock: MockClock) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            with trio.CancelScope(shield=True):
                await send(start())
                with pytest.raises(OSError, match="left"):
                    await send(part(b"x" * 10_000_000))
            told.set()

        told = trio.Event()
        async with one_in_flight(app) as server:
            await server.drain(trio.current_time() + 5)
            assert told.is_set()

    async def test_an_application_that_cannot_be_cut_does_not_hold_it(self, autojump_clock: MockClock) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            with trio.CancelScope(shield=True):
                await trio.sleep(100)

        async with one_in_flight(app) as server:
            began = trio.current_time()
            await server.drain(began + 30)
            assert 30 <= trio.current_time() - began <= 30 + CUT_GRACE_S

    async def test_a_server_that_is_cancelled_closes_everything(self) -> None:
        server = await server_of(endless_feed)
        async with listening(server) as port:
            client = await dial(port)
            await client.send(get())
            await client.until(b":\n\n")
        assert server.sockets[0].fileno() < 0
        assert server.counts.connections == server.counts.streams == 0
        await client.rest()
        await client.stream.aclose()
