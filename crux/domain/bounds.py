"""What keeps small what others fill: text cut to a size, and a mapping of the keys written last."""

from collections import OrderedDict
from typing import TypeVar

from crux.domain.tokens import utf8_size

# A name that a caller made up is echoed as far as this goes.
NAME_SHOWN = 200

K = TypeVar("K")
V = TypeVar("V")


def cut(text: str, most_bytes: int) -> str:
    """The longest start of `text` that has at most `most_bytes` bytes of UTF-8 and ends between two characters."""
    if len(text) <= most_bytes and utf8_size(text) <= most_bytes:
        return text
    # A character takes a byte at least, so that no more of a long text has to be encoded.
    return text[:most_bytes].encode()[:most_bytes].decode(errors="ignore")


def put_latest(kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    """Write `value` under `key`; where that makes more than `most` keys, the one written longest ago goes."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > most:
        kept.popitem(last=False)
