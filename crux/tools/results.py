"""What a call returns, as the `result` of its JSON-RPC response (Decision 1, seed 11.6)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from attrs import frozen

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


def encode_result(value: object, arguments: object) -> bytes:
    """The encoded `result` for what a tool returned: one text item that holds it as compact JSON, or `RawResult`.

    A large one that came without a `token_budget` says in `_meta.crux` how to narrow it.
    """
    if isinstance(value, RawResult):
        body: dict[str, object] = {"content": value.content}
        return _encode({**body, "isError": True} if value.is_error else body)
    text = _encode(value)
    result = b'{"content":[{"type":"text","text":' + _encode(text.decode()) + b"}]}"
    if len(text) > LARGE_RESULT_BYTES and not (
        isinstance(arguments, dict) and arguments.get("token_budget") is not None
    ):
        return with_meta(result, {"crux": {"hint": NARROW}})
    return result


def with_meta(result: bytes, meta: Mapping[str, object]) -> bytes:
    """An encoded result that has no `_meta`, with one."""
    return result[:-1] + b',"_meta":' + _encode(meta) + b"}"
