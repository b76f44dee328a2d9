"""Who calls MCP: agents by their token, OAuth callers by the Introspector's word, the anonymous where that is allowed."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from attrs import evolve

from crux.actors.introspection import Introspector
from crux.actors.mailbox import Mailbox
from crux.actors.supervisor import Supervised, start_all
from crux.config import Settings
from crux.domain.agents import Agent, AgentRegistry
from crux.domain.oauth import AccessRules
from crux.errors import Overloaded, SettingError, Unauthorized
from crux.transport.mcp_auth import Caller, McpAuthenticator, OAuth, Presented, check_token_to_require
from tests.conftest import HandClock
from tests.unit.transport.callers import (
    AGENTS,
    NOBODY,
    OPERATOR,
    OPERATOR_TOKEN,
    PLANNER_TOKEN,
    WRITER_TOKEN,
    Headers,
    bearer,
    passport,
)

OAUTH_TOKEN = "oauth-access-token"
RESOURCE = "https://crux.example/mcp"

PASSPORT = passport("planner")


def outcome_of(authenticator: McpAuthenticator, headers: Headers) -> object:
    """The caller, or the hint of the refusal."""
    try:
        return authenticator.authenticate(headers)
    except Unauthorized as refusal:
        return refusal.message


def check(authenticator: McpAuthenticator, headers: Headers, expected: object) -> None:
    outcome = outcome_of(authenticator, headers)
    if expected is not Unauthorized:
        assert outcome == expected
        return
    assert isinstance(outcome, str)
    assert "token" in outcome
    assert not any(token in outcome for token in (PLANNER_TOKEN, OAUTH_TOKEN))


@pytest.mark.parametrize(
    ("registry", "headers", "outcome"),
    [
        (NOBODY, [], Caller()),
        (NOBODY, [bearer(PLANNER_TOKEN)], Caller()),
        (NOBODY, [(b"authorization", b"Basic abc")], Caller()),
        (OPERATOR, [bearer(OPERATOR_TOKEN)], Caller(Agent("default", operator=True))),
        (AGENTS, [bearer(PLANNER_TOKEN)], Caller(Agent("planner"))),
        (AGENTS, [bearer(WRITER_TOKEN), PASSPORT], Caller(Agent("writer"))),
        (AGENTS, [], Unauthorized),
        (AGENTS, [bearer("")], Unauthorized),
        (AGENTS, [bearer(PLANNER_TOKEN + "p")], Unauthorized),
        (AGENTS, [bearer(" " + PLANNER_TOKEN)], Unauthorized),
        (AGENTS, [(b"authorization", b"bearer " + PLANNER_TOKEN.encode())], Unauthorized),
        (AGENTS, [bearer(PLANNER_TOKEN), bearer(PLANNER_TOKEN)], Unauthorized),
    ],
)
def test_without_oauth_agents_are_known_by_token_and_the_anonymous_come_in_only_where_there_are_none(
    registry: AgentRegistry, headers: Headers, outcome: object
) -> None:
    check(McpAuthenticator(registry), headers, outcome)
    if registry:
        check(McpAuthenticator(registry, required=True), headers, outcome)


@pytest.mark.parametrize(
    ("registry", "required", "headers", "outcome"),
    [
        (NOBODY, False, [], Caller()),
        (NOBODY, False, [(b"authorization", b"Basic abc")], Caller()),
        (NOBODY, False, [bearer(OAUTH_TOKEN)], Presented(OAUTH_TOKEN)),
        (NOBODY, False, [bearer("")], Presented("")),
        (NOBODY, True, [], Unauthorized),
        (NOBODY, True, [(b"authorization", b"Basic abc")], Unauthorized),
        (NOBODY, True, [bearer(OAUTH_TOKEN)], Presented(OAUTH_TOKEN)),
        (AGENTS, False, [], Unauthorized),
        (AGENTS, False, [bearer(PLANNER_TOKEN)], Caller(Agent("planner"))),
        (AGENTS, False, [bearer(OAUTH_TOKEN)], Presented(OAUTH_TOKEN)),
        (AGENTS, True, [], Unauthorized),
    ],
)
def test_with_oauth_a_token_of_no_agent_is_one_to_ask_about(
    registry: AgentRegistry, required: bool, headers: Headers, outcome: object
) -> None:
    oauth = OAuth(Mailbox("introspection"), "work")
    check(McpAuthenticator(registry, oauth, required=required), headers, outcome)


def test_a_presented_token_does_not_show() -> None:
    assert OAUTH_TOKEN not in repr(Presented(OAUTH_TOKEN))


async def introspected(answer: bytes | None, nursery: trio.Nursery) -> McpAuthenticator:
    async def server(token: str) -> bytes | None:
        return answer

    box = Mailbox("introspection")
    rules = AccessRules(RESOURCE, "acme")
    await start_all(nursery, [Supervised(box, lambda: Introspector(server, rules, HandClock()))])
    return McpAuthenticator(AGENTS, OAuth(box, "acme"))


async def test_an_oauth_caller_is_its_tenant_and_may_only_read(nursery: trio.Nursery) -> None:
    authenticator = await introspected(b'{"active":true,"scope":"mcp:read","sub":"u"}', nursery)
    caller = await authenticator.introspect(Presented(OAUTH_TOKEN))
    assert (caller.agent, caller.read_only) == (Agent("acme"), True)
    assert caller.subject_shown is not None
    assert len(caller.subject_shown) == 12
    assert Caller().subject_shown is None
    assert authenticator.names == {"acme", "planner", "writer"}


@pytest.mark.parametrize("answer", [None, b"", b'{"active":false}', b'{"active":true,"scope":"openid"}'])
async def test_a_token_that_is_not_vouched_for_is_refused_without_being_repeated(
    nursery: trio.Nursery, answer: bytes | None
) -> None:
    authenticator = await introspected(answer, nursery)
    with pytest.raises(Unauthorized, match="mcp:read") as refused:
        await authenticator.introspect(Presented(OAUTH_TOKEN))
    assert OAUTH_TOKEN not in refused.value.message


async def test_an_introspector_that_never_comes_to_it_lets_nobody_in(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    deaf = Mailbox("introspection")
    nursery.start_soon(deaf.keep_time)
    with pytest.raises(Overloaded):
        await McpAuthenticator(NOBODY, OAuth(deaf, "work")).introspect(Presented(OAUTH_TOKEN))


def test_a_challenge_goes_with_a_401_only_where_there_is_a_resource_to_name() -> None:
    assert McpAuthenticator(AGENTS).challenge == ()
    assert McpAuthenticator(AGENTS, resource_url=RESOURCE).challenge == (
        (
            b"www-authenticate",
            b'Bearer resource_metadata="https://crux.example/.well-known/oauth-protected-resource"',
        ),
    )


WHOLE = Settings(mcp_resource_url=RESOURCE, mcp_introspect_client_id="crux", mcp_introspect_client_secret="s")


def test_a_token_that_is_required_and_cannot_exist_stops_the_start() -> None:
    required = evolve(WHOLE, mcp_require_auth=True)
    check_token_to_require(required, NOBODY)
    for settings in (Settings(mcp_require_auth=True), evolve(required, mcp_introspect_client_id=None)):
        with pytest.raises(SettingError, match="CRUX_MCP_REQUIRE_AUTH=1 without any token"):
            check_token_to_require(settings, NOBODY)
        check_token_to_require(settings, AGENTS)
        check_token_to_require(evolve(settings, mcp_enabled=False), NOBODY)
    check_token_to_require(Settings(), NOBODY)
