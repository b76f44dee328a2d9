"""The settings of the MCP port as an OAuth resource server, and of what it publishes about itself."""

import re
from urllib.parse import urlsplit

from attrs import frozen

from crux.config import parsers
from crux.config.declaration import Group, setting
from crux.domain.agents import NAME_SHAPE, is_agent_name

DEFAULT_AUTH_SERVER = "https://api.vaultcrux.com"

# What a URI is made of (RFC 3986 section 2), without the number sign.
_URI = re.compile(r"[A-Za-z0-9._~:/?@!$&'()*+,;=%\[\]-]+")


def _resource(value: str) -> str:
    """A resource identifier, which has no fragment (RFC 8707 section 2). It is published, so it holds no password."""
    url = value.strip()
    authority = re.split(r"[/?]", url.partition("://")[2], maxsplit=1)[0]
    if _URI.fullmatch(url) is None or "@" in authority:
        raise ValueError("the URL that clients call, such as https://crux.example/mcp, without user name or fragment")
    return url


def _endpoint(value: str) -> str:
    """A URL that can be called. Secrets belong elsewhere."""
    url = value.strip()
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        usable = False
    if _URI.fullmatch(url) is None or not usable:
        raise ValueError("an http or https URL without user name or fragment")
    return url


def _tenant(value: str) -> str:
    name = value.strip()
    if not is_agent_name(name):
        raise ValueError(NAME_SHAPE)
    return name


def _credential(value: str) -> str:
    """Any text that JSON can carry, exactly as given."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError("text in UTF-8") from None
    return value


def _card(value: str) -> bool:
    return value.strip().lower() in ("1", "true")


@frozen(kw_only=True, slots=False)
class OAuthSettings:
    """The part of `Settings` that is about OAuth and the agent card."""

    mcp_resource_url: str | None = setting(
        None,
        env="CRUX_MCP_RESOURCE_URL",
        group=Group.OAUTH,
        parse=_resource,
        meaning="URL under which clients know the MCP port; publishes the metadata of the resource and is named in "
        "each 401. See [oauth.md](oauth.md).",
    )
    mcp_auth_server: str = setting(
        DEFAULT_AUTH_SERVER,
        env="CRUX_MCP_AUTH_SERVER",
        group=Group.OAUTH,
        parse=_endpoint,
        meaning="The authorization server whose tokens are taken.",
    )
    mcp_introspect_url: str | None = setting(
        None,
        env="CRUX_MCP_INTROSPECT_URL",
        group=Group.OAUTH,
        parse=_endpoint,
        default_shown="`/v1/auth/introspect` of the authorization server",
        meaning="Where the daemon asks about tokens.",
    )
    mcp_introspect_client_id: str | None = setting(
        None,
        env="CRUX_MCP_INTROSPECT_CLIENT_ID",
        group=Group.OAUTH,
        parse=_credential,
        meaning="The daemon's own name there. OAuth tokens are taken where this, the secret and the resource are set.",
    )
    mcp_introspect_client_secret: str | None = setting(
        None,
        env="CRUX_MCP_INTROSPECT_CLIENT_SECRET",
        group=Group.OAUTH,
        parse=_credential,
        secret=True,
        meaning="The daemon's own secret there.",
    )
    mcp_oauth_tenant: str = setting(
        "work",
        env="CRUX_MCP_OAUTH_TENANT",
        group=Group.OAUTH,
        parse=_tenant,
        meaning="The one name that all callers with an OAuth token have; they read what is private to it.",
    )
    mcp_require_resource_aud: bool = setting(
        False,
        env="CRUX_MCP_REQUIRE_RESOURCE_AUD",
        group=Group.OAUTH,
        parse=parsers.switch,
        meaning="Refuses OAuth tokens whose `aud` names other resources only.",
    )
    mcp_require_auth: bool = setting(
        False,
        env="CRUX_MCP_REQUIRE_AUTH",
        group=Group.OAUTH,
        parse=parsers.switch,
        meaning="Lets nobody into MCP without a token, as is so anyway where agents have tokens.",
    )
    agent_card: bool = setting(
        True,
        env="CRUX_AGENT_CARD",
        group=Group.OAUTH,
        parse=_card,
        meaning="Whether `/.well-known/agent-card` is served: `1` or `true`; any other value is no.",
    )

    @property
    def oauth_enabled(self) -> bool:
        """Whether OAuth tokens are taken at all."""
        return all((self.mcp_resource_url, self.mcp_introspect_client_id, self.mcp_introspect_client_secret))
