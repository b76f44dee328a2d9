"""The engine that the store's actors stand on: one narrow interface, and embedded SQLite behind it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import trio

from crux.domain.decay import DecayPolicy
from crux.domain.messages import Message
from crux.storage.readers import Readers
from crux.storage.sqlite import prepare
from crux.storage.writer import Outcomes, Writer

DATABASE = "crux.db"


class Engine(Protocol):
    """Durable facts. Only the FactStore actor commits; only the Recall actor reads."""

    async def commit(self, commands: Sequence[Message[Any]], now_us: int) -> Outcomes:
        """Apply commands as one durable batch: one outcome each, in order (see `Writer.commit`)."""
        ...

    def read_now(self, message: Message[Any]) -> object:
        """The reply to a cheap read; raises `ReadTooLong` when it is not cheap."""
        ...

    async def read_apart(self, message: Message[Any], deadline_s: float, wanted: Callable[[], bool]) -> object:
        """The reply to any read, without holding up the event loop; given up when nobody wants it any more."""
        ...

    def problem(self) -> str | None:
        """What keeps writes from being safe where the data is kept, if anything."""
        ...

    def free_bytes(self) -> int:
        """Room left for data; only while there is no `problem`."""
        ...

    def sizes(self) -> Mapping[str, int]:
        """Bytes in use, by part, for gauges."""
        ...

    def close(self) -> None:
        """Finish what was handed over and let go of every file."""
        ...


class SqliteEngine:
    """One SQLite file in `directory`, owned by this process."""

    def __init__(self, directory: Path, policy: DecayPolicy) -> None:
        self._path = directory / DATABASE
        prepare(self._path)
        kept = self._path.stat()
        self._identity = (kept.st_dev, kept.st_ino)
        self._writer = Writer(self._path)
        self._readers = Readers(self._path, policy)
        self.commit = self._writer.commit
        self.read_now = self._readers.read_now
        self.read_apart = self._readers.read_apart

    @classmethod
    async def open(cls, directory: Path, policy: DecayPolicy) -> SqliteEngine:
        """Open the database in `directory`, making or migrating it first. Raises `StartRefused` where it cannot be
        used."""
        return await trio.to_thread.run_sync(cls, directory, policy)

    def problem(self) -> str | None:
        try:
            found = self._path.stat()
        except OSError as error:
            return f"{self._path} is gone ({error.strerror}): stop the daemon and put the directory back"
        if (found.st_dev, found.st_ino) != self._identity:
            return f"{self._path} was replaced while the daemon runs: restart it"
        return None

    def free_bytes(self) -> int:
        room = os.statvfs(self._path.parent)
        return room.f_bavail * room.f_frsize

    def sizes(self) -> Mapping[str, int]:
        return {"database": _size(self._path), "wal": _size(self._path.with_name(f"{DATABASE}-wal"))}

    def close(self) -> None:
        self._readers.close()
        self._writer.close()


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
