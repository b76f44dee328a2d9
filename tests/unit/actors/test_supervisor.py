"""Supervision: the asker fails, the actor is rebuilt, others do not notice, and it gives up loudly."""

import pytest
import trio
import trio.testing

from crux.actors.actor import Actor, BatchActor, handles
from crux.actors.mailbox import Mailbox
from crux.actors.supervisor import RestartPolicy, RestartsExhausted, Supervised, start_all, supervise
from crux.domain.messages import Message
from crux.errors import ActorFailed


class Add(Message[int]):
    pass


class Break(Message[None]):
    pass


class Counter(Actor):
    """Counts in `stored`, which stands for storage; its own copy is rebuilt from there."""

    def __init__(self, stored: list[int]) -> None:
        self._stored = stored
        self._count = 0

    async def start(self) -> None:
        self._count = len(self._stored)

    @handles(Add)
    def add(self, message: Add) -> int:
        self._count += 1
        self._stored.append(self._count)
        return self._count

    @handles(Break)
    def fail(self, message: Break) -> None:
        self._count = 1000
        raise ZeroDivisionError("a bug")


async def test_a_crash_fails_its_asker_with_an_id_and_the_state_is_rebuilt(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    mailbox, stored = Mailbox("counter"), list[int]()
    await start_all(nursery, [Supervised(mailbox, lambda: Counter(stored))])
    assert await mailbox.ask(Add()) == 1
    with pytest.raises(ActorFailed, match=r"logged as [0-9a-f]{12}"):
        await mailbox.ask(Break())
    assert await mailbox.ask(Add()) == 2
    report = mailbox.report()
    assert (report.restarts, report.crashed, report.handled) == (1, 1, 2)


async def test_messages_that_wait_during_a_restart_are_handled_after_it(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    mailbox = Mailbox("counter")
    mailbox.tell(Break())
    mailbox.tell(Add())
    await start_all(nursery, [Supervised(mailbox, lambda: Counter([]))])
    assert await mailbox.ask(Add()) == 2


async def test_another_actor_serves_while_one_restarts(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    broken, healthy = Mailbox("broken"), Mailbox("healthy")
    policy = RestartPolicy(backoff_s=10, backoff_cap_s=10)
    await start_all(
        nursery,
        [Supervised(broken, lambda: Counter([])), Supervised(healthy, lambda: Counter([]))],
        policy,
    )
    with pytest.raises(ActorFailed):
        await broken.ask(Break())
    began = trio.current_time()
    assert await healthy.ask(Add()) == 1
    assert trio.current_time() == began


async def test_the_wait_before_a_restart_doubles_up_to_its_cap() -> None:
    policy = RestartPolicy(backoff_s=0.1, backoff_cap_s=0.5)
    assert [policy.wait_s(n) for n in (1, 2, 3, 4)] == pytest.approx([0.1, 0.2, 0.4, 0.5])


async def crash_times(times: int, apart_s: float, policy: RestartPolicy) -> None:
    mailbox = Mailbox("counter")
    async with trio.open_nursery() as nursery:
        await nursery.start(supervise, Supervised(mailbox, lambda: Counter([])), policy)
        for _ in range(times):
            with pytest.raises(ActorFailed):
                await mailbox.ask(Break())
            with trio.move_on_after(apart_s):
                await trio.sleep_forever()
        nursery.cancel_scope.cancel()


async def test_too_many_restarts_in_the_window_end_the_daemon(autojump_clock: trio.testing.MockClock) -> None:
    policy = RestartPolicy(max_restarts=3, window_s=60)
    await crash_times(3, 1, policy)
    with pytest.RaisesGroup(pytest.RaisesExc(RestartsExhausted, match="counter failed 4 times in 60 s")):
        await crash_times(4, 1, policy)


async def test_restarts_that_lie_further_apart_than_the_window_do_not_add_up(
    autojump_clock: trio.testing.MockClock,
) -> None:
    await crash_times(10, 25, RestartPolicy(max_restarts=3, window_s=60))


class Fragile(Actor):
    """Cannot be rebuilt the first `failures` times after its first start."""

    starts = 0

    def __init__(self, failures: int) -> None:
        self._failures = failures

    async def start(self) -> None:
        Fragile.starts += 1
        if 1 < Fragile.starts <= 1 + self._failures:
            raise OSError("storage is away")

    @handles(Break)
    def fail(self, message: Break) -> None:
        raise ZeroDivisionError

    @handles(Add)
    def add(self, message: Add) -> int:
        return 1


async def test_a_rebuild_that_fails_is_tried_again(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fragile, "starts", 0)
    mailbox = Mailbox("fragile")
    await start_all(nursery, [Supervised(mailbox, lambda: Fragile(2))])
    with pytest.raises(ActorFailed):
        await mailbox.ask(Break())
    assert await mailbox.ask(Add()) == 1
    assert Fragile.starts == 4


async def test_an_actor_that_cannot_start_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fragile, "starts", 1)
    with pytest.RaisesGroup(OSError):
        async with trio.open_nursery() as nursery:
            await start_all(nursery, [Supervised(Mailbox("fragile"), lambda: Fragile(1))])


class Batcher(BatchActor):
    async def handle(self, messages):  # type: ignore[no-untyped-def]
        return [ZeroDivisionError("a bug") if isinstance(message, Break) else 1 for message in messages]


async def test_a_bug_in_one_command_of_a_batch_fails_that_asker_alone(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    mailbox = Mailbox("batcher")
    answers: list[int] = []

    async def ask() -> None:
        answers.append(await mailbox.ask(Add()))

    async with trio.open_nursery() as asking:
        asking.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        asking.start_soon(start_all, nursery, [Supervised(mailbox, Batcher)])
        with pytest.raises(ActorFailed):
            await mailbox.ask(Break())
    assert answers == [1]
    assert await mailbox.ask(Add()) == 1
    assert mailbox.report().restarts == 1


class Quitter(Actor):
    async def serve(self, mailbox: Mailbox) -> None:
        await trio.lowlevel.checkpoint()


async def test_an_actor_that_stops_serving_is_restarted_like_one_that_failed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.RaisesGroup(pytest.RaisesExc(RestartsExhausted, match="stopped serving")):
        async with trio.open_nursery() as nursery:
            await start_all(nursery, [Supervised(Mailbox("quitter"), Quitter)], RestartPolicy(max_restarts=2))


async def test_a_crash_gives_what_was_kept_beyond_its_turn_a_new_one(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    mailbox, served = Mailbox("keeper"), list[int]()

    class Once(Counter):
        """Keeps Adds beyond their turn in its first life and answers them in its second."""

        async def serve(self, mailbox: Mailbox) -> None:
            if served:
                await super().serve(mailbox)
            served.append(1)
            for _ in range(2):
                await mailbox.receive()
            mailbox.resume(envelope := await mailbox.receive())
            assert isinstance(envelope.message, Break)
            raise ZeroDivisionError("a bug")

    answers: list[int] = []

    async def add() -> None:
        answers.append(await mailbox.ask(Add()))

    async with trio.open_nursery() as asking:
        asking.start_soon(add)
        asking.start_soon(add)
        await trio.testing.wait_all_tasks_blocked()
        await start_all(nursery, [Supervised(mailbox, lambda: Once([]))])
        with pytest.raises(ActorFailed):
            await mailbox.ask(Break())
    assert sorted(answers) == [1, 2]
    assert mailbox.report().crashed == 1
