"""The settings of the lean listener: what serves each port, and the bounds that peers are held to."""

from enum import Enum

from attrs import frozen

from crux.config import parsers
from crux.config.declaration import Group, setting


class ServerKind(Enum):
    """What serves a port."""

    WIRE = "wire"
    HYPERCORN = "hypercorn"


def _server(value: str) -> ServerKind:
    return parsers.lookup({kind.value: kind for kind in ServerKind}, value)


@frozen(kw_only=True, slots=False)
class WireSettings:
    """The part of `Settings` that is about `transport/wire`."""

    mcp_server: ServerKind = setting(
        ServerKind.WIRE,
        env="CRUX_MCP_SERVER",
        group=Group.WIRE,
        parse=_server,
        meaning="What serves the MCP port: `wire`, Crux's own lean HTTP/1.1 listener, or `hypercorn`.",
    )
    http_server: ServerKind = setting(
        ServerKind.HYPERCORN,
        env="CRUX_HTTP_SERVER",
        group=Group.WIRE,
        parse=_server,
        meaning="What serves the HTTP API: `hypercorn` (HTTP/2 too) or `wire`. The bounds below are those of `wire`.",
    )
    wire_head_bytes: int = setting(
        32 * 1024,
        env="CRUX_WIRE_MAX_HEADER_BYTES",
        group=Group.WIRE,
        parse=parsers.whole(256),
        meaning="Largest head of a request in bytes, its blank line included; more is answered 431.",
    )
    wire_head_fields: int = setting(
        100,
        env="CRUX_WIRE_MAX_HEADERS",
        group=Group.WIRE,
        parse=parsers.whole(1),
        meaning="Most header fields of a request; more is answered 431.",
    )
    wire_head_s: int = setting(
        10,
        env="CRUX_WIRE_HEADER_TIMEOUT_SECS",
        group=Group.WIRE,
        parse=parsers.whole(1),
        meaning="Seconds that a peer has for its head, from the first byte on.",
    )
    wire_body_grace_s: int = setting(
        10,
        env="CRUX_WIRE_BODY_GRACE_SECS",
        group=Group.WIRE,
        parse=parsers.whole(1),
        meaning="Seconds that a peer may keep a request waiting for its body; sending gives them back (see the rate).",
    )
    wire_body_rate: int = setting(
        1024,
        env="CRUX_WIRE_MIN_BODY_RATE",
        group=Group.WIRE,
        parse=parsers.whole(1),
        meaning="Bytes of body that give back a second of the grace; 1024 is a peer that sends 1 KiB/s for ever.",
    )
    wire_idle_s: int = setting(
        75,
        env="CRUX_WIRE_IDLE_SECS",
        group=Group.WIRE,
        parse=parsers.whole(1),
        meaning="Seconds that a connection may wait between two requests.",
    )
    wire_write_s: int = setting(
        10,
        env="CRUX_WIRE_WRITE_TIMEOUT_SECS",
        group=Group.WIRE,
        parse=parsers.whole(1),
        meaning="Seconds that one send may wait for a peer that reads nothing; then it is cut.",
    )
    wire_connections: int = setting(
        20_000,
        env="CRUX_WIRE_MAX_CONNECTIONS",
        group=Group.WIRE,
        parse=parsers.whole(0),
        meaning="Most connections at a time, event streams among them; more are turned away. 0 sets no limit.",
    )
    wire_connections_per_address: int = setting(
        20_000,
        env="CRUX_WIRE_MAX_CONNECTIONS_PER_ADDRESS",
        group=Group.WIRE,
        parse=parsers.whole(0),
        meaning="Most connections at a time from one address; on loopback all share one. 0 sets no limit.",
    )
