"""Read-only connections: one for reads cheap enough for the event loop's own thread, some for the rest in other
threads."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from crux.domain.decay import DecayPolicy
from crux.domain.messages import Message
from crux.errors import Overloaded
from crux.storage.search import needs_scan, read, register_functions
from crux.storage.sqlite import connect_reader, storage_errors

THREADS = 4
# A thread hop costs about ten mailbox round trips, so a read that can be cheap is begun where it is, and ended there
# when it turns out not to be.
INLINE_S = 0.002
STEPS_BETWEEN_LOOKS = 500


class ReadTooLong(Exception):
    """A read used up its steps on the event loop's thread."""


class Readers:
    """Answers reads, as of the last commit. They never wait for the writer."""

    def __init__(self, path: Path, policy: DecayPolicy) -> None:
        self._policy = policy
        self._inline_ends = 0.0
        self._inline = _open(path)
        self._inline.set_progress_handler(lambda: int(time.monotonic() > self._inline_ends), STEPS_BETWEEN_LOOKS)
        self._idle = [_open(path) for _ in range(THREADS)]
        self._limiter = trio.CapacityLimiter(THREADS)

    def read_now(self, message: Message[Any]) -> object:
        """The reply, on this thread; raises `ReadTooLong` when it takes more than `INLINE_S`, or is sure to."""
        if needs_scan(message):
            raise ReadTooLong
        self._inline_ends = time.monotonic() + INLINE_S
        return self._read(self._inline, message)

    async def read_apart(self, message: Message[Any], deadline_s: float, wanted: Callable[[], bool]) -> object:
        """The reply, from another thread.

        Raises `Overloaded` when it takes longer than `deadline_s`, the wait for a thread included. It is given up, also
        in the middle, when it is cancelled or `wanted` says that nobody waits for it any more.
        """
        ends = time.monotonic() + deadline_s

        def give_up() -> int:
            try:
                trio.from_thread.check_cancelled()
            except trio.Cancelled:
                return 1  # it is raised again where the thread is waited for
            return int(time.monotonic() > ends or not wanted())

        def work() -> object:
            connection = self._idle.pop()
            connection.set_progress_handler(give_up, STEPS_BETWEEN_LOOKS)
            try:
                if give_up():
                    raise ReadTooLong
                return self._read(connection, message)
            finally:
                self._idle.append(connection)

        try:
            return await trio.to_thread.run_sync(work, limiter=self._limiter)
        except ReadTooLong:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise Overloaded(f"the search took longer than {deadline_s:g} s; narrow it by entity or words") from None

    def close(self) -> None:
        """Close every connection; no read may be under way."""
        for connection in (self._inline, *self._idle):
            connection.close()

    def _read(self, connection: sqlite3.Connection, message: Message[Any]) -> object:
        with storage_errors():
            try:
                return read(message, connection, self._policy)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname == "SQLITE_INTERRUPT":
                    raise ReadTooLong from error
                raise


def _open(path: Path) -> sqlite3.Connection:
    connection = connect_reader(path)
    register_functions(connection)
    return connection
