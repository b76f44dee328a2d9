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


class Doing(Enum):
    """What a connection is at; a deadline bounds all but the last two, where a send has one of its own."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()
    WRITING = auto()
    CLOSING = auto()
    ANSWERING = auto()
    STREAMING = auto()


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
    server: Address = None
    counts: WireCounts = field(factory=WireCounts)
    stamp: bytes = b""
    draining: bool = False
    state: dict[str, Any] = field(factory=dict)
