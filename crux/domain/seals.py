"""Numbers that are shown without telling how many there are: a keyed permutation of 48-bit numbers.

A Feistel network of three rounds (Luby and Rackoff, 1988) over the keyed BLAKE3. It hides counts and order; it is no
proof of having been given a number, and nothing relies on one being hard to guess.
"""

from typing import Final

from blake3 import blake3

KEY_BYTES: Final = 32
BITS: Final = 48
_HALF: Final = BITS // 2
_MASK: Final = (1 << _HALF) - 1
_ROUNDS: Final = range(3)


def seal(number: int, key: bytes) -> int:
    """The number that stands for `number`, both below 2**`BITS`."""
    left, right = number >> _HALF, number & _MASK
    for step in _ROUNDS:
        left, right = right, left ^ _mixed(step, right, key)
    return left << _HALF | right


def unseal(number: int, key: bytes) -> int | None:
    """The number that `number` stands for; None for one that is no seal of ours."""
    if number >> BITS:
        return None
    left, right = number >> _HALF, number & _MASK
    for step in reversed(_ROUNDS):
        left, right = right ^ _mixed(step, left, key), left
    return left << _HALF | right


def _mixed(step: int, half: int, key: bytes) -> int:
    return int.from_bytes(blake3(bytes([step]) + half.to_bytes(_HALF // 8, "big"), key=key).digest(_HALF // 8), "big")
