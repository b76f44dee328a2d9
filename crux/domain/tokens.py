"""What a text costs an agent to read, estimated at four bytes a token."""

from typing import Final

import msgspec

BYTES_PER_TOKEN = 4

_encode: Final = msgspec.json.Encoder().encode


def utf8_size(text: str) -> int:
    """Bytes of `text` in UTF-8, at no cost for ASCII."""
    return len(text) if text.isascii() else len(text.encode())


def of_text(text: str) -> int:
    """Tokens of a fact's value: its UTF-8 bytes over four, rounded up (memory contract 1.1)."""
    return of_bytes(utf8_size(text))


def of_bytes(size_bytes: int) -> int:
    """Tokens of a text that is `size_bytes` long, rounded up."""
    return -(-size_bytes // BYTES_PER_TOKEN)


def of_size(size_bytes: int) -> int:
    """Tokens of something that is `size_bytes` long on the wire: rounded down, at least 1 (protocol section 10)."""
    return size_bytes // BYTES_PER_TOKEN or 1


def of_json(value: object) -> int:
    """Tokens of a JSON value in its compact form (protocol section 10)."""
    return of_size(len(_encode(value)))
