"""The MCP port as an OAuth resource server: what it publishes, whose token it takes, and what that opens.

Source: seed 11.1, 11.5 and 11.8, protocol contract 3.1 and 4, RFC 9728, RFC 7662.
"""

import re
from collections.abc import Mapping
from typing import Final

import msgspec
from attrs import field, frozen
from blake3 import blake3

from crux.domain.bounds import NAME_SHOWN
from crux.errors import METHOD_NOT_FOUND, CruxError

READ_SCOPE: Final = "mcp:read"
METADATA_PATH: Final = "/.well-known/oauth-protected-resource"
# How long a server's word counts, at most.
LONGEST_CACHED_S: Final = 60.0

# Of the seed's list of methods only those that exist (Decision 49).
_READ_METHODS = frozenset({"initialize", "notifications/initialized", "tools/list"})
READ_TOOLS: Final = frozenset(
    {
        "coord_status",
        "get_bootstrap",
        "get_session",
        "list_sessions",
        "query",
        "query_expand",
        "query_facts",
        "query_scan",
        "receipt_verify",
        "sync_status",
    }
)
# RFC 6750 section 2.1. What has another form, or is longer than any real token, is not worth asking about.
_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_LONGEST_TOKEN = 8192


class ReadOnlyCaller(CruxError):
    """A method or tool that callers with an OAuth token may not use."""

    code = METHOD_NOT_FOUND


class TokenState(msgspec.Struct, frozen=True):
    """What an authorization server says of a token (RFC 7662 section 2.2). `exp` is in Unix seconds.

    `client_id` decides nothing; it is read so that an answer in which it has the wrong type is not believed.
    """

    active: bool = False
    scope: str | None = None
    sub: str | None = None
    client_id: str | None = None
    aud: str | tuple[str, ...] | None = None
    exp: int | None = None


_decode: Final = msgspec.json.Decoder(TokenState).decode


@frozen
class OAuthIdentity:
    """Who calls with a token: all of a daemon's share one `name`, and `token_hash` tells their subjects apart."""

    name: str
    token_hash: bytes = field(repr=False)


@frozen
class AccessRules:
    """Which tokens open the resource, and as whom."""

    resource_url: str
    tenant: str
    require_audience: bool = False

    def identity_of(self, state: TokenState) -> OAuthIdentity | None:
        """Who calls with an active token of this state; None where it does not open this resource.

        With `require_audience` the token has to name this resource, or no audience at all (protocol contract 4.2).
        """
        if READ_SCOPE not in (state.scope or "").split():
            return None
        if self.require_audience and (named := _audience(state)) and self.resource_url not in named:
            return None
        seed = f"oauth-mcp:{self.tenant}:{state.sub or 'anon'}"
        return OAuthIdentity(self.tenant, blake3(seed.encode()).digest())


def metadata(resource_url: str, auth_server: str) -> Mapping[str, object]:
    """The protected resource's metadata (RFC 9728 section 2)."""
    return {
        "resource": resource_url,
        "authorization_servers": [auth_server],
        "scopes_supported": [READ_SCOPE],
        "bearer_methods_supported": ["header"],
    }


def challenge(resource_url: str) -> str:
    """The `WWW-Authenticate` of a 401: where the metadata is (RFC 9728 section 5.1).

    A URL without scheme or host is taken for a base as it stands.
    """
    scheme, separator, rest = resource_url.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    base = f"{scheme}://{authority}" if separator and authority else resource_url.rstrip("/")
    return f'Bearer resource_metadata="{base}{METADATA_PATH}"'


def introspection_endpoint(auth_server: str, introspect_url: str | None) -> str:
    """Where tokens are asked about."""
    return introspect_url or f"{auth_server.rstrip('/')}/v1/auth/introspect"


def may_be_token(text: str) -> bool:
    """Whether `text` has the form of a bearer token at all."""
    return len(text) <= _LONGEST_TOKEN and _BEARER.fullmatch(text) is not None


def read_introspection(body: bytes) -> TokenState | None:
    """The state of a token, active or not; None for what is no answer: no JSON, or with an ill-typed member."""
    try:
        return _decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return None


def lifetime_s(state: TokenState, now_us: int) -> float:
    """Seconds for which the answer may be used again; none when 0 or less. `now_us` is in Unix microseconds."""
    return LONGEST_CACHED_S if state.exp is None else min(state.exp - now_us / 1_000_000, LONGEST_CACHED_S)


def check_readable(method: str, params: object) -> None:
    """Raise `ReadOnlyCaller` unless a caller with an OAuth token may make this request (protocol contract 4.3)."""
    if method in _READ_METHODS:
        return
    name = method
    if method == "tools/call" and isinstance(params, dict) and isinstance(tool := params.get("name"), str):
        if tool in READ_TOOLS:
            return
        name = tool
    # The text is the seed's (11.5).
    raise ReadOnlyCaller(f"'{name[:NAME_SHOWN]}' is not available to read-only OAuth callers ({READ_SCOPE} scope)")


def _audience(state: TokenState) -> tuple[str, ...]:
    """The resources that the token names; blank ones name nothing."""
    named = (state.aud,) if isinstance(state.aud, str) else state.aud or ()
    return tuple(filter(None, named))
