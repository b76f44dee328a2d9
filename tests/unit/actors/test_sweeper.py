"""The Sweeper: sweeps in portions, again and again, also after a failure."""

import trio
from trio.testing import MockClock

from crux.actors.mailbox import Mailbox
from crux.actors.sweeper import SWEEP_EVERY_S, SWEPT_AT_ONCE, Sweeper
from crux.domain.artefacts import SweepArtefacts
from crux.errors import StorageFull


async def test_a_full_portion_is_followed_by_the_next_and_a_failure_by_another_try(autojump_clock: MockClock) -> None:
    facts, asked = Mailbox("facts"), list[float]()
    replies = iter([SWEPT_AT_ONCE, SWEPT_AT_ONCE, 3, StorageFull("the disk is full"), 0])
    began = trio.current_time()

    async def store() -> None:
        while True:
            envelope = await facts.receive()
            assert envelope.message == SweepArtefacts(SWEPT_AT_ONCE)
            asked.append(trio.current_time() - began)
            match next(replies):
                case StorageFull() as failure:
                    envelope.fail(failure)
                case removed:
                    envelope.reply(removed)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(facts.keep_time)
        nursery.start_soon(store)
        nursery.start_soon(Sweeper(facts).serve, Mailbox("sweeper"))
        await trio.sleep(2.5 * SWEEP_EVERY_S)
        nursery.cancel_scope.cancel()
    assert asked == [0, 0, 0, SWEEP_EVERY_S, 2 * SWEEP_EVERY_S]
