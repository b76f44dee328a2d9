"""What a connection is at, why one is ended, and what all of a listener's connections share."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

import trio
from attrs import define, field

from crux.transport.asgi import App
from crux.transport.wire.limits import WireCounts, WireLimits

NEVER = float("inf")

Address = tuple[str, int] | None

# What a channel raises when its peer is gone.
LEFT = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)


class Doing(Enum):
    """What a connection is at."""

    IDLE = auto()  # between two requests
    HEAD = auto()  # a request's head has begun to come
    ANSWERING = auto()  # the application works on an answer, whose length is known when it is sent
    STREAMING = auto()  # it sends one of no known length
    FEEDING = auto()  # it sends events, and each may be the last
    CLOSING = auto()  # the last word is out

    @property
    def open_ended(self) -> bool:
        """Whether the answer may go on for as long as the peer is there."""
        return self is Doing.STREAMING or self is Doing.FEEDING


class Ended(Enum):
    """Why a connection was ended from outside its task."""

    LATE = auto()
    GONE = auto()
    DRAINED = auto()
    CUT = auto()


@define(eq=False)
class Place:
    """What the connections of one listener share."""

    app: App
    limits: WireLimits
    nursery: trio.Nursery
    scheme: str = "http"
    server: tuple[str, int | None] | None = None
    counts: WireCounts = field(factory=WireCounts)
    stamp: bytes = b""
    draining: bool = False
    state: dict[str, Any] = field(factory=dict)
