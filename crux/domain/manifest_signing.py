"""What the signature of a manifest covers, and whether it holds (extensions contract 5.1 and 5.2).

It covers what a manifest asks for, neither its endpoint nor its tools.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final

import msgspec
from blake3 import blake3

from crux.domain.bounds import NAME_SHOWN
from crux.domain.extensions import TrustedKey, TrustTier
from crux.domain.manifests import Manifest, ManifestRefused, Signature, policy_document
from crux.domain.signing import SIGNATURE_BYTES, signature_holds

ALGORITHM: Final = "ed25519"


def signing_payload(manifest: Manifest) -> bytes:
    """The bytes that are signed: compact JSON with the members in the contract's order, defaults written out."""
    return msgspec.json.encode(policy_document(manifest))


def manifest_hash(manifest: Manifest) -> str:
    """`blake3:` and the 64 hex digits of the BLAKE3 of the signing payload."""
    return f"blake3:{blake3(signing_payload(manifest)).hexdigest()}"


def verified_tier(manifest: Manifest, signature: Signature, keyring: Mapping[str, TrustedKey]) -> TrustTier:
    """The tier of the trusted key that `signature` was made with; raises `ManifestRefused` where it does not hold.

    Whose key it is may differ from who publishes: the contract does not ask for more.
    """
    if signature.alg != ALGORITHM:
        raise ManifestRefused(f"signature.alg must be '{ALGORITHM}', got '{signature.alg[:NAME_SHOWN]}'")
    name = signature.passport_fpr[:NAME_SHOWN]
    trusted = keyring.get(signature.passport_fpr)
    if trusted is None:
        raise ManifestRefused(f"no trusted key for passport '{name}': the operator has to add it to the keyring first")
    if signature.public_key_hex is not None and signature.public_key_hex.lower() != trusted.public_key_hex.lower():
        raise ManifestRefused(f"signature.public_key_hex is not the trusted key of passport '{name}'")
    raw = _signature_bytes(signature.sig)
    if not signature_holds(bytes.fromhex(trusted.public_key_hex), signing_payload(manifest), raw):
        raise ManifestRefused(f"the signature does not verify with the trusted key of passport '{name}'")
    return trusted.trust_tier


def _signature_bytes(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raw = b""
    # Written anew, since the decoder also takes what no encoder writes.
    if len(raw) != SIGNATURE_BYTES or base64.b64encode(raw).decode() != text:
        raise ManifestRefused(f"signature.sig must be {SIGNATURE_BYTES} bytes in standard base64")
    return raw
