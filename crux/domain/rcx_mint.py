"""Making a capability token: the free one, with which a daemon permits itself what it does locally (contract 9.6)."""

from collections.abc import Iterable

from attrs import evolve
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crux.domain.capability import capability_of
from crux.domain.rcx_token import (
    LOCAL_BACKEND,
    SPEC_VERSION,
    Backend,
    Capability,
    Credits,
    Fallbacks,
    Issuer,
    Refill,
    Revocation,
    Signature,
    Subject,
    TenantScope,
    Token,
    hash_token,
)
from crux.domain.rcx_validation import ALGORITHM
from crux.domain.signing import SIGNATURE_BYTES, fingerprint

FREE_TOKEN_VALID_S = 366 * 24 * 3600

_REFRESH_BEFORE_END_S = 3600
_FINGERPRINT_DIGITS_IN_ID = 16


def local_capabilities(tools: Iterable[str]) -> tuple[str, ...]:
    """The capabilities that calling any of `tools` needs, in their order, then the one to read from federated daemons.

    `tools` are the names of the catalogue's local tier.
    """
    return (*dict.fromkeys(map(capability_of, tools)), "federation.read")


def mint_free_token(
    key: Ed25519PrivateKey,
    *,
    instance_id: str,
    capabilities: Iterable[str],
    issued_at: int,
    tenant_id: str = "local",
    valid_s: int = FREE_TOKEN_VALID_S,
) -> Token:
    """A token by which the holder of `key` permits itself `capabilities` on this machine, where nothing leaves it.

    `instance_id` is the daemon's node id, `issued_at` in Unix seconds.
    """
    kid = fingerprint(key.public_key().public_bytes_raw())
    expires_at = issued_at + valid_s
    permitted = (Capability(capability=name, data_egress_classes=("none",)) for name in capabilities)
    token = Token(
        spec_version=SPEC_VERSION,
        token_id=f"rcxct_free_{kid.removeprefix('p_')[:_FINGERPRINT_DIGITS_IN_ID]}_{tenant_id}",
        issued_at=issued_at,
        expires_at=expires_at,
        refresh_hint_at=expires_at - _REFRESH_BEFORE_END_S,
        issuer=Issuer(passport_kid=kid, issuer_org="local"),
        subject=Subject(passport_fpr=kid, daemon_instance_id=instance_id),
        tenant_scope=TenantScope(tenant_id=tenant_id, display_name="Local"),
        tier="free",
        receipt_class="verified",
        backends=(Backend(backend_id=LOCAL_BACKEND, trust_root_kid=kid, permitted_capabilities=tuple(permitted)),),
        credits=Credits(refill=Refill(period="none"), overdraft="forbid"),
        fallback=Fallbacks(on_backend_unreachable="refuse", on_credits_exhausted="refuse", on_expiry="refuse"),
        revocation=Revocation(),
        signature=Signature(alg=ALGORITHM, kid=kid, sig=bytes(SIGNATURE_BYTES)),
    )
    return sign_token(token, key)


def sign_token(token: Token, key: Ed25519PrivateKey) -> Token:
    """`token` with the signature that `key` makes over its hash; the algorithm and the key's name stay as they are."""
    return evolve(token, signature=evolve(token.signature, sig=key.sign(hash_token(token))))
