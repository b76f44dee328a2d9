from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.inline_receipts import ReceiptSigner
from crux.domain.signing import fingerprint, signature_holds

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()


@given(st.binary())
def test_a_receipt_is_a_signature_over_the_hash_of_the_body(body: bytes) -> None:
    receipt = ReceiptSigner(KEY).receipt(body)
    digest = blake3(body).digest()
    assert (receipt.alg, receipt.signed_by) == ("ed25519", fingerprint(PUBLIC))
    assert receipt.body_hash == f"blake3:{digest.hex()}"
    assert len(receipt.signature) == 128
    assert signature_holds(PUBLIC, digest, bytes.fromhex(receipt.signature))


def test_a_signer_shows_its_name_and_not_its_key() -> None:
    assert repr(ReceiptSigner(KEY)) == f"ReceiptSigner(name='{fingerprint(PUBLIC)}')"
