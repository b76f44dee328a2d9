"""Reading what follows the question mark, with refusals worded as those of tool arguments are."""

from __future__ import annotations

import re
from collections.abc import Mapping

from crux.domain.raw_json import NUL
from crux.errors import InvalidArgument
from crux.tools.facts import instant_us
from crux.tools.schema import shortened

# Python itself refuses to read much longer ones.
_WORDS: Mapping[str, bool] = {"": False, "false": False, "0": False, "true": True, "1": True}
_INTEGER = re.compile(r"-?[0-9]{1,1000}", re.ASCII)


def check_text(query: Mapping[str, str]) -> None:
    """Raise `InvalidArgument` where a parameter holds NUL."""
    for name, text in query.items():
        if "\0" in text:
            raise InvalidArgument(f"'{name}': {NUL}", data={"param": name})


def clamped(query: Mapping[str, str], name: str, *, default: int, low: int, high: int) -> int:
    """The integer called `name`, moved into `low` to `high`; raises `InvalidArgument` for anything but an integer."""
    text = query.get(name)
    if not text:
        return default
    if _INTEGER.fullmatch(text) is None:
        raise _refusal(name, f"an integer from {low} to {high}", text)
    return min(max(int(text), low), high)


def whole_number(query: Mapping[str, str], name: str) -> int | None:
    """The integer from 0 on called `name`, None where there is none; raises `InvalidArgument` for anything else."""
    text = query.get(name)
    if not text:
        return None
    if _INTEGER.fullmatch(text) is None or text.startswith("-"):
        raise _refusal(name, "an integer, at least 0", text)
    return int(text)


def flag(query: Mapping[str, str], name: str) -> bool:
    """Whether `name` is true; absent and empty are false. Raises `InvalidArgument` for another word."""
    text = query.get(name, "").lower()
    if text not in _WORDS:
        raise _refusal(name, "true or false", text)
    return _WORDS[text]


def instant(query: Mapping[str, str], name: str) -> int | None:
    """The microsecond that `name` says, None where there is none or it is empty; raises `InvalidArgument`."""
    text = query.get(name)
    return instant_us(name, text) if text else None


def _refusal(name: str, expected: str, text: str) -> InvalidArgument:
    return InvalidArgument(
        f"'{name}' must be {expected}, got {shortened(text)}", data={"param": name, "expected": expected}
    )
