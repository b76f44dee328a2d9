"""The SDKs that the story is told with."""

from __future__ import annotations

import sys

from attrs import frozen

from tests.clients.client import Connect, ConnectBridge
from tests.clients.python import fast, fast_bridge, official, official_bridge
from tests.clients.typescript import typescript, typescript_bridge


@frozen
class Kind:
    """One SDK: how it connects, what it tries before it falls back to `initialize`, and when it gives up its stream."""

    name: str
    connect: Connect
    connect_bridge: ConnectBridge
    probes: tuple[str, ...] = ()
    most_breaks: int = sys.maxsize
    """After how many broken streams of a session it opens none any more; those that the server ends do not count."""


KINDS = (
    Kind("python", official, official_bridge, probes=("server/discover",), most_breaks=2),
    Kind("fastmcp", fast, fast_bridge, probes=("server/discover",), most_breaks=2),
    Kind("typescript", typescript, typescript_bridge),
)
