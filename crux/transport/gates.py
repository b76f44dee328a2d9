"""What is settled from a request's headers alone, before anything is authenticated or parsed.

All functions are pure and take ASGI headers: pairs of bytes with names in lower case. A check that fails gives a
`Refusal` instead of its value.
"""

import re
from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Final, TypeAlias

from attrs import frozen

from crux.domain.posture import is_loopback
from crux.errors import SettingError

Headers: TypeAlias = Iterable[tuple[bytes, bytes]]

AUTHORIZATION: Final = b"authorization"
PASSPORT: Final = b"x-corecrux-passport-id"
SESSION: Final = b"mcp-session-id"

_BLANKS = b" \t"
_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_ID_RULE = "1 to 128 characters of A-Z a-z 0-9 . _ : -"

_HOST = rb"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)"
_AUTHORITY = re.compile(_HOST + rb"(?::([0-9]{0,5}))?")
_ORIGIN = re.compile(rb"([a-z][a-z0-9+.-]*)://" + _HOST + rb"(?::([0-9]{1,5}))?")
_DEFAULT_PORTS = {b"http": b"80", b"https": b"443"}

# Verdicts that are remembered, per header: a client sends the same two values with every request.
_REMEMBERED = 64


@frozen
class Refusal:
    """The answer to a request that goes no further: its HTTP `status`, a short name and what to do about it."""

    status: int
    error: str
    hint: str


_NO_SINGLE_HOST = Refusal(400, "bad-host", "send exactly one Host header (RFC 9112 section 3.2)")
_BAD_PASSPORT = Refusal(
    400, "invalid-passport-header", f"X-Corecrux-Passport-Id has to be {_ID_RULE}, and the same each time it is sent"
)
_BAD_SESSION = Refusal(400, "invalid_mcp_session_id", f"Mcp-Session-Id has to be sent once and be {_ID_RULE}")


class GuardPolicy:
    """Which names the daemon answers to and which web pages may call it (Decision 46).

    Loopback is always served: a page from elsewhere reaches it only under another name (DNS rebinding) or with another
    `Origin`. `allowed_hosts` adds `host`, for any port, or `host:port`; `allowed_origins` adds `scheme://host[:port]`.
    Raises `SettingError` for an entry of another form.
    """

    def __init__(self, allowed_hosts: Iterable[str] = (), allowed_origins: Iterable[str] = ()) -> None:
        hosts = frozenset(_listed_host(entry) for entry in allowed_hosts)
        origins = frozenset(_listed_origin(entry) for entry in allowed_origins)
        self._serves = lru_cache(_REMEMBERED)(partial(_is_served, hosts))
        self._allows = lru_cache(_REMEMBERED)(partial(_is_allowed, origins))

    def refusal(self, headers: Headers) -> Refusal | None:
        """Why the request is not served: 400 without exactly one `Host`, 421 for a foreign one, 403 for `Origin`."""
        host = origin = None
        for name, value in headers:
            if name == b"host":
                if host is not None:
                    return _NO_SINGLE_HOST
                host = value
            elif name == b"origin":
                # Two origins are one more than any browser sends; joined they equal none that is allowed.
                origin = value if origin is None else origin + b", " + value
        if host is None:
            return _NO_SINGLE_HOST
        if not self._serves(host):
            return Refusal(
                421,
                "host-not-allowed",
                f"this daemon does not answer to {_shown(host)}: call 127.0.0.1, or add the name to CRUX_ALLOWED_HOSTS",
            )
        if origin is not None and not self._allows(origin):
            return Refusal(
                403,
                "origin-not-allowed",
                f"pages of {_shown(origin)} may not call this daemon: add their origin (scheme://host:port, "
                "never null) to CRUX_ALLOWED_ORIGINS",
            )
        return None

    def allows_origin(self, origin: bytes) -> bool:
        return self._allows(origin)


def passport_header(headers: Headers) -> str | Refusal | None:
    """The passport that the request names, None where it names none (HTTP API contract section 1)."""
    values = {value.strip(_BLANKS) for value in _values(headers, PASSPORT)}
    if not values:
        return None
    value = values.pop()
    return _BAD_PASSPORT if values or _ID.fullmatch(value) is None else value.decode("ascii")


