"""Read-only connections: one for reads cheap enough for the event loop's own thread, some for the rest in other
threads."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import trio

from crux.domain.decay import DecayPolicy
from crux.domain.messages import Message
from crux.errors import Overloaded
from crux.storage.search import read, register_functions
from crux.storage.sqlite import connect_reader, storage_errors

THREADS = 4
# A thread hop costs about ten mailbox round trips, so a read first gets some of SQLite's steps (about a millisecond)
# where it is: `INLINE_LOOKS` looks, `STEPS_BETWEEN_LOOKS` steps apart.
STEPS_BETWEEN_LOOKS = 2_000
INLINE_LOOKS = 20


class ReadTooLong(Exception):
    """A read used up its steps on the event loop's thread."""


class Readers:
    """Answers reads, as of the last commit. They never wait for the writer."""

    def __init__(self, path: Path, policy: DecayPolicy) -> None:
        self._policy = policy
        self._looks = 0
        self._inline = _open(path)
        self._inline.set_progress_handler(self._look, STEPS_BETWEEN_LOOKS)
        self._idle = [_open(path) for _ in range(THREADS)]
        self._limiter = trio.CapacityLimiter(THREADS)

    def read_now(self, message: Message[Any]) -> object:
        """The reply, on this thread; raises `ReadTooLong` when it takes more than its share of steps."""
        self._looks = 0
        return self._read(self._inline, message)

    async def read_apart(self, message: Message[Any], deadline_s: float) -> object:
        """The reply, from another thread; raises `Overloaded` when it takes longer than `deadline_s`."""

        def work() -> object:
            connection = self._idle.pop()
            ends = time.monotonic() + deadline_s
            connection.set_progress_handler(lambda: int(time.monotonic() > ends), STEPS_BETWEEN_LOOKS)
            try:
                return self._read(connection, message)
            finally:
                self._idle.append(connection)

        try:
            return await trio.to_thread.run_sync(work, limiter=self._limiter)
        except ReadTooLong:
            raise Overloaded(f"the search took longer than {deadline_s:g} s; narrow it by entity or words") from None

    def close(self) -> None:
        """Close every connection; no read may be under way."""
        for connection in (self._inline, *self._idle):
            connection.close()

    def _look(self) -> int:
        self._looks += 1
        return int(self._looks > INLINE_LOOKS)

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
