"""Manifests of extensions, as operators write them and as the daemon reads them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

from attrs import evolve
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crux.domain.manifest_signing import signing_payload
from crux.domain.manifests import Manifest, Signature, read_manifest

SIGNING_KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SIGNER = "p_community_alice"
PUBLIC_KEY_HEX = SIGNING_KEY.public_key().public_bytes_raw().hex()


def manifest_json(
    extension_id: str = "ext.quote", tools: Sequence[str] = ("ext.quote.daily",), **members: Any
) -> dict[str, Any]:
    """An external tool's manifest, with `members` in place of its own."""
    return {
        "schema": "crux.integration.v1",
        "id": extension_id,
        "name": "Quote of the Day",
        "version": "0.1.0",
        "publisher_passport_fpr": SIGNER,
        "summary": "Returns a quote.",
        "entry": {"kind": "external_tool", "path": "tools/quote.json"},
        "external_tool_endpoint": "https://tools.example.com/crux/invoke",
        "tools": [{"name": tool, "description": "A tool.", "input_schema": {"type": "object"}} for tool in tools],
        **members,
    }


def recipe_json(extension_id: str) -> dict[str, Any]:
    """A manifest of a kind that brings no tools."""
    document = manifest_json(extension_id, (), entry={"kind": "http_recipe", "path": "recipe.json"})
    del document["external_tool_endpoint"]
    return document


def manifest_of(document: dict[str, Any]) -> Manifest:
    return read_manifest(document)


def signed(manifest: Manifest) -> Manifest:
    """The manifest with `SIGNER`'s signature."""
    sig = b64encode(SIGNING_KEY.sign(signing_payload(manifest))).decode()
    return evolve(manifest, signature=Signature("ed25519", SIGNER, sig))
