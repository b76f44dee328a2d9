"""The agent card: what this daemon tells anyone who asks about itself (protocol contract 5)."""

from collections.abc import Iterable, Mapping
from typing import Final

CARD_PATH: Final = "/.well-known/agent-card"

_LONGEST_DESCRIPTION = 200

# By (OAuth tokens are taken, agents' tokens are taken).
_SCHEMES: Final = {
    (False, False): "none",
    (False, True): "bearer",
    (True, False): "oauth2",
    (True, True): "oauth2+bearer",
}


def agent_card(
    *,
    node_id: str,
    version: str,
    base_url: str | None,
    skills: Iterable[tuple[str, str]],
    has_agents: bool,
    has_oauth: bool,
    required: bool,
) -> Mapping[str, object]:
    """The card; nothing in it depends on who asks.

    `base_url` is that of the HTTP API, where it is known. `skills` are names and descriptions in catalogue order.
    `has_agents` and `has_oauth` say which tokens are taken, `required` whether a caller needs one.
    """
    return {
        "schema": "cuecrux.agent-card.v1",
        "name": f"crux-daemon:{node_id}",
        "provider": "CueCrux",
        "description": "Memory, retrieval and receipts for agents, kept on this machine; this is its MCP side.",
        "version": version,
        "access": {
            "baseUrl": base_url,
            "protocols": ["mcp"] if base_url is None else ["mcp", "http"],
            "wellKnown": CARD_PATH,
        },
        "authentication": {
            "required": required,
            "scheme": _SCHEMES[has_oauth, has_agents],
            "modes": [mode for mode, on in (("bearer-token", has_agents), ("oauth2", has_oauth)) if on],
        },
        "skills": [{"name": name, "description": _cut(description)} for name, description in skills],
    }


def _cut(description: str) -> str:
    if len(description) <= _LONGEST_DESCRIPTION:
        return description
    return description[:_LONGEST_DESCRIPTION] + "…"
