"""The mailbox section: asking an actor, against the least that trio offers for the same thing, in one process."""

from collections.abc import Awaitable, Callable
from functools import partial
from time import perf_counter

import trio
from attrs import frozen

from bench.failure import BenchFailed
from bench.measure import Contender, Round, Row, alternate, rows_of
from bench.settings import MAILBOX_NAMES, MAILBOX_REFERENCE, Settings
from crux.actors.actor import Actor, handles
from crux.actors.mailbox import Mailbox
from crux.actors.supervisor import Supervised, start_all
from crux.domain.messages import Message

TARGET_COST = 1.5
"""An ask may cost at most this many round trips through a bare channel."""

_BATCH = 500
_CAPACITY = 1_024


@frozen
class Ping(Message[int]):
    """Asks for its number back."""

    number: int


class Echo(Actor):
    """Answers each `Ping` with its number: an actor whose own work is next to nothing."""

    @handles(Ping)
    def ping(self, message: Ping) -> int:
        return message.number


class Request:
    """The bare side's envelope: a number, and an event that says its reply is there."""

    __slots__ = ("answered", "number", "reply")

    def __init__(self, number: int) -> None:
        self.number = number
        self.reply = -1
        self.answered = trio.Event()


async def mailbox_rows(settings: Settings, tell: Callable[[str], None]) -> list[Row]:
    """Measure round trips one after the other, both kinds in turns; raises `BenchFailed` for a wrong reply."""
    names = settings.chosen(MAILBOX_NAMES)
    if not names:
        return []
    mailbox = Mailbox("echo", _CAPACITY)
    send, receive = trio.open_memory_channel[Request](_CAPACITY)

    async def through_channel(number: int) -> int:
        request = Request(number)
        await send.send(request)
        await request.answered.wait()
        return request.reply

    async def through_mailbox(number: int) -> int:
        return await mailbox.ask(Ping(number))

    trips = {
        "channel": ("bare trio channel and event", through_channel),
        "ask": ("Crux: ask an actor", through_mailbox),
    }
    contenders = [
        Contender(name, title, partial(_measure, trip, settings))
        for name, (title, trip) in trips.items()
        if name in names
    ]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_answer_all, receive)
        await start_all(nursery, [Supervised(mailbox, Echo)])
        measured = await alternate(contenders, settings.rounds, tell)
        nursery.cancel_scope.cancel()
    return rows_of("mailbox", MAILBOX_REFERENCE, contenders, measured)


async def _answer_all(requests: trio.MemoryReceiveChannel[Request]) -> None:
    async for request in requests:
        request.reply = request.number
        request.answered.set()


async def _measure(trip: Callable[[int], Awaitable[int]], settings: Settings) -> Round:
    await _trips(trip, settings.warmup_s)
    count, elapsed_s = await _trips(trip, settings.seconds)
    return Round(rate=count / elapsed_s)


async def _trips(trip: Callable[[int], Awaitable[int]], seconds: float) -> tuple[int, float]:
    """Make round trips for about `seconds`: how many, and how long they took."""
    count = 0
    began = now = perf_counter()
    while now < began + seconds:
        for number in range(_BATCH):
            if await trip(number) != number:
                raise BenchFailed("a reply went to the wrong asker")
        count += _BATCH
        now = perf_counter()
    return count, now - began
