"""Recall: cheap reads at once, slow ones apart, and not too many of those."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import trio
import trio.testing

from crux.actors import recall
from crux.actors.mailbox import Mailbox
from crux.actors.recall import SLOW_READS, Recall
from crux.actors.supervisor import Supervised, start_all
from crux.domain.commands import CountRecalls, FactById, Found, Head, Search
from crux.domain.facts import Fact, Recalls
from crux.domain.messages import Message
from crux.domain.privacy import ANONYMOUS
from crux.errors import ActorFailed, Overloaded, StorageUnavailable
from crux.storage.readers import ReadTooLong

FACT = Fact("f_1", "default", "a", "k", "v", 1, 0, 1)


class Engine:
    """Reads by id are cheap. Reads of a head are slow: each waits for its gate."""

    def __init__(self) -> None:
        self.gate = trio.Event()
        self.started = 0
        self.recalls: Mapping[str, Recalls] = {}

    def read_now(self, message: Message[Any]) -> object:
        if isinstance(message, Search):
            self.recalls = message.recalls
            if message.words:
                raise ReadTooLong
            return Found((FACT,), 1, 0)
        if isinstance(message, Head):
            raise ReadTooLong
        assert isinstance(message, FactById)
        if message.fact_id == "unreadable":
            raise StorageUnavailable("the disk is away")
        return message.fact_id

    async def read_apart(self, message: Message[Any], deadline_s: float, wanted: Callable[[], bool]) -> object:
        if isinstance(message, Search):
            self.recalls = message.recalls
            await trio.lowlevel.checkpoint()
            return Found((FACT,), 1, 0)
        assert isinstance(message, Head)
        self.started += 1
        if message.key == "bug":
            raise ZeroDivisionError("a bug")
        if message.key == "refused":
            raise Overloaded("too slow")
        await self.gate.wait()
        return message.key

    async def commit(self, commands: Sequence[Message[Any]], now_us: int) -> list[object]:
        raise AssertionError("Recall writes nothing")

    def problem(self) -> str | None:
        return None

    def free_bytes(self) -> int:
        return 0

    def sizes(self) -> Mapping[str, int]:
        return {}

    def close(self) -> None:
        """Nothing to close."""


@pytest.fixture
async def engine() -> Engine:
    return Engine()


@pytest.fixture
async def mailbox(engine: Engine, nursery: trio.Nursery) -> Mailbox:
    box = Mailbox("recall")
    await start_all(nursery, [Supervised(box, lambda: Recall(engine))])
    return box


async def test_cheap_reads_are_answered_while_slow_ones_are_under_way(
    engine: Engine, mailbox: Mailbox, nursery: trio.Nursery
) -> None:
    answers: list[object] = []

    async def ask_slowly() -> None:
        answers.append(await mailbox.ask(Head("e", "slow")))

    nursery.start_soon(ask_slowly)
    await trio.testing.wait_all_tasks_blocked()
    assert await mailbox.ask(FactById("quick")) == "quick"  # type: ignore[comparison-overlap]
    assert answers == []
    engine.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert answers == ["slow"]


async def test_a_refusal_reaches_its_asker_from_either_way(mailbox: Mailbox) -> None:
    with pytest.raises(StorageUnavailable):
        await mailbox.ask(FactById("unreadable"))
    with pytest.raises(Overloaded):
        await mailbox.ask(Head("e", "refused"))
    assert mailbox.report().refused == 2
    assert mailbox.report().restarts == 0


async def test_so_many_slow_reads_and_no_more_are_under_way(
    engine: Engine, mailbox: Mailbox, nursery: trio.Nursery
) -> None:
    for _ in range(SLOW_READS):
        nursery.start_soon(mailbox.ask, Head("e", "slow"))
    await trio.testing.wait_all_tasks_blocked()
    assert engine.started == SLOW_READS
    with pytest.raises(Overloaded, match="slow searches"):
        await mailbox.ask(Head("e", "one more"))
    engine.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert await mailbox.ask(Head("e", "now")) == "now"  # type: ignore[comparison-overlap]


async def test_a_bug_in_one_slow_read_gives_the_others_a_new_turn(
    engine: Engine, mailbox: Mailbox, autojump_clock: trio.testing.MockClock
) -> None:
    answers: list[object] = []

    async def ask(key: str) -> None:
        answers.append(await mailbox.ask(Head("e", key)))

    async with trio.open_nursery() as asking:
        asking.start_soon(ask, "one")
        asking.start_soon(ask, "two")
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(ActorFailed):
            await mailbox.ask(Head("e", "bug"))
        engine.gate.set()
    assert sorted(map(str, answers)) == ["one", "two"]
    assert (mailbox.report().crashed, mailbox.report().restarts) == (1, 1)


@pytest.mark.parametrize("words", [(), ("slow",)])
async def test_recalls_that_are_told_come_with_what_is_found_and_stretch_horizons(
    engine: Engine, mailbox: Mailbox, words: tuple[str, ...]
) -> None:
    search = Search(viewer=ANONYMOUS, now_us=0, words=words)
    assert (await mailbox.ask(search)).facts == (FACT,)
    mailbox.tell(CountRecalls(("f_1", "f_2"), 7))
    mailbox.tell(CountRecalls(("f_1",), 8))
    (fact,) = (await mailbox.ask(search)).facts
    assert fact.recalls == Recalls(2, 8)
    assert engine.recalls == {"f_1": Recalls(2, 8), "f_2": Recalls(1, 7)}


async def test_what_another_thread_looks_at_does_not_change_under_it(engine: Engine, mailbox: Mailbox) -> None:
    mailbox.tell(CountRecalls(("f_1",), 7))
    await mailbox.ask(Search(viewer=ANONYMOUS, now_us=0, words=("slow",)))
    seen = engine.recalls
    mailbox.tell(CountRecalls(("f_1",), 8))
    await mailbox.ask(FactById("f"))
    assert seen == {"f_1": Recalls(1, 7)}


async def test_only_the_facts_recalled_last_are_remembered(
    engine: Engine, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "MOST_RECALLED", 2)
    for fact_id in ("f_1", "f_2", "f_1", "f_3"):
        mailbox.tell(CountRecalls((fact_id,), 7))
    await mailbox.ask(Search(viewer=ANONYMOUS, now_us=0))
    assert engine.recalls == {"f_1": Recalls(2, 7), "f_3": Recalls(1, 7)}
