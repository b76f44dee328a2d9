import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.signing import fingerprint, signature_holds

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()

P = 2**255 - 19
Y8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
IDENTITY = (1).to_bytes(32, "little")
FORGED = IDENTITY + bytes(32)


def accepted_by_the_library(public_key: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def test_a_fingerprint_is_sixteen_bytes_of_blake3_in_hex() -> None:
    assert fingerprint(bytes(32)) == "p_2ada83c1819a5372dae1238fc1ded123"


def test_a_signature_holds_for_the_published_example() -> None:
    # RFC 8032 7.1, TEST 2
    public = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
    signature = bytes.fromhex(
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    )
    assert signature_holds(public, b"\x72", signature)


@given(st.binary(max_size=64), st.integers(0, 511))
def test_a_signature_holds_for_its_message_and_with_every_bit_as_it_was(message: bytes, bit: int) -> None:
    signature = KEY.sign(message)
    assert signature_holds(PUBLIC, message, signature)
    assert not signature_holds(PUBLIC, message + b"x", signature)
    flipped = (int.from_bytes(signature, "little") ^ 1 << bit).to_bytes(64, "little")
    assert not signature_holds(PUBLIC, message, flipped)


@pytest.mark.parametrize("y", [0, 1, P - 1, P, P + 1, Y8, P - Y8])
@pytest.mark.parametrize("sign", [0, 1 << 255])
def test_a_key_of_small_order_signs_nothing(y: int, sign: int) -> None:
    key = (y | sign).to_bytes(32, "little")
    assert not any(signature_holds(key, bytes([n]), FORGED) for n in range(256))


@pytest.mark.parametrize("y", [0, 1, P - 1, Y8, P - Y8])
def test_the_library_alone_would_take_a_forged_signature_of_such_a_key(y: int) -> None:
    assert any(accepted_by_the_library(y.to_bytes(32, "little"), bytes([n]), FORGED) for n in range(256))


def test_a_key_of_another_length_is_an_error() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        signature_holds(PUBLIC[:31], b"", KEY.sign(b""))
