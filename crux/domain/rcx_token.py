"""The RCX capability token: what its bearer may do, on which backend, until when (protocol contract 9.1 and 9.2).

A token is canonical CBOR (RFC 8949 4.2.1). Its hash covers everything but the signature's bytes, and the signature
covers the hash. Fields are named and ordered as on the wire; instants are Unix seconds.
"""

from base64 import b64decode
from typing import Annotated, Final, Literal

import cbor2
import msgspec
from attrs import evolve, frozen
from blake3 import blake3

from crux.domain.signing import SIGNATURE_BYTES
from crux.errors import SettingError

SPEC_VERSION = "rcx-ct/1.0"
CONTEXTUAL_SPEC_VERSION = "rcx-ct/1.1"
LOCAL_BACKEND = "local"
HOSTED_BACKEND = "hosted.vaultcrux.com"
CUSTOMER_BACKEND_PREFIX = "customer:"

Tier = Literal["free", "pro", "team", "enterprise"]
ReceiptClass = Literal["verified", "dev", "replay"]
Egress = Literal[
    "none", "vectors", "receipt_hashes", "constraint_records", "decision_records", "encrypted_blob", "text"
]
Fallback = Literal["degrade_to_local", "refuse", "queue"]

_MOST = 2**63 - 1
_DEEPEST = 16
Unsigned = Annotated[int, msgspec.Meta(ge=0, le=_MOST)]
Balance = Annotated[int, msgspec.Meta(ge=-_MOST, le=_MOST)]
SignatureBytes = Annotated[bytes, msgspec.Meta(min_length=SIGNATURE_BYTES, max_length=SIGNATURE_BYTES)]


@frozen(kw_only=True)
class Issuer:
    """Who made the token: the fingerprint of the signing key, and its organisation."""

    passport_kid: str
    issuer_org: str


@frozen(kw_only=True)
class Subject:
    """Whom the token is for."""

    passport_fpr: str
    daemon_instance_id: str | None = None


@frozen(kw_only=True)
class TenantScope:
    """The tenant whose data the token is about."""

    tenant_id: str
    display_name: str | None = None


@frozen(kw_only=True)
class TeamScope:
    """The team whose credits are drawn on, and who belongs to it."""

    team_id: str
    seat_id: str | None = None
    seat_role: Literal["owner", "admin", "member", "viewer"] | None = None
    pooled_credit_agent_id: str
    principal_passport_fprs: tuple[str, ...]


@frozen(kw_only=True)
class EnterpriseScope:
    """The customer's own backend; with `airgap` nothing may leave for the hosted one."""

    customer_id: str
    contract_id: str | None = None
    backend_id: str
    endpoint_url: str
    trust_root_kid: str
    airgap: bool
    cross_signed_by_vaultcrux: bool


@frozen(kw_only=True)
class CreditCost:
    """What one unit of a capability's use costs, in credits."""

    unit: Literal["call", "token", "byte"]
    cost: Unsigned


@frozen(kw_only=True)
class Capability:
    """One thing that may be done, what data may leave for it, and what must be attested and paid."""

    capability: str
    data_egress_classes: tuple[Egress, ...]
    required_attestations: tuple[str, ...] = ()
    credit_cost: CreditCost | None = None


@frozen(kw_only=True)
class Backend:
    """Where capabilities are carried out."""

    backend_id: str
    trust_root_kid: str
    endpoint_url: str | None = None
    permitted_capabilities: tuple[Capability, ...]


@frozen(kw_only=True)
class Refill:
    """How often the balance is filled up, and by how many credits."""

    period: Literal["daily", "monthly", "none"]
    amount: Unsigned | None = None


@frozen(kw_only=True)
class Credits:
    """What may be spent; a null balance is 0, and may be negative after an overdraft."""

    balance: Balance | None = None
    refill: Refill
    overdraft: Literal["forbid", "warn", "allow_to_limit"]
    overdraft_limit: Unsigned | None = None


