"""Who is calling, and what that lets the call see and do (HTTP API contract section 2, protocol 3.1, Decision 6)."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

import jwt
from attrs import field, frozen
from jwt.algorithms import HMACAlgorithm

from crux.config import STRONG_SECRET_BYTES, AuthMode, Settings
from crux.domain.agents import Agent, AgentRegistry
from crux.domain.posture import check_bind_posture
from crux.domain.privacy import ANONYMOUS, RAW_ADMIN, Viewer
from crux.errors import Forbidden, InvalidArgument, SettingError, Unauthorized
from crux.transport.gates import PASSPORT, Refusal, bearer_token, passport_header

SCOPES: Final = b"x-corecrux-scopes"

ADMIN_READ: Final = "admin:read"
ADMIN_WRITE: Final = "admin:write"

_IMPERSONATION = frozenset({"passport:impersonate", ADMIN_WRITE})
_PASSPORT_CLAIMS = ("passport_id", "passportId", "passport", "passport_fpr", "passportFpr", "pid", "sub", "subject")
_SUBJECT_CLAIMS = ("sub", "subject")

_CREDENTIALS = frozenset({b"authorization", SCOPES, PASSPORT})

_SCOPE = re.compile(r"[a-z]+(?::[a-z]+)+")
_HTTP_SCHEMES = (b"Bearer ", b"bearer ")
_LEEWAY_S = 30

# What may be said of a token that does not hold: no part of it.
_JWT_FAULTS: Mapping[type[jwt.PyJWTError], str] = {
    jwt.ExpiredSignatureError: "it has expired",
    jwt.ImmatureSignatureError: "it is not valid yet (nbf)",
    jwt.InvalidAudienceError: "its aud is not the expected one",
    jwt.InvalidIssuerError: "its iss is not the expected one",
    jwt.InvalidSignatureError: "its signature is not by this daemon's key",
    jwt.MissingRequiredClaimError: "it lacks exp, or an iss or aud that is expected here",
}
_NO_JWT = "it is neither an agent's token nor a well-formed JWT signed with HS256"


@frozen
class Principal:
    """The caller of one HTTP request.

    `name` is the agent's name or the JWT's subject, for the record; `passport` is whom the call acts as. `scopes` is
    None where every check passes. A `confined` caller declared its own scopes while agents have tokens, and so never
    sees what is theirs. A `bound` one acts as `passport` and nobody else, wherever the request names a passport. An
    `agent` holds a token that is not the operator's.
    """

    name: str | None
    passport: str | None
    scopes: frozenset[str] | None
    confined: bool = False
    bound: bool = False
    agent: bool = False

    def has_any(self, *scopes: str) -> bool:
        return self.scopes is None or not self.scopes.isdisjoint(scopes)

    def require_any(self, *scopes: str) -> None:
        """Raise `Forbidden` unless the caller has at least one of `scopes`."""
        if not self.has_any(*scopes):
            raise Forbidden(
                f"this needs one of the scopes {', '.join(scopes)}",
                data={"code": "MISSING_SCOPE", "missingAnyScope": list(scopes)},
            )

    def require_all(self, *scopes: str) -> None:
        """Raise `Forbidden` unless the caller has every one of `scopes`."""
        missing = [scope for scope in scopes if not self.has_any(scope)]
        if missing:
            raise Forbidden("insufficient scopes", data={"code": "MISSING_SCOPE", "missingScopes": missing})

    def require_operator(self) -> None:
        """Raise `Forbidden` for an agent: what it may reach is not its own to decide."""
        if self.agent:
            raise Forbidden(
                f"this is for operators, and the token is that of the agent '{self.name}'",
                data={"code": "OPERATORS_ONLY"},
            )

    def acting_as(self, passport: str | None) -> str | None:
        """Whom a call acts as whose body names `passport`; without one, the caller's own (Decision 6).

        Raises `Forbidden` where the caller may not act as that one.
        """
        if passport is None or passport == self.passport:
            return self.passport
        if self.bound:
            own = "no passport" if self.passport is None else f"'{self.passport}' only"
            raise Forbidden(
                f"this credential acts as {own}: leave passport_fpr out, or use a credential that may name others",
                data={"code": "PASSPORT_MISMATCH"},
            )
        return passport

    @property
    def viewer_for_read(self) -> Viewer:
        return self._viewer(ADMIN_READ)

    @property
    def viewer_for_write(self) -> Viewer:
        return self._viewer(ADMIN_WRITE)

    def _viewer(self, raw_scope: str) -> Viewer:
        """The passport's eyes; without one an administrator's, who sees all, or a stranger's (HTTP contract 4.2)."""
        if self.passport is not None:
            return Viewer(owners=(self.passport,))
        return RAW_ADMIN if self.has_any(raw_scope) and not self.confined else ANONYMOUS


