import base64
import json
import unicodedata
from typing import Any

import attrs
import pytest
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.extensions import TrustedKey, TrustTier
from crux.domain.manifest_signing import manifest_hash, signing_payload, verified_tier
from crux.domain.manifests import (
    DataAccess,
    Entry,
    EntryKind,
    Hashes,
    Json,
    Manifest,
    ManifestRefused,
    Network,
    Safety,
    Sandbox,
    Signature,
    ToolDeclaration,
)
from tests.manifests import PUBLIC_KEY_HEX as PUBLIC
from tests.manifests import SIGNER as NAME
from tests.manifests import SIGNING_KEY as KEY

OTHER = Ed25519PrivateKey.from_private_bytes(bytes(range(1, 33)))

MANIFEST = Manifest(
    schema="crux.integration.v1",
    id="ext.a",
    name='Ünïcode "quoted"',
    version="1",
    publisher_passport_fpr="p",
    summary="a\nb\u2028\x7f",
    entry=Entry(EntryKind.EXTERNAL_TOOL, "t.json"),
    external_tool_endpoint="https://a.example/",
    tools=(ToolDeclaration("ext.a.t", "d", Json("{}")),),
)


def trusting(tier: TrustTier = TrustTier.COMMUNITY_REVIEWED, public_key_hex: str = PUBLIC) -> dict[str, TrustedKey]:
    return {NAME: TrustedKey(public_key_hex, tier, 0)}


def signed(manifest: Manifest = MANIFEST, key: Ed25519PrivateKey = KEY, **changes: Any) -> Signature:
    sig = base64.b64encode(key.sign(signing_payload(manifest))).decode()
    return attrs.evolve(Signature("ed25519", NAME, sig), **changes)


def refusal(signature: Signature, keyring: dict[str, TrustedKey] | None = None) -> str:
    with pytest.raises(ManifestRefused) as raised:
        verified_tier(MANIFEST, signature, trusting() if keyring is None else keyring)
    assert raised.value.status == 400
    return raised.value.message


def test_the_payload_has_the_contracts_members_in_its_order_with_defaults_written_out() -> None:
    assert signing_payload(MANIFEST).decode() == (
        '{"schema":"crux.integration.v1","id":"ext.a","name":"Ünïcode \\"quoted\\"","version":"1",'
        '"publisher_passport_fpr":"p","summary":"a\\nb\u2028\x7f","entry":{"kind":"external_tool","path":"t.json"},'
        '"capabilities":[],"network":{"allowed_hosts":[],"requires_user_token":false},'
        '"data_access":{"tenant_scopes":["selected"],"content_preview":false,"private_facts":false},'
        '"safety":{"sandbox":"none","max_runtime_ms":0,"max_output_bytes":0}}'
    )


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_text_is_signed_as_utf8_with_only_the_escapes_that_json_demands(text: str) -> None:
    payload = signing_payload(attrs.evolve(MANIFEST, summary=text))
    assert f'"summary":{json.dumps(text, ensure_ascii=False)},'.encode() in payload


@pytest.mark.parametrize("code", range(0x20))
def test_a_control_character_is_escaped_the_way_that_others_escape_it(code: int) -> None:
    assert unicodedata.category(chr(code)) == "Cc"
    assert json.dumps(chr(code)).encode() in signing_payload(attrs.evolve(MANIFEST, summary=chr(code)))


def test_the_hash_is_blake3_of_the_payload() -> None:
    assert manifest_hash(MANIFEST) == f"blake3:{blake3(signing_payload(MANIFEST)).hexdigest()}"
    assert len(manifest_hash(MANIFEST)) == len("blake3:") + 64


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "x"},
        {"id": "x"},
        {"name": "x"},
        {"version": "x"},
        {"publisher_passport_fpr": "x"},
        {"summary": "x"},
        {"entry": Entry(EntryKind.WASM, "t.json")},
        {"entry": Entry(EntryKind.EXTERNAL_TOOL, "x")},
        {"capabilities": ("facts:read",)},
        {"network": Network(("x",))},
        {"network": Network(requires_user_token=True)},
        {"data_access": DataAccess(())},
        {"data_access": DataAccess(content_preview=True)},
        {"data_access": DataAccess(private_facts=True)},
        {"safety": Safety(Sandbox.WASM)},
        {"safety": Safety(max_runtime_ms=1)},
        {"safety": Safety(max_output_bytes=1)},
    ],
)
def test_a_signature_covers_what_the_extension_asks_for(change: dict[str, Any]) -> None:
    changed = attrs.evolve(MANIFEST, **change)
    assert manifest_hash(changed) != manifest_hash(MANIFEST)
    with pytest.raises(ManifestRefused, match="does not verify"):
        verified_tier(changed, signed(), trusting())


