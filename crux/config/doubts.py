"""What an operator may not have meant: settings that are taken as they are, and told of when the daemon starts."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from crux.config.oauth import DEFAULT_AUTH_SERVER
from crux.config.parsers import AuthMode
from crux.config.settings import Settings
from crux.domain.agents import AgentRegistry
from crux.domain.oauth import introspection_endpoint
from crux.domain.posture import is_loopback


def doubts(settings: Settings, registry: AgentRegistry) -> Iterator[str]:
    """One line each. `registry` holds the agents of these settings."""
    if settings.agent_token is not None and settings.agent_tokens is not None:
        yield "CRUX_AGENT_TOKEN is not used, and there is no operator: CRUX_AGENT_TOKENS is set too; unset one of them"
    if settings.auth_mode is AuthMode.OFF and registry:
        yield (
            "CORECRUXD_AUTH_MODE=off shows the private facts of every agent to whoever reaches the HTTP API: "
            "set dev_scopes or jwt_hs256"
        )
    if settings.allow_weak_hs256_secret:
        yield "a short JWT key is accepted: unset CORECRUXD_ALLOW_WEAK_HS256_SECRET"
    yield from _of_oauth(settings, registry)


def _of_oauth(settings: Settings, registry: AgentRegistry) -> Iterator[str]:
    """What of the OAuth settings the operator may not have meant, one line each."""
    needed = {
        "CRUX_MCP_RESOURCE_URL": settings.mcp_resource_url,
        "CRUX_MCP_INTROSPECT_CLIENT_ID": settings.mcp_introspect_client_id,
        "CRUX_MCP_INTROSPECT_CLIENT_SECRET": settings.mcp_introspect_client_secret,
    }
    if any(needed.values()) and settings.mcp_auth_server == DEFAULT_AUTH_SERVER:
        yield f"CRUX_MCP_AUTH_SERVER is not set: clients, and what is asked about tokens, go to {DEFAULT_AUTH_SERVER}"
    if not settings.oauth_enabled:
        if any(needed.values()):
            missing = ", ".join(name for name, value in needed.items() if not value)
            yield f"OAuth tokens are not taken, because of what is not set: {missing}"
        return
    endpoint = urlsplit(introspection_endpoint(settings.mcp_auth_server, settings.mcp_introspect_url))
    if endpoint.scheme == "http" and not is_loopback(endpoint.hostname or ""):
        yield f"tokens and the client secret go to {endpoint.hostname} unencrypted: use https"
    if settings.mcp_oauth_tenant in registry.names:
        yield (
            f"CRUX_MCP_OAUTH_TENANT is also agent '{settings.mcp_oauth_tenant}': whoever has an OAuth token reads what "
            "is private to it"
        )
