"""Mailboxes: bounds, deadlines, withdrawal, and what they count."""

import pytest
import trio
import trio.testing

from crux.actors import mailbox as mailbox_module
from crux.actors.actor import Actor, BatchActor, handles
from crux.actors.mailbox import Mailbox
from crux.domain.messages import Message
from crux.errors import Conflict, NoAnswer, Overloaded


class Echo(Message[str]):
    def __init__(self, text: str) -> None:
        self.text = text


class Stall(Message[None]):
    """Handled only once the actor's gate opens."""


class Refuse(Message[None]):
    """Always refused."""


class Echoer(Actor):
    def __init__(self) -> None:
        self.gate = trio.Event()
        self.seen: list[str] = []

    @handles(Echo)
    def echo(self, message: Echo) -> str:
        self.seen.append(message.text)
        return message.text

    @handles(Stall)
    async def stall(self, message: Stall) -> None:
        await self.gate.wait()

    @handles(Refuse)
    def refuse(self, message: Refuse) -> None:
        raise Conflict("no")


async def test_an_ask_returns_the_handler_s_reply(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("echo")
    nursery.start_soon(Echoer().serve, mailbox)
    assert await mailbox.ask(Echo("a")) == "a"
    assert mailbox.report().handled == 1


async def test_a_refusal_reaches_its_asker_and_the_actor_goes_on(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("echo")
    nursery.start_soon(Echoer().serve, mailbox)
    with pytest.raises(Conflict):
        await mailbox.ask(Refuse())
    assert await mailbox.ask(Echo("still here")) == "still here"
    assert mailbox.report().refused == 1


async def test_messages_are_handled_in_the_order_in_which_they_were_sent(nursery: trio.Nursery) -> None:
    mailbox, actor = Mailbox("echo"), Echoer()
    for number in range(100):
        assert mailbox.tell(Echo(str(number)))
    nursery.start_soon(actor.serve, mailbox)
    await mailbox.ask(Echo("last"))
    assert actor.seen == [*map(str, range(100)), "last"]


async def test_an_ask_into_a_full_mailbox_waits_for_room(nursery: trio.Nursery) -> None:
    mailbox, actor = Mailbox("echo", capacity=1), Echoer()
    mailbox.tell(Echo("first"))
    answers: list[str] = []

    async def ask() -> None:
        answers.append(await mailbox.ask(Echo("second")))

    nursery.start_soon(ask)
    await trio.testing.wait_all_tasks_blocked()
    assert mailbox.report().depth == 1
    nursery.start_soon(actor.serve, mailbox)
    await trio.testing.wait_all_tasks_blocked()
    assert answers == ["second"]


async def test_a_full_mailbox_overloads_at_the_deadline_and_the_message_is_never_handled(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    mailbox, actor = Mailbox("echo", capacity=1), Echoer()
    mailbox.tell(Echo("first"))
    began = trio.current_time()
    with pytest.raises(Overloaded) as caught:
        await mailbox.ask(Echo("second"), deadline_s=5)
    assert trio.current_time() - began == pytest.approx(5)
    assert caught.value.retry_after_s == 1
    nursery.start_soon(actor.serve, mailbox)
    await trio.testing.wait_all_tasks_blocked()
    assert actor.seen == ["first"]
    assert mailbox.report().overloaded == 1


async def test_an_ask_whose_turn_does_not_come_in_time_is_withdrawn(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    mailbox, actor = Mailbox("echo"), Echoer()
    nursery.start_soon(mailbox.keep_time)
    with pytest.raises(Overloaded):
        await mailbox.ask(Echo("too late"), deadline_s=1)
    nursery.start_soon(actor.serve, mailbox)
    await trio.testing.wait_all_tasks_blocked()
    assert actor.seen == []
    report = mailbox.report()
    assert (report.depth, report.overloaded, report.abandoned) == (0, 1, 0)


async def test_a_cancelled_ask_gives_its_place_to_one_that_waits_for_room(nursery: trio.Nursery) -> None:
    mailbox, actor = Mailbox("echo", capacity=1), Echoer()
    answers: list[str] = []

    async def ask(text: str, scope: trio.CancelScope) -> None:
        with scope:
            answers.append(await mailbox.ask(Echo(text)))

    first, second = trio.CancelScope(), trio.CancelScope()
    nursery.start_soon(ask, "first", first)
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(ask, "second", second)
    await trio.testing.wait_all_tasks_blocked()
    first.cancel()
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(actor.serve, mailbox)
    await trio.testing.wait_all_tasks_blocked()
    assert (answers, actor.seen, mailbox.report().abandoned) == (["second"], ["second"], 1)


async def test_an_ask_cancelled_while_it_waits_for_room_leaves_nothing_behind(nursery: trio.Nursery) -> None:
    mailbox, actor = Mailbox("echo", capacity=1), Echoer()
    mailbox.tell(Echo("first"))
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.ask(Echo("second"))
    nursery.start_soon(actor.serve, mailbox)
    assert await mailbox.ask(Echo("third")) == "third"
    assert actor.seen == ["first", "third"]


async def test_an_actor_with_endless_mail_lets_others_run(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mailbox_module, "TURN_S", 0.0)
    mailbox, actor = Mailbox("echo"), Echoer()
    for number in range(10):
        mailbox.tell(Echo(str(number)))
    nursery.start_soon(actor.serve, mailbox)
    seen_at_each_turn = []
    while len(actor.seen) < 10:
        await trio.lowlevel.checkpoint()
        seen_at_each_turn.append(len(actor.seen))
    assert len(set(seen_at_each_turn)) > 5


async def test_an_ask_that_is_being_handled_at_its_deadline_has_no_answer(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    mailbox, actor = Mailbox("echo"), Echoer()
    nursery.start_soon(actor.serve, mailbox)
    nursery.start_soon(mailbox.keep_time)
    with pytest.raises(NoAnswer, match="read before you retry"):
        await mailbox.ask(Stall(), deadline_s=1)
    actor.gate.set()
    assert await mailbox.ask(Echo("next")) == "next"


@pytest.mark.parametrize("deadline_s", [1.0, 1.1, 1.25])
async def test_a_late_ask_is_told_at_the_next_look(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery, deadline_s: float
) -> None:
    mailbox = Mailbox("echo")
    nursery.start_soon(mailbox.keep_time)
    began = trio.current_time()
    with pytest.raises(Overloaded):
        await mailbox.ask(Echo("too late"), deadline_s=deadline_s)
    assert deadline_s <= trio.current_time() - began <= deadline_s + mailbox_module.LOOK_S


async def test_an_ask_that_was_answered_in_time_is_never_called_late(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    mailbox, actor = Mailbox("echo"), Echoer()
    nursery.start_soon(mailbox.keep_time)
    nursery.start_soon(actor.serve, mailbox)
    assert await mailbox.ask(Echo("in time"), deadline_s=1) == "in time"
    autojump_clock.jump(10)
    await trio.testing.wait_all_tasks_blocked()
    assert (mailbox.report().overloaded, mailbox._unanswered) == (0, set())


async def test_a_cancelled_ask_is_withdrawn_before_its_turn(nursery: trio.Nursery) -> None:
    mailbox, actor = Mailbox("echo"), Echoer()
    with trio.CancelScope() as scope:
        scope.cancel()
        await mailbox.ask(Echo("never"))
    nursery.start_soon(actor.serve, mailbox)
    await trio.testing.wait_all_tasks_blocked()
    assert actor.seen == []
    assert mailbox.report().abandoned == 1


async def test_a_tell_never_waits_and_a_full_mailbox_drops_it_and_counts() -> None:
    mailbox = Mailbox("echo", capacity=2)
    assert [mailbox.tell(Echo(str(n))) for n in range(4)] == [True, True, False, False]
    assert mailbox.report().dropped == 2
    assert mailbox.report().depth == 2


async def test_the_age_of_the_oldest_message_is_reported(autojump_clock: trio.testing.MockClock) -> None:
    mailbox = Mailbox("echo")
    assert mailbox.report().oldest_s == 0
    mailbox.tell(Echo("waiting"))
    autojump_clock.jump(7)
    assert mailbox.report().oldest_s == pytest.approx(7)


async def test_handling_time_lands_in_its_bucket(autojump_clock: trio.testing.MockClock, nursery: trio.Nursery) -> None:
    mailbox, actor = Mailbox("echo"), Echoer()
    nursery.start_soon(actor.serve, mailbox)

    async def open_later() -> None:
        with trio.move_on_after(0.2):
            await trio.sleep_forever()
        actor.gate.set()

    nursery.start_soon(open_later)
    await mailbox.ask(Stall())
    report = mailbox.report()
    assert report.handling_sum_s == pytest.approx(0.2)
    assert report.handling_counts[10] == 1  # 0.1 s to 0.25 s


class Gatherer(BatchActor):
    """Answers each message of a batch with the batch's size."""

    batch_limit = 3

    async def handle(self, messages):  # type: ignore[no-untyped-def]
        return [Conflict("no") if isinstance(message, Refuse) else str(len(messages)) for message in messages]


async def test_a_batch_takes_all_that_waits_up_to_its_limit(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("gatherer")
    answers: list[str] = []

    async def ask() -> None:
        answers.append(await mailbox.ask(Echo("x")))

    async with trio.open_nursery() as asking:
        for _ in range(5):
            asking.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(Gatherer().serve, mailbox)
    assert sorted(answers) == ["2", "2", "3", "3", "3"]


async def test_one_refusal_in_a_batch_harms_nobody_else(nursery: trio.Nursery) -> None:
    mailbox = Mailbox("gatherer")
    nursery.start_soon(Gatherer().serve, mailbox)
    async with trio.open_nursery() as asking:
        asking.start_soon(mailbox.ask, Echo("x"))
        with pytest.raises(Conflict):
            await mailbox.ask(Refuse())
    assert (mailbox.report().handled, mailbox.report().refused) == (1, 1)
