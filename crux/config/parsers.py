"""From the text of a setting to its value: small pure functions `str -> T`.

A parser raises `ValueError` whose text says what is expected, such as "a port number from 0 to 65535". The text never
repeats the value: it may be a secret.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from enum import Enum
from ipaddress import ip_address
from pathlib import Path
from typing import TypeVar

from crux.domain.surface import ExtensionNames
from crux.logs import LogFormat, LogLevel, Redact


class AuthMode(Enum):
    """How the HTTP API learns who calls."""

    OFF = "off"
    DEV_SCOPES = "dev_scopes"
    JWT_HS256 = "jwt_hs256"


_E = TypeVar("_E", bound=Enum)

_SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_HOST_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_][a-z0-9_-]{0,62}(?:\.[a-z0-9_][a-z0-9_-]{0,62})*\.?")
_JWKS_SPELLINGS = frozenset({"jwt_jwks", "jwks", "oidc", "jwt_oidc"})
_AUTH_MODES = {
    "off": AuthMode.OFF,
    "dev": AuthMode.DEV_SCOPES,
    "dev_scopes": AuthMode.DEV_SCOPES,
    "devscopes": AuthMode.DEV_SCOPES,
    "jwt": AuthMode.JWT_HS256,
    "jwt_hs256": AuthMode.JWT_HS256,
}


def text(value: str) -> str:
    """Any text, without the blanks around it."""
    return value.strip()


def secret(value: str) -> str:
    """Any text, exactly as given."""
    return value


def switch(value: str) -> bool:
    """On or off."""
    try:
        return _SWITCH[value.strip().lower()]
    except KeyError:
        raise ValueError("1, true, yes or on, or 0, false, no or off") from None


def flag(value: str) -> bool:
    """A switch that is off where it is set to nothing (protocol contract 16)."""
    return bool(value.strip()) and switch(value)


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """A parser for whole numbers from `least` to `most` (None: up to 18 digits)."""
    expected = f"a whole number of {least} or more" if most is None else f"a whole number from {least} to {most}"

    def parse(value: str) -> int:
        digits = value.strip()
        if re.fullmatch(r"[0-9]{1,18}", digits) and least <= int(digits) <= (most or 10**18):
            return int(digits)
        raise ValueError(expected)

    return parse


def port(value: str) -> int:
    """A TCP port; 0 lets the system choose."""
    try:
        return whole(0, 65535)(value)
    except ValueError:
        raise ValueError("a port number from 0 to 65535") from None


def host(value: str) -> str:
    """An IP address (IPv6 with or without brackets) or a host name, in lower case and without brackets."""
    name = value.strip().lower()
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    if _is_address(name) or (_HOST_NAME.fullmatch(name) and not re.fullmatch(r"[0-9.]+", name)):
        return name
    raise ValueError("an IP address or a host name, without scheme or port")


def items(value: str) -> tuple[str, ...]:
    """A comma list; blanks around entries and empty entries are dropped."""
    return tuple(entry.strip() for entry in value.split(",") if entry.strip())


def scopes(value: str) -> frozenset[str]:
    """Scope names, separated by commas or white space."""
    return frozenset(value.replace(",", " ").split())


def path(value: str) -> Path:
    """A file path whose variables are already replaced; relative to the working directory."""
    name = value.strip()
    if name.startswith(("~", "$")) or "\0" in name:
        raise ValueError("a path, with no variable but a leading ~/, $HOME, $XDG_STATE_HOME or $XDG_CONFIG_HOME")
    return Path(name)


def hs256_key(value: str) -> bytes:
    """The key of an HMAC: the text's own bytes or, after `base64:`, the decoded ones (RFC 4648 section 4)."""
    encoded = value.strip()
    if not encoded.startswith("base64:"):
        return value.encode("utf-8", "surrogateescape")
    try:
        return base64.b64decode(encoded.removeprefix("base64:"), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("padded standard base64 after base64:") from None


def public_key(value: str) -> str:
    """An Ed25519 public key as 64 hex digits, in lower case."""
    digits = value.strip().lower()
    if re.fullmatch("[0-9a-f]{64}", digits) is None:
        raise ValueError("64 hex digits")
    return digits


def auth_mode(value: str) -> AuthMode:
    """A mode of the HTTP API, by any spelling of the contract, `-` for `_` included."""
    name = value.strip().lower().replace("-", "_")
    if name in _JWKS_SPELLINGS:
        raise ValueError("off, dev_scopes or jwt_hs256; this release cannot verify tokens against a JWKS")
    return lookup(_AUTH_MODES, name)


def log_format(value: str) -> LogFormat:
    """The shape of a log line."""
    return lookup({member.value: member for member in LogFormat}, value)


def log_level(value: str) -> LogLevel:
    """The least severe level that is written."""
    return lookup({member.value: member for member in LogLevel} | {"warning": LogLevel.WARN}, value)


def redact(value: str) -> Redact:
    """What happens to secrets in log lines."""
    on = dict.fromkeys(("on", "1", "true", "yes", "enforce"), Redact.ON)
    off = dict.fromkeys(("off", "0", "false", "no", "disabled"), Redact.OFF)
    return lookup(on | {"audit": Redact.AUDIT} | off, value)


def extension_names(value: str) -> ExtensionNames:
    """The names under which the tools of extensions are listed."""
    return lookup({member.value: member for member in ExtensionNames}, value)


def lookup(spellings: Mapping[str, _E], value: str) -> _E:
    """The member that `value` spells, in any case."""
    try:
        return spellings[value.strip().lower()]
    except KeyError:
        canonical = list(dict.fromkeys(str(member.value) for member in spellings.values()))
        raise ValueError(f"{', '.join(canonical[:-1])} or {canonical[-1]}") from None


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
