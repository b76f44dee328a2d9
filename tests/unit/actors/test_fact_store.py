"""The FactStore: batches, and what it knows of whether writing works."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import trio
import trio.testing

from crux.actors.facts import PROBE_AGE_S, SPARE_BYTES, FactStore
from crux.actors.mailbox import Mailbox
from crux.domain.commands import CheckReadiness, Probe
from crux.domain.messages import Message
from crux.errors import StorageFull, StorageUnavailable


class Write(Message[str]):
    pass


class Engine:
    """Takes what it is given, until `full` says otherwise; notes each batch."""

    def __init__(self) -> None:
        self.batches: list[list[type]] = []
        self.full = False
        self.free = SPARE_BYTES
        self.gone: str | None = None
        self.gate: trio.Event | None = None

    async def commit(self, commands: Sequence[Message[Any]], now_us: int) -> list[object]:
        self.batches.append([type(command) for command in commands])
        if self.gate is not None:
            await self.gate.wait()
        return [StorageFull("full") if self.full else None for _ in commands]

    def read_now(self, message: Message[Any]) -> object:
        raise AssertionError("the FactStore reads nothing")

    async def read_apart(self, message: Message[Any], deadline_s: float, wanted: Callable[[], bool]) -> object:
        raise AssertionError("the FactStore reads nothing")

    def problem(self) -> str | None:
        return self.gone

    def free_bytes(self) -> int:
        return self.free

    def sizes(self) -> Mapping[str, int]:
        return {}

    def close(self) -> None:
        """Nothing to close."""


class StoppedClock:
    def now_us(self) -> int:
        return 1


@pytest.fixture
async def engine() -> Engine:
    return Engine()


@pytest.fixture
async def mailbox(engine: Engine, nursery: trio.Nursery, autojump_clock: trio.testing.MockClock) -> Mailbox:
    box = Mailbox("facts")
    nursery.start_soon(FactStore(engine, StoppedClock()).serve, box)
    return box


async def test_what_waits_while_one_batch_commits_is_the_next_batch(
    engine: Engine, mailbox: Mailbox, nursery: trio.Nursery
) -> None:
    engine.gate = trio.Event()
    for _ in range(10):
        nursery.start_soon(mailbox.ask, Write())
        await trio.testing.wait_all_tasks_blocked()
    engine.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert [len(batch) for batch in engine.batches] == [1, 9]


async def test_a_batch_has_a_limit(engine: Engine, mailbox: Mailbox, nursery: trio.Nursery) -> None:
    engine.gate = trio.Event()
    nursery.start_soon(mailbox.ask, Write())
    await trio.testing.wait_all_tasks_blocked()
    for _ in range(FactStore.batch_limit + 1):
        nursery.start_soon(mailbox.ask, Write())
    await trio.testing.wait_all_tasks_blocked()
    engine.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert [len(batch) for batch in engine.batches] == [1, FactStore.batch_limit, 1]


async def test_a_recent_write_says_that_writing_works(
    engine: Engine, mailbox: Mailbox, autojump_clock: trio.testing.MockClock
) -> None:
    await mailbox.ask(Write())
    autojump_clock.jump(PROBE_AGE_S)
    assert (await mailbox.ask(CheckReadiness())).problems == ()
    assert engine.batches == [[Write]]
    autojump_clock.jump(0.1)
    assert (await mailbox.ask(CheckReadiness())).problems == ()
    assert engine.batches == [[Write], [Probe]]


async def test_after_a_refused_write_each_check_tries_one_until_it_succeeds(engine: Engine, mailbox: Mailbox) -> None:
    engine.full = True
    with pytest.raises(StorageFull):
        await mailbox.ask(Write())
    assert (await mailbox.ask(CheckReadiness())).problems == (("storage_writes", "full"),)
    assert (await mailbox.ask(CheckReadiness())).problems == (("storage_writes", "full"),)
    engine.full = False
    assert (await mailbox.ask(CheckReadiness())).problems == ()
    assert engine.batches == [[Write], [Probe], [Probe], [Probe]]


@pytest.mark.parametrize(("free", "ready"), [(SPARE_BYTES, True), (SPARE_BYTES - 1, False)])
async def test_room_must_be_to_spare(engine: Engine, mailbox: Mailbox, free: int, ready: bool) -> None:
    engine.free = free
    problems = (await mailbox.ask(CheckReadiness())).problems
    assert [name for name, _ in problems] == ([] if ready else ["data_dir_capacity"])


async def test_where_the_data_is_gone_nothing_is_acknowledged(engine: Engine, mailbox: Mailbox) -> None:
    engine.gone = "the file is gone"
    with pytest.raises(StorageUnavailable, match="gone"):
        await mailbox.ask(Write())
    assert (await mailbox.ask(CheckReadiness())).problems == (("data_dir", "the file is gone"),)
    assert engine.batches == []
    engine.gone = None
    assert (await mailbox.ask(CheckReadiness())).problems == ()
