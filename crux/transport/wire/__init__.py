"""A lean HTTP/1.1 listener on trio for ASGI applications: a core without I/O, and a shell around it."""

from crux.transport.wire.head import HeadLimits
from crux.transport.wire.limits import WireCounts, WireLimits
from crux.transport.wire.server import WireServer

__all__ = ["HeadLimits", "WireCounts", "WireLimits", "WireServer"]
