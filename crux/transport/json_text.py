"""What JSON is taken from a peer: RFC 8259, of bounded nesting, with a bounded number of arrays and objects, and with
neither NUL nor lone surrogates in its strings."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from crux.domain.raw_json import LONE_SURROGATE, MOST_NESTED, NUL, STRING, containers
from crux.errors import InvalidArgument, ParseError
from crux.logs import redact_text

# Each takes many times the bytes that it is written with, and everybody's time: a body has room for millions, which
# would hold the daemon up for seconds.
MOST_CONTAINERS = 100_000

_COMPLAINT_LENGTH = 200
_SURROGATE = re.compile("[\ud800-\udfff]")

_decode = msgspec.json.Decoder().decode


def read_json(body: bytes) -> Any:
    """The value in `body`.

    Raises `ParseError` where it is no JSON, nested more than `MOST_NESTED` deep, or has more than `MOST_CONTAINERS`
    arrays and objects; `InvalidArgument` where a string holds NUL or a lone surrogate.
    """
    check_containers(body)
    try:
        value = _decode(body)
    except RecursionError:
        raise too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if with_lone_surrogates(body) is not None:
            raise InvalidArgument(LONE_SURROGATE) from None
        raise refusal_of("JSON", error) from None
    check_nesting(body, value)
    if holds_nul(body, value):
        raise InvalidArgument(NUL)
    return value


def refusal_of(what: str, error: Exception) -> ParseError:
    """The refusal that says `what` the body is not, and why; secrets are taken out of the reason (seed 11.5)."""
    return ParseError(f"not {what}: {redact_text(str(error))[:_COMPLAINT_LENGTH]}")


def too_deep() -> ParseError:
    """The refusal of what is nested too deep."""
    return ParseError(f"nested deeper than {MOST_NESTED}")


def check_containers(body: bytes) -> None:
    """Raise `ParseError` where `body`, which may be JSON, has more than `MOST_CONTAINERS` arrays and objects."""
    # Brackets in strings are none; only a body with that many brackets is worth the search for its strings.
    if containers(body) > MOST_CONTAINERS and containers(STRING.sub(b"", body)) > MOST_CONTAINERS:
        raise ParseError(f"more than {MOST_CONTAINERS} arrays and objects: send it in parts")


def with_lone_surrogates(body: bytes) -> object | None:
    """The value in `body` where lone surrogates are what keeps it from being read, else None.

    Raises `ParseError` where it is nested too deep as well.
    """
    try:
        value: object = json.loads(
            body.decode("utf-8", "surrogatepass"), parse_constant=_refuse_constant, parse_float=_finite
        )
    except (ValueError, RecursionError):
        return None
    check_nesting(body, value)
    return value if any(_SURROGATE.search(text) for text in _strings(value)) else None


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("a number beyond all bounds")
    return value


def check_nesting(body: bytes, value: object) -> None:
    """Raise `ParseError` where arrays and objects are nested too deep in `value`, which is `body` or a part of it."""
    # Only a body with that many brackets can be that deep.
    if containers(body) <= MOST_NESTED:
        return
    depth, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        depth += 1
        level = [item for parent in level for item in (parent.values() if isinstance(parent, dict) else parent)]
    if depth > MOST_NESTED:
        raise too_deep()


def holds_nul(body: bytes, value: object) -> bool:
    """Whether a string in `value`, which is `body` or a part of it, holds NUL."""
    # Only a body with this escape can; JSON has no other way to write it.
    return b"\\u0000" in body and any("\0" in text for text in _strings(value))


def _strings(value: object) -> Iterator[str]:
    """All strings in `value`, member names included, without recursion."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += item.keys()
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
