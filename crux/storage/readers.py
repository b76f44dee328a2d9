"""Read-only connections: one for reads cheap enough for the event loop's own thread, some for the rest in other
threads."""

from __future__ import annotations

import os
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import trio

from crux.domain.analysis import Analyser
from crux.domain.commands import Search
from crux.domain.decay import DecayPolicy
from crux.domain.facts import Recalls
from crux.domain.messages import Message
from crux.errors import Overloaded
from crux.storage.retrieval import RETRIEVALS, Costly
from crux.storage.search import needs_scan, read, register_functions
from crux.storage.sqlite import connect_reader, storage_errors

THREADS = 4
# How far these threads step back behind the one that serves and the one that writes (see nice(2)).
NICENESS = 10
# A thread hop costs about ten mailbox round trips, so a read that can be cheap is begun where it is, and ended there
# when it turns out not to be.
INLINE_S = 0.002
# How many steps SQLite makes between looks at whether a read is over. Each look needs the interpreter's lock, so a read
# in another thread, which may take longer, rarely looks.
STEPS_INLINE = 500
STEPS_APART = 20_000
# Postings that a search may walk on the event loop's thread: less than what a thread hop costs.
POSTINGS_INLINE = 500


class ReadTooLong(Exception):
    """A read used up its steps on the event loop's thread."""


class Reader:
    """One read-only connection, for one read at a time."""

    def __init__(
        self, path: Path, policy: DecayPolicy, steps_between_looks: int, most_postings: int | None = None
    ) -> None:
        self.connection = connect_reader(path)
        self._policy = policy
        self._analyser = Analyser()
        self._most_postings = most_postings
        self._is_over: Callable[[], bool] = _never
        self._recalls: Mapping[str, Recalls] = {}
        register_functions(self.connection, self._look, self._salience_of)
        self.connection.set_progress_handler(self._look, steps_between_looks)

    def read(self, message: Message[Any], is_over: Callable[[], bool]) -> object:
        """The reply; raises `ReadTooLong` as soon as it is noticed that `is_over` holds."""
        self._is_over = is_over
        if isinstance(message, Search):
            self._recalls = message.recalls
        with storage_errors():
            try:
                reply = self._reply(message)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname == "SQLITE_INTERRUPT":
                    raise ReadTooLong from error
                raise
            except MemoryError:
                raise Overloaded("the search needs more memory than there is; narrow it by entity or words") from None
            finally:
                self._end()
        if is_over():
            raise ReadTooLong
        return reply

    def _reply(self, message: Message[Any]) -> object:
        if (retrieval := RETRIEVALS.get(type(message))) is not None:
            self.connection.execute("BEGIN")
            try:
                return retrieval(message, self.connection, self._analyser, self._most_postings)
            except Costly as error:
                raise ReadTooLong from error
        return read(message, self.connection, self._policy)

    def _end(self) -> None:
        """Leave no transaction open: it would keep its snapshot, and the log with it. Ending one is not interrupted."""
        self._is_over = _never
        if self.connection.in_transaction:
            self.connection.rollback()

    def _look(self) -> bool:
        return self._is_over()

    def _salience_of(self, fact_id: str) -> float:
        recalls = self._recalls.get(fact_id)
        return 1.0 if recalls is None else recalls.salience


def _step_back() -> None:
    """Let the threads that serve and write go first, where the system knows priorities of threads."""
    if sys.platform == "linux" and os.getpriority(os.PRIO_PROCESS, thread := threading.get_native_id()) < NICENESS:
        os.setpriority(os.PRIO_PROCESS, thread, NICENESS)


def _never() -> bool:
    return False


class Readers:
    """Answers reads, as of the last commit. They never wait for the writer."""

    def __init__(self, path: Path, policy: DecayPolicy) -> None:
        self._inline = Reader(path, policy, STEPS_INLINE, POSTINGS_INLINE)
        self._idle = [Reader(path, policy, STEPS_APART) for _ in range(THREADS)]
        self._limiter = trio.CapacityLimiter(THREADS)

    def read_now(self, message: Message[Any]) -> object:
        """The reply, on this thread; raises `ReadTooLong` when it takes more than `INLINE_S`, or is sure to."""
        if needs_scan(message):
            raise ReadTooLong
        ends = time.thread_time() + INLINE_S
        return self._inline.read(message, lambda: time.thread_time() > ends)

    async def read_apart(self, message: Message[Any], deadline_s: float, wanted: Callable[[], bool]) -> object:
        """The reply, from another thread.

        Raises `Overloaded` when it takes longer than `deadline_s`, the wait for a thread included. It is given up, also
        in the middle, when it is cancelled or `wanted` says that nobody waits for it any more.
        """
        ends = time.monotonic() + deadline_s

        def is_over() -> bool:
            try:
                trio.from_thread.check_cancelled()
            except trio.Cancelled:
                return True  # it is raised again where the thread is waited for
            return time.monotonic() > ends or not wanted()

        def work() -> object:
            _step_back()
            if is_over():
                raise ReadTooLong
            reader = self._idle.pop()
            try:
                return reader.read(message, is_over)
            finally:
                self._idle.append(reader)

        try:
            return await trio.to_thread.run_sync(work, limiter=self._limiter)
        except ReadTooLong:
            await trio.lowlevel.checkpoint_if_cancelled()
            raise Overloaded(f"the search took longer than {deadline_s:g} s; narrow it by entity or words") from None

    def close(self) -> None:
        """Close every connection; no read may be under way."""
        for reader in (self._inline, *self._idle):
            reader.connection.close()