@pytest.mark.parametrize(
    "change",
    [
        {"external_tool_endpoint": "https://b.example/"},
        {"tools": ()},
        {"hashes": Hashes("x", "y")},
        {"signature": Signature("a", "b", "c")},
        {"wasm_module_path": "x"},
        {"wasm_module_url": "x"},
        {"wasm_module_sha256": "x"},
    ],
)
def test_a_signature_covers_nothing_else(change: dict[str, Any]) -> None:
    assert signing_payload(attrs.evolve(MANIFEST, **change)) == signing_payload(MANIFEST)


@pytest.mark.parametrize("tier", TrustTier)
def test_what_is_signed_has_the_tier_of_the_key(tier: TrustTier) -> None:
    assert verified_tier(MANIFEST, signed(), trusting(tier)) is tier


@pytest.mark.parametrize("public", [None, PUBLIC, PUBLIC.upper()])
@pytest.mark.parametrize("kept", [PUBLIC, PUBLIC.upper()])
def test_the_key_in_a_signature_may_be_absent_and_in_any_case(public: str | None, kept: str) -> None:
    verified_tier(MANIFEST, signed(public_key_hex=public), trusting(public_key_hex=kept))


BAD_SIG = "signature.sig must be 64 bytes in standard base64"
UNTRUSTED = "no trusted key for passport 'p_x': the operator has to add it to the keyring first"
OTHER_KEY = f"signature.public_key_hex is not the trusted key of passport '{NAME}'"
NO_HOLD = f"the signature does not verify with the trusted key of passport '{NAME}'"
BAD_ALG = "signature.alg must be 'ed25519', got 'Ed25519'"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"alg": "Ed25519"}, BAD_ALG),
        ({"passport_fpr": "p_x"}, UNTRUSTED),
        ({"public_key_hex": "00" * 32}, OTHER_KEY),
        ({"public_key_hex": ""}, OTHER_KEY),
        ({"sig": ""}, BAD_SIG),
        ({"sig": base64.b64encode(bytes(63)).decode()}, BAD_SIG),
        ({"sig": base64.b64encode(bytes(65)).decode()}, BAD_SIG),
        ({"sig": base64.b64encode(bytes(64)).decode().rstrip("=")}, BAD_SIG),
        ({"sig": base64.b64encode(bytes(64)).decode() + "\n"}, BAD_SIG),
        ({"sig": base64.urlsafe_b64encode(b"\xff" * 64).decode()}, BAD_SIG),
        ({"sig": "A" * 85 + "B=="}, BAD_SIG),  # bits that no encoder sets
        ({"sig": "é" * 88}, BAD_SIG),
        ({"sig": base64.b64encode(bytes(64)).decode()}, NO_HOLD),
        # Two faults: the first in the contract's order is told.
        ({"alg": "Ed25519", "passport_fpr": "p_x"}, BAD_ALG),
        ({"passport_fpr": "p_x", "public_key_hex": "00"}, UNTRUSTED),
        ({"public_key_hex": "00", "sig": ""}, OTHER_KEY),
    ],
)
def test_a_signature_is_refused_for_its_first_fault(changes: dict[str, Any], message: str) -> None:
    assert refusal(signed(**changes)) == message


def test_a_key_that_is_not_trusted_signs_nothing_even_if_it_is_sent_along() -> None:
    theirs = OTHER.public_key().public_bytes_raw().hex()
    assert refusal(signed(key=OTHER)) == NO_HOLD
    assert refusal(signed(key=OTHER, public_key_hex=theirs)) == OTHER_KEY
    assert "no trusted key" in refusal(signed(), {})


def test_a_key_of_small_order_signs_nothing() -> None:
    identity = (1).to_bytes(32, "little")
    forged = Signature("ed25519", NAME, base64.b64encode(identity + bytes(32)).decode())
    assert refusal(forged, trusting(public_key_hex=identity.hex())) == NO_HOLD


def test_who_signs_may_be_another_than_who_publishes() -> None:
    assert MANIFEST.publisher_passport_fpr != NAME
    verified_tier(MANIFEST, signed(), trusting())
