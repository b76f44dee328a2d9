"""Who is calling MCP (seed 11.8, protocol contract 3.1, Decision 45)."""

from collections.abc import Sequence
from typing import Final

from attrs import field, frozen

from crux.actors.introspection import INTROSPECTION_S, IntrospectToken
from crux.actors.mailbox import Mailbox
from crux.config import Settings
from crux.domain.agents import Agent, AgentRegistry
from crux.domain.oauth import READ_SCOPE, challenge
from crux.errors import SettingError, Unauthorized
from crux.transport.gates import bearer_token

# The Introspector answers well before this, unless it does not come to the question at all.
_LATEST_S = INTROSPECTION_S + 5


@frozen
class Caller:
    """Whoever makes a request; `agent` is None for the anonymous one.

    One with an OAuth token may only read; `subject` is the hash that tells it from others of its tenant.
    """

    agent: Agent | None = None
    read_only: bool = False
    subject: bytes | None = None

    @property
    def subject_shown(self) -> str | None:
        """What tells the subject apart in the log, and says nothing about it."""
        return None if self.subject is None else self.subject.hex()[:12]


@frozen
class Presented:
    """A bearer token that is no agent's: the authorization server knows who calls."""

    token: str = field(repr=False)


@frozen
class OAuth:
    """Where tokens that are no agent's are looked up, and the name that all who hold one have."""

    introspection: Mailbox
    tenant: str


_ANONYMOUS: Final = Caller()


class McpAuthenticator:
    """Tells who calls MCP.

    With `required`, or where agents have tokens, nobody is anonymous. `names` are those that callers may have;
    `challenge` is the header that goes with each 401, where there is a resource to name.
    """

    def __init__(
        self,
        registry: AgentRegistry,
        oauth: OAuth | None = None,
        *,
        required: bool = False,
        resource_url: str | None = None,
    ) -> None:
        self._registry = registry
        self._oauth = oauth
        self.required = required or bool(registry)
        self.has_agents = bool(registry)
        self.has_oauth = oauth is not None
        self.names = registry.names if oauth is None else registry.names | {oauth.tenant}
        self.challenge: tuple[tuple[bytes, bytes], ...] = (
            () if resource_url is None else ((b"www-authenticate", challenge(resource_url).encode()),)
        )

    def authenticate(self, headers: Sequence[tuple[bytes, bytes]]) -> Caller | Presented:
        """Who calls, as far as the daemon knows by itself; what is `Presented` is for `introspect`.

        Raises `Unauthorized`, whose message is the hint of the 401 body.
        """
        if not self.required and self._oauth is None:
            return _ANONYMOUS
        token = bearer_token(headers)
        if token is None:
            if not self.required:
                return _ANONYMOUS
            wanted = "" if self._oauth is None else f" or an OAuth access token with the scope {READ_SCOPE}"
            raise Unauthorized(f"send one header 'Authorization: Bearer <token>' with an agent's token{wanted}")
        if (agent := self._registry.find(token)) is not None:
            return Caller(agent)
        if self._oauth is None:
            raise Unauthorized(
                "the bearer token belongs to no agent of this daemon: "
                "compare it with CRUX_AGENT_TOKEN or CRUX_AGENT_TOKENS as set when the daemon started"
            )
        return Presented(token)

    async def introspect(self, presented: Presented) -> Caller:
        """Who calls with this token.

        Raises `Unauthorized` where the authorization server does not vouch for it, or gives no answer; `Overloaded`,
        or what else kept the Introspector from answering.
        """
        assert self._oauth is not None, "only a configured server makes a token `Presented`"
        found = await self._oauth.introspection.ask(IntrospectToken(presented.token), deadline_s=_LATEST_S)
        if found.identity is None:
            raise Unauthorized(
                "the bearer token belongs to no agent of this daemon, and the authorization server does not say that "
                f"it is active, has the scope {READ_SCOPE} and is meant for this resource"
            )
        return Caller(Agent(found.identity.name), read_only=True, subject=found.identity.token_hash)


def check_token_to_require(settings: Settings, registry: AgentRegistry) -> None:
    """Raise `SettingError` where MCP callers need a token and none would do."""
    if settings.mcp_enabled and settings.mcp_require_auth and not registry and not settings.oauth_enabled:
        raise SettingError(
            "CRUX_MCP_REQUIRE_AUTH=1 without any token to ask for: set CRUX_AGENT_TOKEN or CRUX_AGENT_TOKENS, or "
            "CRUX_MCP_RESOURCE_URL with CRUX_MCP_INTROSPECT_CLIENT_ID and CRUX_MCP_INTROSPECT_CLIENT_SECRET"
        )