def session_header(headers: Headers) -> str | Refusal | None:
    """The MCP session id that the request carries, None where it carries none (protocol 1.2)."""
    values = _values(headers, SESSION)
    if not values:
        return None
    value = values[0].strip(_BLANKS)
    return _BAD_SESSION if len(values) > 1 or _ID.fullmatch(value) is None else value.decode("ascii")


def bearer_token(headers: Headers, schemes: tuple[bytes, ...] = (b"Bearer ",)) -> str | None:
    """What follows the scheme in the one `Authorization` header, not trimmed (protocol 3.1); None in any other case."""
    values = _values(headers, AUTHORIZATION)
    if len(values) == 1:
        for scheme in schemes:
            if values[0].startswith(scheme):
                return values[0][len(scheme) :].decode("latin-1")
    return None


_EXPOSED = (
    (b"access-control-expose-headers", b"Mcp-Session-Id, WWW-Authenticate"),
    (b"vary", b"Origin"),
)
_PREFLIGHT = (
    (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
    (
        b"access-control-allow-headers",
        b"Content-Type, Accept, Authorization, Mcp-Session-Id, MCP-Protocol-Version, Last-Event-ID",
    ),
    (b"access-control-max-age", b"600"),
    (b"vary", b"Origin"),
)


def cors_headers(headers: Headers, policy: GuardPolicy, *, preflight: bool = False) -> tuple[tuple[bytes, bytes], ...]:
    """Response headers that let an allowed page read the answer, or with `preflight` send the request; else none.

    A preflight (`OPTIONS`) carries no credentials, so it is answered before authentication (Fetch standard, 3.2).
    """
    origins = _values(headers, b"origin")
    if len(origins) != 1 or not policy.allows_origin(origins[0]):
        return ()
    allowed = (b"access-control-allow-origin", origins[0].strip(_BLANKS))
    return (allowed, *(_PREFLIGHT if preflight else _EXPOSED))


def _values(headers: Headers, wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name == wanted]


def _is_served(listed: frozenset[bytes], value: bytes) -> bool:
    parts = _AUTHORITY.fullmatch(value.strip(_BLANKS).lower())
    if parts is None:
        return False
    return is_loopback(parts[1].decode("ascii")) or parts[1] in listed or parts[0] in listed


def _is_allowed(listed: frozenset[bytes], value: bytes) -> bool:
    parts = _ORIGIN.fullmatch(value.strip(_BLANKS).lower())
    if parts is None:
        return False
    return (parts[1] in _DEFAULT_PORTS and is_loopback(parts[2].decode("ascii"))) or _canonical(parts) in listed


def _canonical(origin: re.Match[bytes]) -> bytes:
    """The origin without a port that its scheme implies (RFC 6454 section 6.2)."""
    scheme, host, port = origin.groups()
    implied = port is None or port == _DEFAULT_PORTS.get(scheme)
    return scheme + b"://" + host + (b"" if implied else b":" + port)


def _listed_host(entry: str) -> bytes:
    text = entry.strip().lower()
    bare_ipv6 = text.count(":") > 1 and not text.startswith("[")
    value = (f"[{text}]" if bare_ipv6 else text).encode("ascii", "replace")
    if _AUTHORITY.fullmatch(value) is None:
        raise SettingError(f"CRUX_ALLOWED_HOSTS has {entry!r}: expected host or host:port, without scheme or path")
    return value


def _listed_origin(entry: str) -> bytes:
    parts = _ORIGIN.fullmatch(entry.strip().lower().removesuffix("/").encode("ascii", "replace"))
    if parts is None:
        raise SettingError(f"CRUX_ALLOWED_ORIGINS has {entry!r}: expected one such as https://console.example:8443")
    return _canonical(parts)


def _shown(value: bytes) -> str:
    text = value[:64].decode("ascii", "backslashreplace")
    return f"'{text}'" if len(value) <= 64 else f"'{text}…'"
