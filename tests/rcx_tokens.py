"""RCX capability tokens for tests."""

import time
from pathlib import Path
from typing import Any

from attrs import evolve
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crux.domain.rcx_mint import mint_free_token, sign_token
from crux.domain.rcx_token import (
    Backend,
    Capability,
    Credits,
    EnterpriseScope,
    Fallbacks,
    Issuer,
    Refill,
    Revocation,
    Signature,
    Subject,
    TeamScope,
    TenantScope,
    Token,
    encode_token,
)

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes_raw()
ISSUED_AT = 1_800_000_000
EXPIRES_AT = ISSUED_AT + 366 * 24 * 3600

_KID = "p_0123456789abcdef0123456789abcdef"

# The published example (protocol contract 9.2).
KNOWN = Token(
    spec_version="rcx-ct/1.0",
    token_id="rcxct_free_0123456789abcdef_default",
    issued_at=1776989600,
    expires_at=1780143200,
    refresh_hint_at=1780139600,
    issuer=Issuer(passport_kid=_KID, issuer_org="local"),
    subject=Subject(passport_fpr=_KID, daemon_instance_id="daemon_01HV0000000000000000000000"),
    tenant_scope=TenantScope(tenant_id="default", display_name="Local"),
    tier="free",
    receipt_class="verified",
    backends=(
        Backend(
            backend_id="local",
            trust_root_kid=_KID,
            permitted_capabilities=(Capability(capability="corecrux.query.local", data_egress_classes=("none",)),),
        ),
    ),
    credits=Credits(refill=Refill(period="none"), overdraft="forbid"),
    fallback=Fallbacks(on_backend_unreachable="refuse", on_credits_exhausted="refuse", on_expiry="refuse"),
    revocation=Revocation(),
    signature=Signature(alg="ed25519", kid=_KID, sig=b"\x11" * 64),
)
TEAM = TeamScope(team_id="team_1", pooled_credit_agent_id="agent_1", principal_passport_fprs=("p_1",))
ENTERPRISE = EnterpriseScope(
    customer_id="c_1",
    backend_id="customer:acme",
    endpoint_url="https://crux.acme.example",
    trust_root_kid="p_acme",
    airgap=False,
    cross_signed_by_vaultcrux=True,
)


def minted(**changes: Any) -> Token:
    """A free token with `changes`, signed by `KEY`."""
    token = mint_free_token(KEY, instance_id="node_1", capabilities=("crux-mcp.learn",), issued_at=ISSUED_AT)
    return sign_token(evolve(token, **changes), KEY)


def backend(backend_id: str, *capabilities: Capability, kid: str = "p_acme") -> Backend:
    return Backend(backend_id=backend_id, trust_root_kid=kid, permitted_capabilities=capabilities)


def reading_token(directory: Path, **changes: Any) -> dict[str, Any]:
    """The settings of a router whose token, kept in `directory` and valid by default, is for reading facts alone."""
    reading = ("crux-mcp.query_facts", "crux-mcp.list_entities")
    fields = {"instance_id": "n", "capabilities": reading, "issued_at": int(time.time()) - 60, **changes}
    path = directory / "token"
    path.write_bytes(encode_token(mint_free_token(KEY, **fields)))
    return {"rcx_router": str(path), "rcx_issuer_key": PUBLIC.hex()}