NOBODY: Final = Principal(None, None, frozenset())


@frozen
class JwtRules:
    """What a JWT has to satisfy: the HS256 key of its signature and, where not None, its issuer and audience.

    Raises `SettingError` for a key under 32 bytes (RFC 7518 section 3.2; one is enough with `allow_weak`) and for one
    that is the PEM or SSH form of a key pair, whose public half is no secret (RFC 8725 section 2.1).
    """

    key: bytes = field(repr=False)
    issuer: str | None = None
    audience: str | None = None
    allow_weak: bool = False

    def __attrs_post_init__(self) -> None:
        if len(self.key) < (1 if self.allow_weak else STRONG_SECRET_BYTES):
            raise SettingError(
                f"CORECRUXD_JWT_HS256_SECRET has {len(self.key)} bytes: expected at least {STRONG_SECRET_BYTES} "
                "(CORECRUXD_ALLOW_WEAK_HS256_SECRET=1 accepts fewer)"
            )
        try:
            HMACAlgorithm(HMACAlgorithm.SHA256).prepare_key(self.key)
        except jwt.InvalidKeyError:
            raise SettingError(
                "CORECRUXD_JWT_HS256_SECRET is the file of a key pair: HS256 needs a secret, such as 32 random bytes"
            ) from None

    def claims(self, token: str) -> Mapping[str, object]:
        """The claims of a token that holds; raises `Unauthorized` for any other. `exp` is required (RFC 7519 4.1.4)."""
        try:
            return jwt.decode(
                token,
                # HMAC fills a short key with zeros itself (RFC 2104), so this is the same key, without PyJWT's warning.
                self.key.ljust(STRONG_SECRET_BYTES, b"\0"),
                algorithms=["HS256"],
                issuer=self.issuer,
                audience=self.audience,
                leeway=_LEEWAY_S,
                options={"require": ["exp"], "verify_iat": False, "verify_aud": self.audience is not None},
            )
        except jwt.PyJWTError as error:
            raise _unauthenticated(f"the bearer token was refused: {_JWT_FAULTS.get(type(error), _NO_JWT)}") from None


class HttpAuthenticator:
    """Tells who calls the HTTP API, from the request's headers alone.

    An agent token is looked for first, in every mode but `off`. `agent_scopes` is what the operator's token may do; the
    other agents have the same without `admin:write`. Raises `SettingError` when `jwt_hs256` comes without rules.
    """

    def __init__(
        self,
        mode: AuthMode,
        registry: AgentRegistry,
        agent_scopes: frozenset[str],
        jwt_rules: JwtRules | None = None,
    ) -> None:
        if mode is AuthMode.JWT_HS256 and jwt_rules is None:
            raise SettingError("CORECRUXD_AUTH_MODE=jwt_hs256 needs a key: set CORECRUXD_JWT_HS256_SECRET")
        self._mode = mode
        self._registry = registry
        self._operator_scopes = agent_scopes
        self._agent_scopes = agent_scopes - {ADMIN_WRITE}
        self._jwt_rules = jwt_rules if mode is AuthMode.JWT_HS256 else None

    def authenticate(self, headers: Sequence[tuple[bytes, bytes]]) -> Principal:
        """The caller; raises `Unauthorized`, `Forbidden`, or `InvalidArgument` for a malformed passport header."""
        passport = passport_header(headers)
        if isinstance(passport, Refusal):
            raise InvalidArgument(passport.hint, data={"code": passport.error})
        if self._mode is AuthMode.OFF:
            return Principal(None, passport, scopes=None)
        token = bearer_token(headers, _HTTP_SCHEMES)
        token = token.strip() if token is not None else None
        if token and (agent := self._registry.find(token)) is not None:
            return self._as_agent(agent, passport)
        if self._jwt_rules is not None:
            return _from_jwt(self._jwt_rules, token, passport)
        scopes = _declared_scopes(headers, token)
        if self._registry and scopes is not None and not all(map(_SCOPE.fullmatch, scopes)):
            raise _unauthenticated("the bearer token belongs to no agent of this daemon, and is no list of scopes")
        return self._self_declared(scopes, passport)

    def recognise(self, headers: Sequence[tuple[bytes, bytes]]) -> Principal:
        """The caller of a route that asks for no scope: nobody, where it says nothing of itself.

        Raises as `authenticate` does for one that does, and for all where agents have tokens: no caller is anonymous
        there (Decision 19).
        """
        if not self._registry and all(name not in _CREDENTIALS for name, _ in headers):
            return NOBODY
        principal = self.authenticate(headers)
        if self._registry and principal.passport is None:
            raise _unauthenticated("where agents have tokens, say who you are: 'Authorization: Bearer <token>'")
        return principal

    def _as_agent(self, agent: Agent, passport: str | None) -> Principal:
        if agent.operator:
            return Principal(agent.name, passport or agent.name, self._operator_scopes)
        if passport not in (None, agent.name):
            raise Forbidden(
                f"this token is agent '{agent.name}', who acts as itself only: leave X-Corecrux-Passport-Id out",
                data={"code": "PASSPORT_HEADER_MISMATCH"},
            )
        return Principal(agent.name, agent.name, self._agent_scopes, bound=True, agent=True)

    def _self_declared(self, scopes: frozenset[str] | None, passport: str | None) -> Principal:
        if scopes is None:
            raise _unauthenticated(
                "say what you may do: send X-Corecrux-Scopes (for example 'query:read facts:write'), "
                "or an agent's token as 'Authorization: Bearer <token>'"
            )
        if self._registry and passport is not None:
            # Whatever the name: what an agent kept to itself stays its own when its token is withdrawn.
            raise Forbidden(
                "where agents have tokens, a passport needs one: send it as 'Authorization: Bearer <token>', "
                "or leave X-Corecrux-Passport-Id out",
                data={"code": "PASSPORT_HEADER_UNBOUND"},
            )
        return Principal(None, passport, scopes, confined=bool(self._registry), bound=bool(self._registry))


