"""What a call returns, as the `result` of its JSON-RPC response (Decision 1, seed 11.6)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from attrs import frozen

from crux.domain.usage import declared_budget

# Hosts cut a result at about 25,000 tokens; well below that, and where the caller set no budget, it is told how to
# narrow.
LARGE_RESULT_BYTES = 40_000
NARROW = "large result: pass token_budget or a smaller top_k, or name one entity"

_encode = msgspec.json.Encoder().encode


@frozen
class RawResult:
    """A result whose content items go out as they are, such as a soft failure (`is_error`)."""

    content: tuple[Mapping[str, object], ...]
    is_error: bool = False

    @classmethod
    def failure(cls, text: str) -> RawResult:
        """A result that says in words why there is none."""
        return cls(({"type": "text", "text": text},), is_error=True)


@frozen
class WithMeta:
    """What a tool returned, and the members of `_meta` that go out beside it."""

    value: object
    meta: Mapping[str, Any]


class Result(msgspec.Struct, frozen=True):
    """An encoded result, as yet without its `_meta`."""

    body: bytes
    ok: bool = True
    meta: Mapping[str, object] = MappingProxyType({})

    def encoded(self) -> bytes:
        """The result as it goes out."""
        return self.body[:-1] + b',"_meta":' + _encode(self.meta) + b"}" if self.meta else self.body


def result_of(value: object, arguments: object) -> Result:
    """The result for what a tool returned: one text item that holds it as compact JSON, or `RawResult` as it is.

    A large one that came without a `token_budget` says in `_meta.crux` how to narrow it.
    """
    if isinstance(value, RawResult):
        flag = {"isError": True} if value.is_error else {}
        return Result(_encode({"content": value.content, **flag}), not value.is_error)
    meta: Mapping[str, Any] = MappingProxyType({})
    if isinstance(value, WithMeta):
        meta, value = value.meta, value.value
    text = _encode(value)
    if len(text) > LARGE_RESULT_BYTES and declared_budget(arguments) is None:
        meta = {**meta, "crux": {**meta.get("crux", {}), "hint": NARROW}}
    return Result(b'{"content":[{"type":"text","text":' + _encode(text.decode()) + b"}]}", meta=meta)
