"""What JSON is taken from a peer (RFC 8259): nested so deep and no deeper, with neither NUL nor lone surrogates in its
strings; and how that is seen in text of which no value is made."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from typing import Final

MOST_NESTED: Final = 200
NUL: Final = r"text must not hold NUL (\u0000)"
LONE_SURROGATE: Final = r"text must be Unicode without lone surrogates (\ud800 to \udfff)"

_NUL: Final = rb"\u0000"
_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE = re.compile(rb"%b(?!%b)|(?<!%b)%b" % (_HIGH, _LOW, _HIGH, _LOW))

# One that nothing ends goes to the end of the text, so that the search never begins again within it.
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final[Callable[[int], int]] = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}.__getitem__


def string_fault(body: bytes) -> str | None:
    """What is wrong with a string in `body`, which is UTF-8: JSON can write both faults as escapes only."""
    if rb"\u" not in body:
        return None
    # An escaped backslash begins no escape.
    escapes = body.replace(rb"\\", b"__")
    if _NUL in escapes:
        return NUL
    return LONE_SURROGATE if _LONE.search(escapes) else None


def containers(text: bytes) -> int:
    """How many brackets in `text` begin an array or an object, those in strings included."""
    return text.count(b"{") + text.count(b"[")


def is_too_deep(body: bytes) -> bool:
    """Whether `body`, which is JSON, is nested deeper than `MOST_NESTED`."""
    # Only a body with that many brackets can be that deep.
    if containers(body) <= MOST_NESTED:
        return False
    brackets = STRING.sub(b"", body).translate(None, _NO_BRACKETS)
    return max(accumulate(map(_STEPS, brackets)), default=0) > MOST_NESTED
