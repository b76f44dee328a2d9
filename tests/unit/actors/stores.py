"""What tests do to the store under their actors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import trio

from crux.domain.messages import Message
from crux.errors import StorageFull
from crux.storage.engine import SqliteEngine
from crux.storage.writer import Outcomes


def noted(engine: SqliteEngine) -> list[Sequence[Message[Any]]]:
    """The batches that the engine commits from now on."""
    commit, batches = engine.commit, list[Sequence[Message[Any]]]()

    async def note(commands: Sequence[Message[Any]], now_us: int) -> Outcomes:
        batches.append(commands)
        return await commit(commands, now_us)

    engine.commit = note
    return batches


def kept_back(engine: SqliteEngine, *, lands: bool = True) -> trio.Event:
    """The engine's next commit waits until the event is set; it is then made, or the disk is full."""
    commit, gate = engine.commit, trio.Event()

    async def keep_back(commands: Sequence[Message[Any]], now_us: int) -> Outcomes:
        engine.commit = commit
        await gate.wait()
        return await commit(commands, now_us) if lands else [StorageFull("the disk is full")] * len(commands)

    engine.commit = keep_back
    return gate


@contextmanager
def full_disk(engine: SqliteEngine) -> Iterator[None]:
    """The database can have no more pages, for as long as the context lasts."""
    pages = engine._writer._connection
    (used,) = pages.execute("PRAGMA page_count").fetchone()
    pages.execute(f"PRAGMA max_page_count = {used}")
    yield
    pages.execute("PRAGMA max_page_count = 1000000")
