"""The receipt that stands inside a record: who signed its other members (governance contract 1b).

The signature is over the 32 bytes of the body's BLAKE3, not over the body.
"""

import msgspec
from attrs import field, frozen
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crux.domain.signing import fingerprint


class InlineReceipt(msgspec.Struct, frozen=True):
    """`body_hash` is `blake3:` and 64 hex digits, `signature` 128 hex digits."""

    alg: str
    signed_by: str
    body_hash: str
    signature: str


@frozen
class ReceiptSigner:
    """The daemon's key; `name` is its fingerprint."""

    _key: Ed25519PrivateKey = field(repr=False)
    name: str = field(init=False)

    @name.default
    def _fingerprint(self) -> str:
        return fingerprint(self._key.public_key().public_bytes_raw())

    def receipt(self, body: bytes) -> InlineReceipt:
        """The receipt of a record whose other members, as canonical JSON, are `body`."""
        digest = blake3(body).digest()
        return InlineReceipt(
            alg="ed25519",
            signed_by=self.name,
            body_hash=f"blake3:{digest.hex()}",
            signature=self._key.sign(digest).hex(),
        )
