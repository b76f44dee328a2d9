"""The bounds that the listener holds its peers to, and what it counts."""

from __future__ import annotations

from attrs import define, frozen

from crux.transport.wire.head import HeadLimits


@frozen
class WireLimits:
    """Bounds of one listener. Times are seconds; 0 is "none" for everything but times.

    `write_s` is how long one send may wait for the peer to read anything at all. `body_grace_s` is how long a peer may
    keep an application waiting for its body; each `body_rate` bytes give back a second of what it used of that.
    """

    head: HeadLimits = HeadLimits()
    body_bytes: int = 16 * 1024 * 1024
    head_s: float = 10.0
    body_grace_s: float = 10.0
    body_rate: int = 1024
    idle_s: float = 75.0
    write_s: float = 10.0
    connections: int = 20_000
    connections_per_address: int = 20_000
    inflight: int = 1024


@define
class WireCounts:
    """What happened on one listener since it started; `connections`, `inflight` and `streams` are what is now."""

    accepted: int = 0
    connections: int = 0
    inflight: int = 0
    streams: int = 0
    refused_connections: int = 0
    refused_addresses: int = 0
    refused_inflight: int = 0
    large_heads: int = 0
    large_bodies: int = 0
    bad_requests: int = 0
    late_heads: int = 0
    late_bodies: int = 0
    idle_closed: int = 0
    stuck_writes: int = 0
    accept_failures: int = 0
    app_failures: int = 0

    def refuse(self, status: int) -> None:
        """Count a request that is refused with `status`."""
        match status:
            case 413:
                self.large_bodies += 1
            case 431:
                self.large_heads += 1
            case 503:
                self.refused_inflight += 1
            case _:
                self.bad_requests += 1
