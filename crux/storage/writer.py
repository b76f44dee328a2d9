"""The one thread that writes: it commits a batch at a time and wakes the event loop once for each."""

from __future__ import annotations

import queue
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import outcome
import trio
from attrs import define, field

from crux.domain.messages import Message
from crux.storage.commands import apply
from crux.storage.sqlite import connect_writer, is_environmental, may_be_too_large, storage_error
from crux.storage.transaction import Transaction
from crux.storage.upkeep import fold, tidy

# When no write came for a moment after some did, the thread tidies up: a search costs by the number of segments its
# index is in, and a long log costs every reader.
TIDY_IDLE_S = 0.5

Outcomes = list[object]


@define(eq=False)
class _Job:
    commands: Sequence[Message[Any]]
    now_us: int
    task: trio.lowlevel.Task | None
    token: trio.lowlevel.TrioToken = field(factory=trio.lowlevel.current_trio_token)

    def finish(self, result: outcome.Outcome[Outcomes]) -> None:
        self.token.run_sync_soon(self._wake, result)

    def _wake(self, result: outcome.Outcome[Outcomes]) -> None:
        task, self.task = self.task, None
        if task is not None:
            trio.lowlevel.reschedule(task, result)

    def abandon(self, _: object) -> trio.lowlevel.Abort:
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED


class Writer:
    """Commits batches of commands durably, in the order they were handed over."""

    def __init__(self, path: Path) -> None:
        self._connection = connect_writer(path)
        self._transaction = Transaction(self._connection)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="crux-writer", daemon=True)
        self._thread.start()

    async def commit(self, commands: Sequence[Message[Any]], now_us: int) -> Outcomes:
        """Apply all commands as one durable batch: one outcome each, in order, when they are on disk.

        An outcome is the reply, or the exception that refused that command and left no trace of it. Cancellation stops
        the waiting, not the commit.
        """
        job = _Job(commands, now_us, trio.lowlevel.current_task())
        self._jobs.put(job)
        outcomes: Outcomes = await trio.lowlevel.wait_task_rescheduled(job.abandon)
        return outcomes

    def close(self) -> None:
        """Finish the batches handed over, fold the log into the database, and end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        untidy = True  # an earlier run may have left something
        broken: Exception | None = None
        while True:
            try:
                job = self._jobs.get(timeout=TIDY_IDLE_S if untidy else None)
            except queue.Empty:
                try:
                    untidy = self._tidy()
                except Exception as error:
                    broken, untidy = (
                        error,
                        False,
                    )  # told to whoever writes next: the actor above then restarts or gives up
                continue
            if job is None:
                break
            job.finish(outcome.Error(broken) if broken else outcome.capture(self._commit, job.commands, job.now_us))
            untidy, broken = broken is None, None
        self._fold_log()
        self._connection.close()

    def _commit(self, commands: Sequence[Message[Any]], now_us: int) -> Outcomes:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            outcomes = [self._apply(command, now_us) for command in commands]
            self._transaction.indices.write()
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            if not is_environmental(error):
                raise
            if len(commands) == 1 or not may_be_too_large(error):
                return [storage_error(error)] * len(commands)
            # One large write may be what the disk had no room for: each gets a try of its own.
            return [self._commit([command], now_us)[0] for command in commands]
        except BaseException:
            self._roll_back()
            raise
        return outcomes

    def _apply(self, command: Message[Any], now_us: int) -> object:
        """One command in a savepoint of its own; environmental failures leave through here and end the batch."""
        run = self._connection.execute
        run("SAVEPOINT command")
        mark = self._transaction.indices.mark()
        try:
            reply = apply(command, self._transaction, now_us)
        except Exception as error:
            if isinstance(error, sqlite3.Error) and is_environmental(error):
                raise
            run("ROLLBACK TO command")
            run("RELEASE command")
            self._transaction.indices.rewind(mark)
            return error
        run("RELEASE command")
        return reply

    def _roll_back(self) -> None:
        self._transaction.indices.rewind(0)
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")

    def _tidy(self) -> bool:
        """Do what is to be done until a write waits; whether anything is left."""
        try:
            return not tidy(self._connection, lambda: not self._jobs.empty())
        except sqlite3.Error as error:
            if not is_environmental(error):
                raise
        return True

    def _fold_log(self) -> None:
        """Leave nothing in the log, if the disk allows."""
        try:
            fold(self._connection, "TRUNCATE")
        except sqlite3.Error as error:
            if not is_environmental(error):
                raise
