"""What an application is given, and what it may do: ASGI 3.0 over one connection in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h11
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from crux.transport.asgi import App, Message, Receive, Scope, Send
from crux.transport.wire import WireLimits
from tests.wires import FEED, body_of, chunked, dial, echo, get, listening, part, post, server_of, start, wired

EXPECTING = post(b"body", "Expect: 100-continue")[: -len(b"body")]
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class TestScope:
    async def test_it_says_what_was_asked(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            scopes.append(scope)
            await echo(scope, receive, send)

        scopes: list[Scope] = []
        async with wired(app) as wire:
            await wire.client.ask(get("/caf%C3%A9/a%2Fb?q=1%20", "X-One:  a ", "x-one: b"))
        assert scopes == [
            {
                "type": "http",
                "asgi": {"version": "3.0", "spec_version": "2.4"},
                "http_version": "1.1",
                "method": "GET",
                "scheme": "http",
                "path": "/café/a/b",
                "raw_path": b"/caf%C3%A9/a%2Fb",
                "query_string": b"q=1%20",
                "root_path": "",
                "headers": ((b"host", b"localhost"), (b"x-one", b"a"), (b"x-one", b"b")),
                "client": ("127.0.0.1", 40000),
                "server": ("127.0.0.1", 14801),
                "state": {},
            }
        ]

    async def test_what_one_request_does_to_its_state_the_next_does_not_see(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start())
            await send(part(repr(scope["state"]).encode()))
            scope["state"]["mine"] = 1

        async with wired(app) as wire:
            wire.place.state["shared"] = 0
            for _ in range(2):
                assert (await wire.client.ask(get())).body == b"{'shared': 0}"


class TestReceive:
    async def test_a_body_is_given_as_it_comes(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            while (message := await receive())["more_body"]:
                parts.append(message["body"])
            await send(start())
            await send(part(message["body"]))

        parts: list[bytes] = []
        async with wired(app) as wire:
            request = chunked(b"one", b"two")
            middle = request.index(b"two")
            await wire.client.send(request[:middle])
            await wait_all_tasks_blocked()
            assert parts == [b"one"]
            assert (await wire.client.ask(request[middle:])).body == b"two"

    async def test_100_continue_is_sent_when_the_application_asks_for_the_body(self) -> None:
        async with wired(echo) as wire:
            for _ in range(2):  # once for each
                await wire.client.send(EXPECTING)
                assert await wire.client.until(b"\r\n\r\n") == CONTINUE
                await wire.client.send(b"bo")
                await wait_all_tasks_blocked()
                await wire.client.send(b"dy")
                assert (await wire.client.until(b"\r\n")) == b"HTTP/1.1 200 OK\r\n"
                await wire.client.until(b"POST / body")

    async def test_100_continue_is_not_sent_by_one_that_does_not_ask(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start(status=401))
            await send(part())

        async with wired(app) as wire:
            await wire.client.send(EXPECTING)
            assert (await wire.client.rest()).startswith(b"HTTP/1.1 401 ")

    @pytest.mark.parametrize("request_", [EXPECTING + b"body", EXPECTING.replace(b"1.1", b"1.0") + b"body"])
    async def test_100_continue_is_not_sent_to_one_that_does_not_wait_for_it(self, request_: bytes) -> None:
        async with wired(echo) as wire:
            await wire.client.send(request_)
            assert (await wire.client.until(b"\r\n")) == b"HTTP/1.1 200 OK\r\n"

    async def test_100_continue_is_not_sent_within_an_answer(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start())
            await send(part(b"begun ", more=True))
            await send(part(await body_of(receive) or b""))

        async with wired(app) as wire:
            await wire.client.send(EXPECTING)
            await wire.client.until(b"begun ")
            await wire.client.send(b"body")
            assert CONTINUE not in await wire.client.until(b"0\r\n\r\n")

    async def test_after_the_answer_there_is_nothing_to_wait_for(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await echo(scope, receive, send)
            messages.extend([await receive(), await receive()])

        messages: list[Message] = []
        async with wired(app) as wire:
            for _ in range(2):
                assert (await wire.client.ask(get())).status == 200
        assert messages[:2] == [{"type": "http.disconnect"}] * 2

    @pytest.mark.parametrize(
        ("body", "status"), [(chunked(b"x" * 20), 413), (chunked(b"x")[:-5] + b"no size\r\n", 400)]
    )
    async def test_a_body_that_is_refused_is_a_peer_that_left_to_the_application(
        self, body: bytes, status: int
    ) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            while (message := await receive())["type"] == "http.request":
                pass
            messages.extend([message, await receive()])

        messages: list[Message] = []
        async with wired(app, WireLimits(body_bytes=10)) as wire:
            assert (await wire.client.ask(body)).status == status
        assert messages == [{"type": "http.disconnect"}] * 2

    async def test_an_application_may_word_the_refusal_of_a_body_itself(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            if await body_of(receive) is None:
                await send(start(status=413))
                await send(part(b"too much"))

        async with wired(app, WireLimits(body_bytes=10)) as wire:
            assert (await wire.client.ask(chunked(b"x" * 20))).body == b"too much"
            assert await wire.client.rest() == b""
            assert wire.counts.large_bodies == 1

    async def test_two_tasks_cannot_both_wait_for_the_body(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            with pytest.RaisesGroup(trio.BusyResourceError):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(receive)
                    nursery.start_soon(receive)
            await echo(scope, receive, send)

        async with wired(app) as wire:
            await wire.client.send(post(b"body")[:-4])
            await wait_all_tasks_blocked()
            assert (await wire.client.ask(b"body")).body == b"POST / body"

    async def test_a_second_task_that_wanted_the_body_disturbs_nobody(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive)
                await wait_all_tasks_blocked()
                with pytest.raises(trio.BusyResourceError):
                    await receive()
                await send(start())
                await send(part(b"first ", more=True))
            await send(part(b"last"))

        async with wired(app) as wire:
            await wire.client.send(post(b"body")[:-4])
            await wire.client.until(b"first ")
            await wire.client.send(b"body")
            await wire.client.until(b"last")

    async def test_one_that_asks_again_and_again_lets_other_tasks_run(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await echo(scope, receive, send)
            async with counting() as turns:
                for _ in range(100):
                    await receive()
                taken.append(turns[0])

        taken: list[int] = []
        async with wired(app) as wire:
            await wire.client.ask(get())
            await wait_all_tasks_blocked()
        assert taken[0] >= 90

    async def test_a_body_is_read_while_its_answer_streams(self) -> None:
        """Before the stream begins, while it goes on, and by a task that waits already when it begins."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            async def pump() -> None:
                while (message := await receive())["type"] == "http.request":
                    await to_answer.send(message)
                    if not message["more_body"]:
                        return

            to_answer, parts = trio.open_memory_channel[Message](0)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pump)
                await wait_all_tasks_blocked()
                await send(start())
                await send(part(b"ready ", more=True))
                async for message in parts:
                    await send(part(message["body"], more=message["more_body"]))
                    if not message["more_body"]:
                        break

        async with wired(app) as wire:
            await wire.client.send(post(b"one two")[:-7])
            await wire.client.until(b"ready ")
            await wire.client.send(b"one ")
            await wire.client.until(b"one ")
            await wire.client.send(b"two" + get("/next"))
            assert await wire.client.until(b"0\r\n\r\n") == b"\r\n3\r\ntwo\r\n0\r\n\r\n"
            await wire.client.send(b"")
            await wire.client.until(b"ready ")

    async def test_a_stream_whose_body_is_cut_short_is_cancelled(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(FEED)
            await send(part(b":\n\n", more=True))
            try:
                await body_of(receive)
                await trio.sleep_forever()
            except trio.Cancelled:
                cancelled.set()
                raise

        cancelled = trio.Event()
        async with wired(app) as wire:
            await wire.client.send(post(b"body")[:-1])
            await wire.client.until(b":\n\n")
            await wire.client.stream.aclose()
            await wire.done.wait()
            assert cancelled.is_set()


class TestSend:
    @pytest.mark.parametrize(
        "messages",
        [
            [part(b"no start")],
            [start(), start()],
            [start(), {"type": "http.response.trailers"}],
            [start(), {"type": "websocket.accept"}],
            [start((b"content-length", b"2")), part(b"abc")],
            [start((b"x", b"a\r\nb: c")), part()],
        ],
    )
    async def test_misuse_is_a_bug_of_the_application(self, messages: list[Message]) -> None:
        async with wired(_that_sends(messages)) as wire:
            assert (await wire.client.ask(get())).status == 500
            assert wire.counts.app_failures == 1

    async def test_nothing_is_sent_after_the_end(self) -> None:
        async with wired(_that_sends([start(), part(b"done"), part(b"and more")])) as wire:
            assert (await wire.client.ask(get())).body == b"done"
            assert await wire.client.rest() == b""
            assert wire.counts.app_failures == 1

    async def test_an_answer_in_parts_of_no_known_length_is_chunked(self) -> None:
        messages = [start(), part(b"one ", more=True), part(more=True), part(b"two", more=True), part()]
        async with wired(_that_sends(messages)) as wire:
            for _ in range(2):
                answer = await wire.client.ask(get())
                assert (answer.body, answer.headers["transfer-encoding"]) == (b"one two", "chunked")
            answer = await wire.client.ask(get(version="1.0"))
            assert (answer.body, answer.headers["connection"]) == (b"one two", "close")

    async def test_an_answer_to_an_old_peer_ends_with_the_connection(self) -> None:
        async with wired(_that_sends([start(), part(b"half", more=True)])) as wire:
            assert (await wire.client.ask(get(version="1.0"))).body == b"half"

    async def test_headers_may_be_any_iterable(self) -> None:
        message = {"type": "http.response.start", "status": 200}
        async with wired(
            _that_sends([{**message, "headers": iter([(b"x", b"y")])}, part(b"a", more=True), part()])
        ) as wire:
            assert (await wire.client.ask(get())).headers["x"] == "y"
        async with wired(_that_sends([message, {"type": "http.response.body"}])) as wire:
            assert (await wire.client.ask(get())).status == 200

    async def test_a_long_stream_into_a_fast_peer_lets_other_tasks_run(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start())
            async with counting() as turns:
                for _ in range(100):
                    await send(part(b"x", more=True))
                taken.append(turns[0])

        taken: list[int] = []
        server = await server_of(app)
        async with listening(server) as port:
            client = await dial(port)
            await client.send(get())
            await client.rest()
            await client.stream.aclose()
        assert taken[0] >= 90

    async def test_two_tasks_cannot_send_at_once(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start())
            async with trio.open_nursery() as nursery:
                nursery.start_soon(send, part(b"one", more=True))
                await wait_all_tasks_blocked()
                with pytest.raises(trio.BusyResourceError):
                    await send(part(b"two", more=True))
            await send(part(b"three"))

        async with wired(app, lockstep=True) as wire:
            await wire.client.send(get())
            await wait_all_tasks_blocked()
            assert (await wire.client.answer()).body == b"onethree"

    async def test_after_a_send_that_was_cancelled_half_way_nothing_more_is_sent(
        self, autojump_clock: MockClock
    ) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            with trio.move_on_after(5):
                await send(start((b"content-length", b"200000")))
                await send(part(b"x" * 200_000))

        async with wired(app, lockstep=True) as wire:
            await wire.client.send(get() + get())
            await wire.client.stream.receive_some(1000)
            await wire.done.wait()
            assert wire.counts.app_failures == 0
            with pytest.raises(h11.RemoteProtocolError):
                await wire.client.answer()

    async def test_an_application_that_goes_on_sending_to_nobody_is_told_each_time(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            assert (await receive())["type"] == "http.request"
            assert (await receive())["type"] == "http.disconnect"
            await send(start((b"content-length", b"2")))
            for more in (True, False):
                try:
                    await send(part(b"x", more=more))
                except OSError:
                    told.append(more)

        told: list[bool] = []
        async with wired(app) as wire:
            await wire.client.send(get())
            await wait_all_tasks_blocked()
            await wire.client.stream.aclose()
            await wire.done.wait()
        assert told == [True, False]


@asynccontextmanager
async def counting() -> AsyncIterator[list[int]]:
    """Counts, in the one number that is given, how often another task gets its turn."""

    async def count() -> None:
        while True:
            await trio.lowlevel.checkpoint()
            turns[0] += 1

    turns = [0]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(count)
        yield turns
        nursery.cancel_scope.cancel()


def _that_sends(messages: list[Message]) -> App:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return app
