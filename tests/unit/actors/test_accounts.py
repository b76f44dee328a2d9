"""Accounts: what is told gathers, is handled as one batch in order, and is bounded."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from attrs import frozen

from crux.actors.accounts import Accountant, GatheringMailbox
from crux.actors.actor import handles
from crux.actors.mailbox import LOOK_S
from crux.actors.supervisor import RestartPolicy, Supervised, start_all
from crux.domain.messages import Message
from crux.errors import ActorFailed, Conflict


@frozen
class Note(Message[None]):
    """A number to write down; a negative one is a bug."""

    number: int


@frozen
class Read(Message[tuple[int, ...]]):
    """All numbers, in the order in which they were handled."""


@frozen
class Refuse(Message[None]):
    """Always refused."""


class Notebook(Accountant):
    def __init__(self, written: list[int]) -> None:
        self._written = written

    @handles(Note)
    def note(self, m: Note) -> None:
        if m.number < 0:
            raise ZeroDivisionError("a bug")
        self._written.append(m.number)

    @handles(Read)
    def read(self, m: Read) -> tuple[int, ...]:
        return tuple(self._written)

    @handles(Refuse)
    def refuse(self, m: Refuse) -> None:
        raise Conflict("no")


@pytest.fixture
async def written() -> list[int]:
    return []


@pytest.fixture
async def mailbox(
    nursery: trio.Nursery, written: list[int], autojump_clock: trio.testing.MockClock
) -> GatheringMailbox:
    """A mailbox that gathers three messages and holds six, and its actor, waiting."""
    box = GatheringMailbox("notebook", 6, gather=3)
    await start_all(nursery, [Supervised(box, lambda: Notebook(written))], RestartPolicy())
    await trio.testing.wait_all_tasks_blocked()
    return box


def tell(mailbox: GatheringMailbox, *numbers: int) -> list[bool]:
    return [mailbox.tell(Note(number)) for number in numbers]


async def test_what_is_told_wakes_the_actor_once_enough_of_it_is_there(
    mailbox: GatheringMailbox, written: list[int]
) -> None:
    assert tell(mailbox, 1, 2) == [True, True]
    await trio.lowlevel.checkpoint()
    assert (written, mailbox.report().depth) == ([], 2)
    tell(mailbox, 3)
    await trio.testing.wait_all_tasks_blocked()
    assert written == [1, 2, 3]
    assert (mailbox.report().depth, mailbox.report().handled) == (0, 3)
    assert sum(mailbox.report().handling_counts) == 3


async def test_an_ask_finds_what_was_told_before_it_and_not_what_is_told_after(
    nursery: trio.Nursery, written: list[int]
) -> None:
    box = GatheringMailbox("notebook", 6, gather=3)
    read: list[tuple[int, ...]] = []

    async def ask() -> None:
        read.append(await box.ask(Read()))

    tell(box, 1, 2)
    nursery.start_soon(ask)
    await trio.testing.wait_all_tasks_blocked()
    tell(box, 3)
    nursery.start_soon(Notebook(written).serve, box)
    await trio.testing.wait_all_tasks_blocked()
    assert (read, written) == ([(1, 2)], [1, 2, 3])


async def test_a_few_told_messages_wait_for_the_next_look_and_no_longer(
    mailbox: GatheringMailbox, written: list[int]
) -> None:
    await trio.sleep(LOOK_S / 2)
    tell(mailbox, 1)
    await trio.sleep(LOOK_S / 4)
    assert written == []
    await trio.sleep(LOOK_S / 2)
    assert written == [1]


async def test_a_mailbox_holds_so_many_told_messages_and_no_more(mailbox: GatheringMailbox, written: list[int]) -> None:
    assert tell(mailbox, *range(7)) == [True] * 6 + [False]
    assert (mailbox.report().depth, mailbox.report().dropped) == (6, 1)
    await trio.testing.wait_all_tasks_blocked()
    assert written == list(range(6))
    assert tell(mailbox, 7) == [True]


@pytest.mark.parametrize("capacity", [1, 2, 3])
async def test_a_mailbox_never_waits_for_more_than_it_can_hold(
    nursery: trio.Nursery, written: list[int], capacity: int
) -> None:
    box = GatheringMailbox("notebook", capacity)
    nursery.start_soon(Notebook(written).serve, box)
    await trio.testing.wait_all_tasks_blocked()
    assert tell(box, *range(capacity + 1)) == [True] * capacity + [False]
    await trio.testing.wait_all_tasks_blocked()
    assert written == list(range(capacity))


async def test_a_bug_ends_the_actor_and_harms_no_asker_of_the_same_batch(
    mailbox: GatheringMailbox, nursery: trio.Nursery, written: list[int]
) -> None:
    tell(mailbox, 1, -1)
    assert await mailbox.ask(Read()) == (1,)
    await trio.sleep(1)
    assert mailbox.report().restarts == 1
    with pytest.raises(ActorFailed):
        await mailbox.ask(Note(-1))
    assert await mailbox.ask(Read()) == (1,)


async def test_a_refusal_is_its_asker_s_to_see(mailbox: GatheringMailbox) -> None:
    with pytest.raises(Conflict):
        await mailbox.ask(Refuse())
    assert (mailbox.report().refused, mailbox.report().restarts) == (1, 0)


def test_an_accountant_s_handlers_may_not_wait() -> None:
    with pytest.raises(TypeError, match="Waiter may not wait"):

        class Waiter(Accountant):
            @handles(Note)
            async def note(self, m: Note) -> None:
                """Never called."""
