"""The shape of an actor that keeps accounts: told of every call, and asked now and then."""

from __future__ import annotations

from typing import Any

import trio

from crux.actors.actor import BatchActor, settle
from crux.actors.mailbox import ASK_DEADLINE_S, Envelope, Mailbox, R
from crux.domain.messages import Message
from crux.errors import CruxError

# How many messages are told before the actor is woken for them.
GATHERED = 64


class Told(Message[None]):
    """Messages that were told one after the other and wait as one."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages: list[Message[Any]] = []


class GatheringMailbox(Mailbox):
    """A mailbox in which what is told gathers: `gather` messages wake the actor, and fewer wait for an ask, or
    `LOOK_S` at most. Telling is on the way of every call, and so costs no more than a list's `append`.
    """

    def __init__(
        self, name: str, capacity: int = 1024, deadline_s: float = ASK_DEADLINE_S, *, gather: int = GATHERED
    ) -> None:
        super().__init__(name, capacity, deadline_s)
        self._gather = min(gather, capacity)
        self._waiting = 0
        self._open: Told | None = None

    async def ask(self, message: Message[R], *, deadline_s: float | None = None) -> R:
        """As in any mailbox; what was told before is handled first, and what is told from here on after it."""
        self._open = None
        return await super().ask(message, deadline_s=deadline_s)

    def tell(self, message: Message[Any]) -> bool:
        if self._waiting >= self.capacity:
            self.figures.dropped += 1
            return False
        told = self._open
        if told is None:
            told = self._open = Told()
            self._queue.append(Envelope(told, trio.current_time()))
        told.messages.append(message)
        self._waiting += 1
        if len(told.messages) >= self._gather:
            self._open = None
            self._wake()
        return True

    async def receive_all(self, limit: int) -> list[Envelope]:
        envelopes = await super().receive_all(limit)
        self._open = None
        self._waiting -= sum(len(told.messages) for told in _told_in(envelopes))
        return envelopes

    def _depth(self) -> int:
        return self._waiting + sum(envelope.awaited for envelope in self._queue)


def _told_in(envelopes: list[Envelope]) -> list[Told]:
    return [envelope.message for envelope in envelopes if isinstance(envelope.message, Told)]


class Accountant(BatchActor):
    """Handles each message by its own handler, none of which may wait. A bug ends the actor once the rest is
    handled."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if any(is_async for _, is_async in cls._handlers.values()):
            raise TypeError(f"a handler of {cls.__name__} may not wait")

    async def serve(self, mailbox: Mailbox) -> None:
        handlers = self._handlers
        while True:
            envelopes = await mailbox.receive_all(self.batch_limit)
            began, handled = trio.current_time(), 0
            bugs: list[Exception] = []
            for envelope in envelopes:
                message = envelope.message
                several = message.messages if isinstance(message, Told) else (message,)
                reply: object = None
                for one in several:
                    try:
                        reply = handlers[type(one)][0](self, one)
                    except CruxError as refusal:
                        reply = refusal
                    except Exception as bug:
                        bugs.append(bug)
                        break
                else:
                    settle(envelope, reply, mailbox)
                handled += len(several)
            mailbox.figures.handled += handled - len(envelopes)  # `settle` counts envelopes
            mailbox.figures.handling.observe(trio.current_time() - began, handled)
            if bugs:
                raise bugs[0]
