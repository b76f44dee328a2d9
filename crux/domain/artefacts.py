"""Artefacts: bytes that an agent parks under an id made of them, for itself alone (memory contract 10)."""

from __future__ import annotations

import base64
import binascii
from typing import Final

from attrs import frozen
from blake3 import blake3

from crux.domain.messages import Message
from crux.errors import InvalidArgument

MOST_BYTES: Final = 8 * 1024 * 1024
MOST_OWNED: Final = 10_000
MOST_OWNED_BYTES: Final = 256 * 1024 * 1024
DEFAULT_TTL_S: Final = 7 * 24 * 3600
MOST_TTL_S: Final = 90 * 24 * 3600
LONGEST_LABEL: Final = 256
# MIME types that begin so are read by their owner and left out of listings (memory contract 1.6).
UNLISTED: Final = ("__agent::", "__ops::", "__bootstrap__::")
SECOND_US: Final = 1_000_000


@frozen
class Artefact:
    """What is known of parked bytes; `expires_us` is None for what stays."""

    artefact_id: str
    mime_type: str
    tool_origin: str | None
    size_bytes: int
    created_us: int
    expires_us: int | None


@frozen
class PutArtefact(Message[Artefact]):
    """Park bytes for `ttl_s` seconds, None for ever; the same bytes again renew what is known of them.

    Raises `InvalidArgument` where their owner has no room left.
    """

    owner: str
    content: bytes
    mime_type: str
    tool_origin: str | None
    ttl_s: int | None


@frozen
class Read:
    """An artefact with its bytes."""

    artefact: Artefact
    content: bytes


@frozen
class ReadArtefact(Message[Read | None]):
    """One artefact of its owner; None for what is unknown, expired, or another's."""

    owner: str
    artefact_id: str
    now_us: int


@frozen
class ListArtefacts(Message[tuple[Artefact, ...]]):
    """The latest artefacts of an owner, the latest first.

    With `scope`, those whose MIME type has it as a part, or whose origin it is.
    """

    owner: str
    scope: str | None
    limit: int
    now_us: int


@frozen
class SweepArtefacts(Message[int]):
    """Remove artefacts that have expired, `limit` of them at most; how many were removed."""

    limit: int


def artefact_id(content: bytes) -> str:
    """The id of these bytes: `art_` and their BLAKE3, 64 hex digits."""
    return f"art_{blake3(content).hexdigest()}"


def decoded(text: str) -> bytes:
    """The bytes that standard base64 stands for; raises `InvalidArgument` for other text, none and too many."""
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument(
            "'content_bytes_base64' must be standard base64, padded", data={"param": "content_bytes_base64"}
        ) from None
    if not 0 < len(content) <= MOST_BYTES:
        raise InvalidArgument(
            f"'content_bytes_base64' must be 1 to {MOST_BYTES} bytes once decoded, got {len(content)}",
            data={"param": "content_bytes_base64", "most_bytes": MOST_BYTES},
        )
    return content


def check_room(owned: int, owned_bytes: int, size_bytes: int) -> None:
    """Raise `InvalidArgument` where an owner of so much has no room for `size_bytes` more."""
    if owned >= MOST_OWNED or owned_bytes + size_bytes > MOST_OWNED_BYTES:
        raise InvalidArgument(
            f"you have {owned} artefacts of {owned_bytes} bytes, and at most {MOST_OWNED} of {MOST_OWNED_BYTES} are "
            "kept; wait until some expire, or give them a shorter ttl_seconds",
            data={"owned": owned, "owned_bytes": owned_bytes},
        )
