"""Bytes through a plain socket: what is tried at once, what waits, and what closing does to those who wait."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterator

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from crux.transport.wire.byways import SocketByway

LARGE = b"x" * 4_000_000


class Spurious(socket.socket):
    """A socket that is said to be ready once when it is not."""

    ready = False

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        return super().recv(bufsize) if self._is_ready() else b""

    def send(self, data: bytes, flags: int = 0, /) -> int:  # type: ignore[override]
        return super().send(data) if self._is_ready() else 0

    def _is_ready(self) -> bool:
        if not self.ready:
            self.ready = True
            raise BlockingIOError
        return True


@pytest.fixture
def pair() -> Iterator[tuple[Spurious, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with Spurious(fileno=ours.detach()) as spurious, theirs:
        spurious.setblocking(False)
        yield spurious, theirs


Pair = tuple[Spurious, socket.socket]


async def test_a_read_that_was_woken_for_nothing_waits_again(pair: Pair) -> None:
    pair[1].send(b"x")
    assert await SocketByway(pair[0]).read() == b"x"


async def test_a_write_that_was_woken_for_nothing_waits_again(pair: Pair) -> None:
    assert await SocketByway(pair[0]).write(memoryview(b"x")) == 1
    assert pair[1].recv(1) == b"x"


async def test_what_does_not_fit_is_not_written_without_waiting(pair: Pair) -> None:
    byway = SocketByway(pair[0])
    assert byway.try_write(b"x") == 0
    assert 0 < byway.try_write(LARGE) < len(LARGE)
    assert byway.try_write(LARGE) == 0


@pytest.mark.parametrize("wait", [lambda byway: byway.read(), lambda byway: byway.write(memoryview(b"x"))])
async def test_closing_wakes_those_who_wait_and_those_who_come_later_do_not(
    pair: Pair, wait: Callable[[SocketByway], Awaitable[object]]
) -> None:
    async def fails() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await wait(byway)

    pair[0].ready = True
    byway = SocketByway(pair[0])
    while byway.try_write(LARGE):
        pass
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fails)
        await wait_all_tasks_blocked()
        await byway.close()
    await fails()
    await byway.close()
    with pytest.raises(OSError, match="file descriptor"):
        byway.try_write(b"x")
