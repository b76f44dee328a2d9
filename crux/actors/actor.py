"""The two shapes of an actor: one message at a time, or all that waits as one batch."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, TypeVar

import trio

from crux.actors.mailbox import Envelope, Mailbox
from crux.domain.messages import Message
from crux.errors import CruxError

R = TypeVar("R")
Handler = Callable[[Any, Any], R | Awaitable[R]]

_HANDLES = "__crux_handles__"


def handles(message: type[Message[R]]) -> Callable[[Handler[R]], Handler[R]]:
    """Mark a method, plain or async, as the handler of one class of message; it returns what that message replies."""

    def mark(method: Handler[R]) -> Handler[R]:
        setattr(method, _HANDLES, message)
        return method

    return mark


class Actor:
    """Owns some state, and handles one message at a time, to the end.

    A handler's return value is the reply. A `CruxError` that it raises is the asker's to see and changes nothing else;
    any other exception ends the actor, and its supervisor rebuilds it.
    """

    _handlers: ClassVar[dict[type, tuple[Callable[..., Any], bool]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._handlers = cls._handlers | {
            message: (method, inspect.iscoroutinefunction(method))
            for method in vars(cls).values()
            if (message := getattr(method, _HANDLES, None)) is not None
        }

    async def start(self) -> None:
        """Rebuild the state from storage, before the first message and after every restart."""

    async def serve(self, mailbox: Mailbox) -> None:
        """Handle messages until cancelled."""
        handlers = self._handlers
        while True:
            envelope = await mailbox.receive()
            began = trio.current_time()
            handler, is_async = handlers[type(envelope.message)]
            result: Any
            try:
                result = handler(self, envelope.message)
                if is_async:
                    result = await result
            except CruxError as refusal:
                result = refusal
            settle(envelope, result, mailbox)
            mailbox.figures.handling.observe(trio.current_time() - began)


class BatchActor(Actor):
    """Takes all the messages that wait as one batch: the shape of group commit."""

    batch_limit: ClassVar[int] = 256

    async def handle(self, messages: Sequence[Message[Any]]) -> Sequence[object]:
        """One outcome for each message, in order: a reply, a `CruxError` for its asker, or any other exception, which
        ends the actor once the rest is answered."""
        raise NotImplementedError

    async def serve(self, mailbox: Mailbox) -> None:
        """Handle batches until cancelled; while one is under way, the next one gathers in the mailbox."""
        while True:
            envelopes = await mailbox.receive_all(self.batch_limit)
            began = trio.current_time()
            outcomes = await self.handle([envelope.message for envelope in envelopes])
            mailbox.figures.handling.observe(trio.current_time() - began, len(envelopes))
            bugs: list[Exception] = []
            for envelope, result in zip(envelopes, outcomes, strict=True):
                if isinstance(result, Exception) and not isinstance(result, CruxError):
                    bugs.append(result)
                else:
                    settle(envelope, result, mailbox)
            if bugs:
                raise bugs[0]


def settle(envelope: Envelope, result: object, mailbox: Mailbox) -> None:
    """Answer one envelope with its outcome and count it."""
    if isinstance(result, CruxError):
        mailbox.figures.refused += 1
        envelope.fail(result)
    else:
        mailbox.figures.handled += 1
        envelope.reply(result)
