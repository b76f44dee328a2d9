"""How one setting is declared: an attrs field whose metadata says where its value comes from and what it means."""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TypeVar

import attrs
from attrs import frozen

_T = TypeVar("_T")
_METADATA_KEY = "crux.setting"

# A key for HMAC-SHA256 is at least as long as its output (RFC 7518 section 3.2).
STRONG_SECRET_BYTES = 32


class Group(Enum):
    """A chapter of the reference page, in the page's order."""

    LISTENERS = "Listeners"
    AUTH = "Auth"
    OAUTH = "OAuth and the agent card"
    LIMITS = "Limits"
    STORAGE = "Storage"
    PRIVACY = "Privacy and decay"
    MEMORY = "Memory tools"
    RECORDING = "Recording of calls"
    LOGGING = "Logging"
    WIRE = "Servers"


@frozen
class Declaration:
    """Everything about a setting but its value.

    `file` is the dotted key in the YAML file, None for what only the environment may set. `default_shown` stands for a
    default that differs between machines or is decided at start. `keep_empty`: a variable set to nothing is a value of
    its own, not an unset one. `expands`: a leading `~/` or known variable is replaced before parsing.
    """

    env: str
    group: Group
    parse: Callable[[str], object]
    meaning: str
    file: str | None = None
    secret: bool = False
    default_shown: str | None = None
    keep_empty: bool = False
    expands: bool = False


def setting(
    default: _T,
    *,
    env: str,
    group: Group,
    parse: Callable[[str], _T],
    meaning: str,
    file: str | None = None,
    secret: bool = False,
    default_shown: str | None = None,
    keep_empty: bool = False,
    expands: bool = False,
) -> _T:
    """Declare one field of a settings class; see `Declaration`. A secret shows neither in `repr` nor in messages."""
    declaration = Declaration(env, group, parse, meaning, file, secret, default_shown, keep_empty, expands)
    field: _T = attrs.field(default=default, repr=masked if secret else True, metadata={_METADATA_KEY: declaration})
    return field


def declarations(cls: type[attrs.AttrsInstance]) -> Mapping[str, Declaration]:
    """The declarations of a settings class by field name, in the order of the class body."""
    return {field.name: field.metadata[_METADATA_KEY] for field in attrs.fields(cls)}


def masked(value: str | bytes | None) -> str:
    """What may be said about a secret: whether it is set, and whether it is too short to be a good one."""
    if value is None:
        return "(secret, unset)"
    return "(secret, set)" if len(value) >= STRONG_SECRET_BYTES else f"(secret, set, under {STRONG_SECRET_BYTES} bytes)"


def shown(value: object) -> str:
    """A value that is no secret, as `crux config` and the reference page print it."""
    match value:
        case None:
            return "unset"
        case bool():
            return "true" if value else "false"
        case Enum():
            return str(value.value)
        case frozenset():
            return " ".join(sorted(value)) or "none"
        case tuple():
            return ",".join(value) or "none"
        case _:
            return str(value)
