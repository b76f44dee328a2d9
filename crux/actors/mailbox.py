"""A bounded mailbox: the only way to reach an actor's state.

`ask` costs about one trip through the scheduler: the envelope carries the asking task, and the answer wakes it
directly.
"""

from __future__ import annotations

from collections import deque
from typing import Any, TypeVar

import outcome
import trio

from crux.actors.figures import Figures, Report
from crux.domain.messages import Message
from crux.errors import NoAnswer, Overloaded

R = TypeVar("R")

ASK_DEADLINE_S = 30.0
# How often deadlines are looked at: an ask that is late is told so up to this much later.
LOOK_S = 0.25
# How long an actor may go from message to message without letting anybody else run.
TURN_S = 0.005


class Envelope:
    """A message under way, and the task that waits for its answer (None once there is nobody to tell)."""

    __slots__ = ("_asker", "_open", "deadline", "message", "sent_at", "started")

    def __init__(self, message: Message[Any], sent_at: float) -> None:
        self.message = message
        self.sent_at = sent_at
        self.deadline = float("inf")
        self.started = False
        self._asker: trio.lowlevel.Task | None = None
        self._open: set[Envelope] | None = None

    def await_by(self, asker: trio.lowlevel.Task, deadline: float, unanswered: set[Envelope]) -> None:
        """Note who waits, until when, and the set that holds the envelope for as long."""
        self._asker = asker
        self.deadline = deadline
        self._open = unanswered
        unanswered.add(self)

    @property
    def awaited(self) -> bool:
        return self._asker is not None

    def reply(self, value: object) -> None:
        if self._asker is not None:
            self._settle(outcome.Value(value))

    def fail(self, error: Exception) -> None:
        if self._asker is not None:
            self._settle(outcome.Error(error))

    def forsake(self) -> trio.lowlevel.Task | None:
        """Nobody waits any more: the answer, if one still comes, goes nowhere. Who waited until now."""
        asker, self._asker = self._asker, None
        if self._open is not None:
            self._open.discard(self)
        return asker

    def _settle(self, result: outcome.Outcome[object]) -> None:
        asker = self.forsake()
        if asker is not None:
            trio.lowlevel.reschedule(asker, result)


