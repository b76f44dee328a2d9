"""What an operator may not have meant."""

import pytest
from attrs import evolve

from crux.config import AuthMode, Settings, doubts
from crux.domain.agents import AgentRegistry

NOBODY = AgentRegistry()
TOKEN = "w" * 32
AGENTS = AgentRegistry.parse(None, f"writer:{TOKEN}")
NAMED = Settings(mcp_resource_url="https://crux.example/mcp", mcp_auth_server="https://login.example")
WHOLE = evolve(NAMED, mcp_introspect_client_id="crux", mcp_introspect_client_secret="s")


@pytest.mark.parametrize(
    ("settings", "registry", "said"),
    [
        (Settings(), NOBODY, []),
        (Settings(), AGENTS, []),
        (Settings(agent_token=TOKEN, agent_tokens=f"writer:{TOKEN}"), AGENTS, ["there is no operator"]),
        (Settings(auth_mode=AuthMode.OFF), NOBODY, []),
        (Settings(auth_mode=AuthMode.OFF), AGENTS, ["shows the private facts of every agent"]),
        (Settings(allow_weak_hs256_secret=True), NOBODY, ["a short JWT key"]),
        (WHOLE, AGENTS, []),
        (NAMED, AGENTS, ["CRUX_MCP_INTROSPECT_CLIENT_ID, CRUX_MCP_INTROSPECT_CLIENT_SECRET"]),
        (
            Settings(mcp_introspect_client_id="crux"),
            NOBODY,
            ["go to https://api.vaultcrux.com", "CRUX_MCP_RESOURCE_URL, CRUX_MCP_INTROSPECT_CLIENT_SECRET"],
        ),
        (
            evolve(WHOLE, mcp_introspect_client_id=None),
            NOBODY,
            ["not taken, because of what is not set: CRUX_MCP_INTROSPECT_CLIENT_ID"],
        ),
        (WHOLE, AgentRegistry.parse(None, f"work:{TOKEN}"), ["CRUX_MCP_OAUTH_TENANT is also agent 'work'"]),
    ],
)
def test_what_an_operator_may_not_have_meant_is_said(
    settings: Settings, registry: AgentRegistry, said: list[str]
) -> None:
    for line, expected in zip(doubts(settings, registry), said, strict=True):
        assert expected in line


@pytest.mark.parametrize(
    ("endpoint", "doubted"),
    [
        ("https://as.example/i", False),
        ("http://127.0.0.1:9000/i", False),
        ("http://[::1]:9000/i", False),
        ("http://as.example/i", True),
    ],
)
def test_secrets_that_leave_the_machine_unencrypted_are_pointed_out(endpoint: str, doubted: bool) -> None:
    settings = evolve(WHOLE, mcp_introspect_url=endpoint)
    assert [("as.example unencrypted" in line) for line in doubts(settings, NOBODY)] == [True] * doubted
