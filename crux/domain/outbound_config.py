"""What the environment says about extensions, read anew for each call (design Decision 24)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen

from crux.domain.addresses import PRIVATE_HOSTS
from crux.domain.manifest_rules import ALLOW_UNSIGNED

ALLOW_PLAIN_HTTP: Final = "CORECRUXD_EXTENSIONS_ALLOW_PLAIN_HTTP"

# The variable of each member of `OutboundConfig`.
VARIABLES: Final[Mapping[str, str]] = {
    "timeout_s": "CORECRUXD_EXTENSIONS_TIMEOUT_SECONDS",
    "max_request_bytes": "CORECRUXD_EXTENSIONS_MAX_REQUEST_BYTES",
    "max_response_bytes": "CORECRUXD_EXTENSIONS_MAX_RESPONSE_BYTES",
    "default_rate_per_min": "CORECRUXD_EXTENSIONS_DEFAULT_RATE_PER_MIN",
    "allow_plain_http": ALLOW_PLAIN_HTTP,
    "allow_unsigned": ALLOW_UNSIGNED,
    "private_hosts": PRIVATE_HOSTS,
}

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
        given = {name: read(environ.get(VARIABLES[name], "")) for name, read in _READERS.items()}
        return cls(**{name: value for name, value in given.items() if value is not None})


def is_malformed(name: str, text: str) -> bool:
    """Whether `text` has no effect on the member `name`."""
    return _READERS[name](text) is None


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


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "timeout_s": _unsigned,
    "max_request_bytes": _unsigned,
    "max_response_bytes": _unsigned,
    "default_rate_per_min": _unsigned,
    "allow_plain_http": _switch,
    "allow_unsigned": _switch,
    "private_hosts": _hosts,
}