class Mailbox:
    """A queue of at most `capacity` envelopes in front of one actor.

    Any task may `ask` and `tell`; only the actor's own task may `receive`. The mailbox outlives its actor's restarts:
    what waits in it is handled by the rebuilt actor.
    """

    def __init__(self, name: str, capacity: int = 1024, deadline_s: float = ASK_DEADLINE_S) -> None:
        self.name = name
        self.capacity = capacity
        self.deadline_s = deadline_s
        self.figures = Figures()
        self._queue: deque[Envelope] = deque()
        self._in_hand: list[Envelope] = []
        self._unanswered: set[Envelope] = set()
        self._room = trio.lowlevel.ParkingLot()
        self._receiver: trio.lowlevel.Task | None = None
        self._turn_began = 0.0

    async def ask(self, message: Message[R], *, deadline_s: float | None = None) -> R:
        """Send `message` and wait for its reply, at most `deadline_s` seconds (the mailbox's own where None).

        Raises what the handler raised where that is a `CruxError`; `ActorFailed` when the handler crashed; `Overloaded`
        when the actor did not come to the message in time (it will never be handled then); `NoAnswer` when the actor
        was still at work on it. Cancellation withdraws a message whose turn has not come and does not stop one that is
        being handled.
        """
        now = trio.current_time()
        deadline_s = self.deadline_s if deadline_s is None else deadline_s
        if len(self._queue) >= self.capacity:
            await self._wait_for_room(now + deadline_s)
        envelope = Envelope(message, now)
        envelope.await_by(trio.lowlevel.current_task(), now + deadline_s, self._unanswered)
        self._queue.append(envelope)
        self._wake()

        def withdraw(_: object) -> trio.lowlevel.Abort:
            envelope.forsake()
            if not envelope.started:
                self._take_back(envelope)
                self.figures.abandoned += 1
            return trio.lowlevel.Abort.SUCCEEDED

        answer: R = await trio.lowlevel.wait_task_rescheduled(withdraw)
        return answer

    async def keep_time(self) -> None:
        """Answer asks whose deadline has passed, and let what was told be handled, until cancelled. One look at all of
        them costs less than a timer each."""
        while True:
            await trio.sleep(LOOK_S)
            if self._queue:
                self._wake()
            now = trio.current_time()
            for envelope in [late for late in self._unanswered if late.deadline <= now]:
                waited_s = round(now - envelope.sent_at, 1)
                if envelope.started:
                    envelope.fail(
                        NoAnswer(
                            f"{self.name} did not finish within {waited_s:g} s; "
                            "a write may still be kept: read before you retry"
                        )
                    )
                else:
                    self._take_back(envelope)
                    envelope.fail(self._overloaded(waited_s))

    def tell(self, message: Message[Any]) -> bool:
        """Send `message` without waiting; False (and counted) when there is no room. For accounting only."""
        if len(self._queue) >= self.capacity:
            self.figures.dropped += 1
            return False
        self._queue.append(Envelope(message, trio.current_time()))
        self._wake()
        return True

    async def receive(self) -> Envelope:
        """The next envelope, when one is there. Ends the turn of those received before."""
        return (await self.receive_all(1))[0]

    async def receive_all(self, limit: int) -> list[Envelope]:
        """All that waits, at most `limit` envelopes, at least one. Ends the turn of those received before."""
        self._in_hand = []
        if trio.current_time() - self._turn_began > TURN_S:
            await trio.lowlevel.checkpoint()  # an actor with endless mail must not starve the rest of the daemon
            self._turn_began = trio.current_time()
        while not self._queue:
            await self._wait_for_mail()
            self._turn_began = trio.current_time()
        while self._queue and len(self._in_hand) < limit:
            envelope = self._queue.popleft()
            envelope.started = True
            self._in_hand.append(envelope)
            if self._room:
                self._room.unpark()
        return self._in_hand

    def resume(self, envelope: Envelope) -> None:
        """Take an envelope back in hand that an actor kept beyond its turn: what happens now is about it."""
        self._in_hand.append(envelope)

    def fail_in_hand(self, error: Exception) -> None:
        """After a crash: answer with `error` what was in hand and not answered. What was kept beyond its turn waits for
        a new one."""
        for envelope in self._in_hand:
            if envelope.awaited:
                envelope.fail(error)
                self.figures.crashed += 1
        self._in_hand = []
        innocent = [envelope for envelope in self._unanswered if envelope.started]
        for envelope in innocent:
            envelope.started = False
        self._queue.extendleft(innocent)

    def report(self) -> Report:
        """The actor's figures now."""
        f = self.figures
        return Report(
            name=self.name,
            depth=self._depth(),
            capacity=self.capacity,
            oldest_s=trio.current_time() - self._queue[0].sent_at if self._queue else 0.0,
            handled=f.handled,
            refused=f.refused,
            crashed=f.crashed,
            abandoned=f.abandoned,
            dropped=f.dropped,
            overloaded=f.overloaded,
            restarts=f.restarts,
            handling_counts=tuple(f.handling.counts),
            handling_sum_s=f.handling.sum_s,
        )

    def _depth(self) -> int:
        return len(self._queue)

    def _wake(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            trio.lowlevel.reschedule(receiver)

    async def _wait_for_mail(self) -> None:
        self._receiver = trio.lowlevel.current_task()

        def withdraw(_: object) -> trio.lowlevel.Abort:
            self._receiver = None
            return trio.lowlevel.Abort.SUCCEEDED

        await trio.lowlevel.wait_task_rescheduled(withdraw)

    def _take_back(self, envelope: Envelope) -> None:
        self._queue.remove(envelope)
        self._room.unpark()

    async def _wait_for_room(self, deadline: float) -> None:
        began = trio.current_time()
        with trio.CancelScope(deadline=deadline):
            while len(self._queue) >= self.capacity:
                await self._room.park()
            return
        raise self._overloaded(trio.current_time() - began)

    def _overloaded(self, waited_s: float) -> Overloaded:
        self.figures.overloaded += 1
        return Overloaded(f"{self.name} is overloaded: no turn within {waited_s:g} s; nothing was done, try again")