def auth_mode_of(settings: Settings, registry: AgentRegistry) -> AuthMode:
    """The mode of the HTTP API in effect; raises `StartRefused` where it would trust strangers (`domain.posture`)."""
    return AuthMode(
        check_bind_posture(
            auth_mode=settings.auth_mode.value if settings.auth_mode else None,
            http_host=settings.http_host,
            mcp_host=settings.mcp_host if settings.mcp_enabled else None,
            mcp_guarded=bool(registry) or (settings.mcp_require_auth and settings.oauth_enabled),
            allow_insecure_bind=settings.allow_insecure_bind,
        )
    )


def authenticator_of(settings: Settings, registry: AgentRegistry) -> HttpAuthenticator:
    """The authenticator that the settings ask for; raises `StartRefused` where they are unsafe or do not suffice."""
    rules = None
    if settings.jwt_hs256_secret is not None:
        rules = JwtRules(
            settings.jwt_hs256_secret, settings.jwt_issuer, settings.jwt_audience, settings.allow_weak_hs256_secret
        )
    return HttpAuthenticator(auth_mode_of(settings, registry), registry, settings.agent_token_http_scopes, rules)


def _declared_scopes(headers: Sequence[tuple[bytes, bytes]], token: str | None) -> frozenset[str] | None:
    """Scopes as development clients name them: a header of their own, else the bearer; None where there is neither."""
    lists = [value.decode("latin-1") for name, value in headers if name == SCOPES]
    if not lists and token is not None:
        lists = [token]
    return frozenset(",".join(lists).replace(",", " ").split()) if lists else None


def _from_jwt(rules: JwtRules, token: str | None, header: str | None) -> Principal:
    if token is None:
        raise _unauthenticated("send a JWT, or an agent's token, as 'Authorization: Bearer <token>'")
    claims = rules.claims(token)
    scopes = _claimed_scopes(claims)
    claimed = _first_text(claims, _PASSPORT_CLAIMS)
    bound = scopes.isdisjoint(_IMPERSONATION)
    if bound and header not in (None, claimed):
        if claimed is None:
            raise Forbidden(
                "the JWT names no passport: leave X-Corecrux-Passport-Id out, or use a JWT with the scope "
                "passport:impersonate or admin:write",
                data={"code": "PASSPORT_HEADER_UNBOUND"},
            )
        raise Forbidden(
            "X-Corecrux-Passport-Id differs from the JWT's passport: leave it out, or use a JWT with the scope "
            "passport:impersonate or admin:write",
            data={"code": "PASSPORT_HEADER_MISMATCH"},
        )
    return Principal(_first_text(claims, _SUBJECT_CLAIMS), header or claimed, scopes, bound=bound)


def _claimed_scopes(claims: Mapping[str, object]) -> frozenset[str]:
    """The union of every claim that lists scopes; text is split on blanks (RFC 8693 section 4.2)."""
    found: set[str] = set()
    for claim in ("scope", "scp", "scopes", "permissions"):
        match claims.get(claim):
            case str(text):
                found.update(text.split())
            case list(items):
                found.update(item for item in items if isinstance(item, str))
    return frozenset(found)


def _first_text(claims: Mapping[str, object], names: tuple[str, ...]) -> str | None:
    for name in names:
        value = claims.get(name)
        # A name is stored and shown: no lone surrogates, no control characters.
        if isinstance(value, str) and value and value.isprintable():
            return value
    return None


def _unauthenticated(hint: str) -> Unauthorized:
    return Unauthorized(hint, data={"code": "UNAUTHENTICATED", "hint": hint})
