"""Ed25519 signatures and the short names of keys.

A signature is accepted strictly (RFC 8032 5.1.7, and beyond it): a key or a commitment of small order, with which one
signature would hold for many messages, is not.
"""

from blake3 import blake3
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

SIGNATURE_BYTES = 64

_POINT_BYTES = 32
_P = 2**255 - 19
_Y_OF_ORDER_8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_SMALL_ORDER_Y = frozenset({0, 1, _P - 1, _P, _P + 1, _Y_OF_ORDER_8, _P - _Y_OF_ORDER_8})


def fingerprint(public_key: bytes) -> str:
    """The name of a key given as its 32 raw bytes: `p_` and 32 hex digits (identity contract 3)."""
    return f"p_{blake3(public_key).digest(length=16).hex()}"


def signature_holds(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether `signature` (64 bytes) over `message` was made with the key whose 32 raw bytes are `public_key`.

    Raises `ValueError` for a key of another length.
    """
    if _is_of_small_order(public_key) or _is_of_small_order(signature[:_POINT_BYTES]):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _is_of_small_order(point: bytes) -> bool:
    # The topmost bit is the sign of x, which does not matter here.
    return int.from_bytes(point, "little") & (1 << 255) - 1 in _SMALL_ORDER_Y
