"""Canonical JSON, the form in which records are hashed: compact, UTF-8, members sorted (governance contract 0)."""

from typing import Final

import msgspec
from blake3 import blake3

_SHORT_HASH_DIGITS = 16

_encode: Final = msgspec.json.Encoder(order="sorted").encode


def canonical_json(value: object) -> bytes:
    """`value` (JSON as decoded, or a struct) with the members of every object in the order of their code points.

    A `msgspec.Raw` inside stands as it is, so it has to be canonical itself.
    """
    return _encode(value)


def short_hash(text: bytes) -> str:
    """`blake3:` and the first 16 hex digits of the BLAKE3 of `text` (protocol contract 11.3)."""
    return f"blake3:{blake3(text).hexdigest()[:_SHORT_HASH_DIGITS]}"