@frozen(kw_only=True)
class Fallbacks:
    """What becomes of a call that cannot be carried out as asked."""

    on_backend_unreachable: Fallback
    on_credits_exhausted: Fallback
    on_expiry: Fallback
    queue_ttl_seconds: Unsigned | None = None


@frozen(kw_only=True)
class Revocation:
    """Where revocations are published. Nothing here consults it, and each decision's stamp says so."""

    crl_url: str | None = None
    push_channel: str | None = None


@frozen(kw_only=True)
class Signature:
    """Ed25519 over the token's 32 hash bytes, by the key with the fingerprint `kid`."""

    alg: str
    kid: str
    sig: SignatureBytes


@frozen(kw_only=True)
class Token:
    """A capability token. The two delegation fields are kept as they came: they only mark the token as contextual."""

    spec_version: str
    token_id: str
    issued_at: Unsigned
    expires_at: Unsigned
    refresh_hint_at: Unsigned
    issuer: Issuer
    subject: Subject
    tenant_scope: TenantScope
    team_scope: TeamScope | None = None
    enterprise_scope: EnterpriseScope | None = None
    tier: Tier
    receipt_class: ReceiptClass
    backends: tuple[Backend, ...]
    credits: Credits
    fallback: Fallbacks
    revocation: Revocation
    delegation_policy: object = None
    delegation_envelope: object = None
    signature: Signature

    @property
    def contextual(self) -> bool:
        """Whether the token's meaning depends on a delegation, as from version 1.1 on."""
        delegated = self.delegation_policy is not None or self.delegation_envelope is not None
        return delegated or self.spec_version == CONTEXTUAL_SPEC_VERSION


_LEFT_OUT_WHEN_ABSENT: Final = ("team_scope", "enterprise_scope", "delegation_policy", "delegation_envelope")


def encode_token(token: Token) -> bytes:
    """The canonical CBOR of `token`; an absent scalar is a null that is there, an absent scope is not there."""
    fields = msgspec.to_builtins(token, builtin_types=(bytes,))
    for name in _LEFT_OUT_WHEN_ABSENT:
        if fields[name] is None:
            del fields[name]
    return cbor2.dumps(fields, canonical=True)


def hash_token(token: Token) -> bytes:
    """The 32 bytes that name the token and are signed: BLAKE3 of its CBOR with zeros for the signature's bytes."""
    unsigned = evolve(token, signature=evolve(token.signature, sig=bytes(SIGNATURE_BYTES)))
    return blake3(encode_token(unsigned)).digest()


def read_token(data: bytes) -> Token:
    """The token in a file's bytes: canonical CBOR, or base64url of it with any line breaks and padding (Decision 37).

    Raises `SettingError` for anything else, also for CBOR with a member that this version does not know: such a member
    would be signed, and not be understood.
    """
    # A token is a map, and the first byte of a CBOR map is never ASCII.
    cbor = _from_base64url(data) if data.isascii() else data
    try:
        token = msgspec.convert(_from_cbor(cbor), Token)
        canonical = encode_token(token)
    except (cbor2.CBORError, msgspec.ValidationError, RecursionError) as error:
        raise SettingError(f"the RCX token file holds no capability token: {error}") from error
    if canonical != cbor:
        raise SettingError("the RCX token file holds a token that is not canonical CBOR, or has unknown members")
    return token


def _from_cbor(cbor: bytes) -> object:
    return cbor2.loads(
        cbor, max_depth=_DEEPEST, allow_indefinite=False, allow_duplicate_keys=False, strict_hashable_types=True
    )


def _from_base64url(text: bytes) -> bytes:
    letters = b"".join(text.split()).rstrip(b"=")
    try:
        return b64decode(letters + b"=" * (-len(letters) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise SettingError("the RCX token file is neither CBOR nor base64url of it") from error
