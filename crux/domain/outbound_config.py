"""What the environment says about extensions, read anew for each call (design Decision 24)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen

from crux.domain.addresses import PRIVATE_HOSTS
from crux.domain.manifest_rules import ALLOW_UNSIGNED

ALLOW_PLAIN_HTTP: Final = "CORECRUXD_EXTENSIONS_ALLOW_PLAIN_HTTP"

_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_UNSIGNED = re.compile(r"\+?[0-9]+", re.ASCII)
_MOST_UNSIGNED: Final = 2**64 - 1


@frozen(kw_only=True)
class OutboundConfig:
    """The daemon's own bounds of a call, and what it allows. A bound of 0 lets nothing through: no time, no byte, no
    call."""

    timeout_s: int = 5
    max_request_bytes: int = 262_144
    max_response_bytes: int = 262_144
    default_rate_per_min: int = 10
    allow_plain_http: bool = False
    allow_unsigned: bool = False
    private_hosts: frozenset[str] = frozenset()

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> OutboundConfig:
        """What the environment asks for; a value that is malformed counts as unset (seed 002 section 5.3)."""
        given = {name: knob.read(environ.get(knob.env, "")) for name, knob in KNOBS.items()}
        return cls(**{name: value for name, value in given.items() if value is not None})


def _unsigned(text: str) -> int | None:
    """The number, as Rust reads a `u64`; None for what it does not read."""
    if _UNSIGNED.fullmatch(text) is None:
        return None
    digits = text.lstrip("+").lstrip("0") or "0"
    # Python refuses to read numbers of thousands of digits.
    value = int(digits) if len(digits) <= 20 else _MOST_UNSIGNED + 1
    return value if value <= _MOST_UNSIGNED else None


def _switch(text: str) -> bool:
    return text.strip().lower() in _TRUE


def _hosts(text: str) -> frozenset[str]:
    return frozenset(host.strip().lower() for host in text.split(",") if host.strip())


@frozen
class Knob:
    """One variable: `read` gives None for a value that is malformed."""

    env: str
    read: Callable[[str], Any]
    meaning: str


# By the member of `OutboundConfig` that it is for.
KNOBS: Final[Mapping[str, Knob]] = {
    "timeout_s": Knob(
        "CORECRUXD_EXTENSIONS_TIMEOUT_SECONDS",
        _unsigned,
        "Seconds for a whole call: resolving, connecting, TLS, sending and reading. Over HTTP never more than "
        "`CORECRUXD_REQUEST_TIMEOUT_SECS`.",
    ),
    "max_request_bytes": Knob(
        "CORECRUXD_EXTENSIONS_MAX_REQUEST_BYTES",
        _unsigned,
        "Largest request in bytes, with all that is around the arguments.",
    ),
    "max_response_bytes": Knob(
        "CORECRUXD_EXTENSIONS_MAX_RESPONSE_BYTES",
        _unsigned,
        "Largest answer in bytes; a manifest can only lower it.",
    ),
    "default_rate_per_min": Knob(
        "CORECRUXD_EXTENSIONS_DEFAULT_RATE_PER_MIN",
        _unsigned,
        "Calls a minute of one passport to one extension, for grants without a rate.",
    ),
    "allow_plain_http": Knob(
        ALLOW_PLAIN_HTTP, _switch, "Whether endpoints may be called without TLS, for development."
    ),
    "allow_unsigned": Knob(
        ALLOW_UNSIGNED, _switch, "Whether manifests without a signature may be installed, for development."
    ),
    "private_hosts": Knob(
        PRIVATE_HOSTS,
        _hosts,
        "Names (comma list) that may lead to loopback and private addresses; `*` is every name.",
    ),
}
