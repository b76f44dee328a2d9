"""What crosses a mailbox: immutable messages, each naming the type of its reply."""

from typing import Generic, TypeVar

Reply_co = TypeVar("Reply_co", covariant=True)


class Message(Generic[Reply_co]):
    """A request to an actor. `class Find(Message[Found])` lets a type checker see that asking `Find` returns
    `Found`."""

    __slots__ = ()
