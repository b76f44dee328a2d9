"""Whether an RCX capability token can be relied on: its signature, and the basic validation (protocol contract 9.3)."""

from collections.abc import Iterable, Mapping

from attrs import frozen

from crux.domain.rcx_token import (
    CUSTOMER_BACKEND_PREFIX,
    HOSTED_BACKEND,
    SPEC_VERSION,
    Backend,
    Capability,
    EnterpriseScope,
    TeamScope,
    Token,
    hash_token,
)
from crux.domain.signing import signature_holds

ALGORITHM = "ed25519"

# A code, what is wrong where it applies, and whether it does.
_Check = tuple[str, str, bool]


@frozen
class Issue:
    """One thing that is wrong with a token."""

    code: str
    message: str


@frozen
class ExaminedToken:
    """A token with all that stays true of it, found once: each of a listing's decisions then costs no signature check.

    The verdict is kept with the token and not under its hash: a forged signature leaves the hash as it is.
    """

    token: Token
    token_hash: str
    signature_holds: bool
    lasting_issues: tuple[Issue, ...]
    _permitted: Mapping[tuple[str, str], Capability]

    def permitted(self, backend_id: str, capability: str) -> Capability | None:
        """What the token says of exactly this capability on exactly this backend."""
        return self._permitted.get((backend_id, capability))

    def is_sound(self, *, now_s: int) -> bool:
        """Whether the token is one to go by: signed, without delegation, nothing wrong but that it may have expired."""
        signed = self.signature_holds and not self.token.contextual
        return signed and not self.lasting_issues and self.token.issued_at <= now_s


def examine(token: Token, issuer_key: bytes | None) -> ExaminedToken:
    """Check `token` against the trusted issuer's public key (32 raw bytes); without one no signature holds."""
    digest = hash_token(token)
    permitted: dict[tuple[str, str], Capability] = {}
    for backend in token.backends:
        for capability in backend.permitted_capabilities:
            permitted.setdefault((backend.backend_id, capability.capability), capability)
    return ExaminedToken(
        token=token,
        token_hash=digest.hex(),
        signature_holds=issuer_key is not None and signature_holds(issuer_key, digest, token.signature.sig),
        lasting_issues=_lasting_issues(token),
        permitted=permitted,
    )


def basic_issues(token: Token, *, now_s: int) -> tuple[Issue, ...]:
    """All that is wrong with `token` at `now_s`, its signature apart."""
    return (*_lasting_issues(token), *_found(_of_the_hour(token, now_s)))


def _lasting_issues(token: Token) -> tuple[Issue, ...]:
    checks = list(_of_the_token(token))
    if token.team_scope is not None:
        checks += _of_the_team(token.team_scope)
    if token.enterprise_scope is not None:
        checks += _of_the_enterprise(token.enterprise_scope, token.backends)
    return _found(checks)


def _found(checks: Iterable[_Check]) -> tuple[Issue, ...]:
    return tuple(Issue(code, message) for code, message, broken in checks if broken)


def _of_the_hour(token: Token, now_s: int) -> tuple[_Check, ...]:
    return (
        ("token_not_yet_valid", "issued_at lies in the future", token.issued_at > now_s),
        ("token_expired", "expires_at has passed", token.expires_at <= now_s),
    )


def _of_the_token(token: Token) -> tuple[_Check, ...]:
    signature, tier = token.signature, token.tier
    misnamed = signature.kid != token.issuer.passport_kid
    late = token.refresh_hint_at >= token.expires_at
    no_team = tier == "team" and token.team_scope is None
    no_enterprise = tier == "enterprise" and token.enterprise_scope is None
    return (
        ("invalid_spec_version", f"spec_version is not {SPEC_VERSION}", token.spec_version != SPEC_VERSION),
        ("missing_token_id", "token_id is blank", _blank(token.token_id)),
        ("invalid_refresh_hint", "refresh_hint_at is not before expires_at", late),
        ("unsupported_signature_alg", f"signature.alg is not {ALGORITHM}", signature.alg != ALGORITHM),
        ("signature_kid_mismatch", "signature.kid is not issuer.passport_kid", misnamed),
        ("missing_backend", "backends is empty", not token.backends),
        ("missing_team_scope", "a team token has no team_scope", no_team),
        ("missing_enterprise_scope", "an enterprise token has no enterprise_scope", no_enterprise),
    )


def _of_the_team(scope: TeamScope) -> tuple[_Check, ...]:
    no_agent = _blank(scope.pooled_credit_agent_id)
    return (
        ("missing_team_id", "team_scope.team_id is blank", _blank(scope.team_id)),
        ("missing_pooled_credit_agent_id", "team_scope.pooled_credit_agent_id is blank", no_agent),
        ("missing_principal_scope", "team_scope names no principal", not scope.principal_passport_fprs),
    )


def _of_the_enterprise(scope: EnterpriseScope, backends: tuple[Backend, ...]) -> tuple[_Check, ...]:
    own = [backend for backend in backends if backend.backend_id == scope.backend_id]
    foreign = not scope.backend_id.startswith(CUSTOMER_BACKEND_PREFIX)
    mismatch = any(backend.trust_root_kid != scope.trust_root_kid for backend in own)
    leak = scope.airgap and any(backend.backend_id == HOSTED_BACKEND for backend in backends)
    return (
        ("missing_enterprise_customer_id", "enterprise_scope.customer_id is blank", _blank(scope.customer_id)),
        (
            "invalid_enterprise_backend",
            f"the enterprise backend's id does not start with {CUSTOMER_BACKEND_PREFIX}",
            foreign,
        ),
        ("missing_enterprise_trust_root", "enterprise_scope.trust_root_kid is blank", _blank(scope.trust_root_kid)),
        ("trust_root_mismatch", "the enterprise backend has another trust root than its scope", mismatch),
        ("enterprise_backend_missing", "the enterprise backend is not among the backends", not own),
        ("backend_not_permitted", f"an airgap token lists {HOSTED_BACKEND}", leak),
    )


def _blank(text: str) -> bool:
    return not text.strip()
