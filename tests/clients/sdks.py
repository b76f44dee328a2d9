"""The SDKs that the story is told with."""

from __future__ import annotations

from attrs import frozen

from tests.clients.client import Connect
from tests.clients.python import fast, official
from tests.clients.typescript import typescript


@frozen
class Kind:
    """One SDK: how it connects, and what it tries before it falls back to `initialize`."""

    name: str
    connect: Connect
    probes: tuple[str, ...] = ()


KINDS = (
    Kind("python", official, probes=("server/discover",)),
    Kind("fastmcp", fast, probes=("server/discover",)),
    Kind("typescript", typescript),
)
