"""The list of tools that a caller is shown: by token, by surface and intent, encoded once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve

from crux.actors.failures import FailureCount
from crux.actors.intents import DeclareIntent
from crux.actors.ledger import Ledger
from crux.actors.mailbox import Mailbox
from crux.actors.traces import RecordTrace
from crux.domain.ledger import OFFER
from crux.domain.privacy import Viewer
from crux.domain.rcx_validation import examine
from crux.domain.router import Router
from crux.domain.surface import SurfaceMode
from crux.domain.traces import Effect, trace_of
from crux.tools.facts import NoArguments
from crux.tools.listing import Listing
from crux.tools.registry import Call, Catalogue, Services, Tier, Tool, tool
from tests.conftest import Stack
from tests.rcx_tokens import EXPIRES_AT, PUBLIC, minted


def named(name: str, tier: Tier = Tier.LOCAL, affinity: str | None = None, floor_rank: int | None = None) -> Tool:
    async def run(args: NoArguments, call: Call) -> object:
        """Do nothing at all, whatever is asked of it."""
        return {}

    return tool(name, plane="test", result=NoArguments, tier=tier, affinity=affinity, floor_rank=floor_rank)(run)


TOOLS = Catalogue.of(
    [
        named("second", floor_rank=2),
        named("learn", affinity="audit"),
        named("forget", affinity="memory"),
        named("plain"),
        named("sync_pull", Tier.HOSTED),
        named("first", floor_rank=1),
    ]
)


def call_of(services: Services, agent: str | None = None) -> Call:
    return Call(agent, Viewer((agent,) if agent else ()), services)


async def names(listing: Listing, services: Services, agent: str | None = None) -> list[str]:
    return [entry["name"] for entry in json.loads(await listing.of(call_of(services, agent)))["tools"]]


async def test_a_full_list_is_the_catalogue_and_encoded_once(stack: Stack) -> None:
    listing = Listing(TOOLS, None, SurfaceMode.FULL)
    assert await names(listing, stack.services) == [tool.name for tool in TOOLS.tools]
    one, other = [await listing.of(call_of(stack.services, agent)) for agent in (None, "bob")]
    assert one is other


async def test_a_minimal_list_is_the_floor_in_its_order(deaf_services: Services) -> None:
    assert await names(Listing(TOOLS, None, SurfaceMode.MINIMAL), deaf_services) == ["first", "second"]


async def test_a_dynamic_list_follows_each_caller_s_own_intent_and_calls(stack: Stack) -> None:
    listing, services = Listing(TOOLS, None, SurfaceMode.DYNAMIC), stack.services
    assert await names(listing, services, "bob") == ["first", "second"]
    await services.intents.ask(DeclareIntent("bob", "audit_review"))
    assert await names(listing, services, "bob") == ["first", "second", "learn"]
    trace = trace_of("plain", Effect.TOOL_DISPATCH, {}, b"{}", ok=True, ts_us=stack.clock.now_us())
    services.traces.tell(RecordTrace("bob", trace))
    assert await names(listing, services, "bob") == ["first", "second", "learn", "plain"]
    for other in ("eve", None):
        assert await names(listing, services, other) == ["first", "second"]


async def test_an_intent_of_anonymous_callers_is_theirs_together(stack: Stack) -> None:
    await stack.services.intents.ask(DeclareIntent("__anon__", "document_ingest"))
    assert await names(Listing(TOOLS, None, SurfaceMode.DYNAMIC), stack.services) == ["first", "second", "forget"]


@pytest.mark.parametrize("mode", SurfaceMode)
async def test_a_surface_never_shows_what_the_token_does_not_permit(stack: Stack, mode: SurfaceMode) -> None:
    await stack.services.intents.ask(DeclareIntent("__anon__", "document_ingest"))
    listing = Listing(TOOLS, Router(examine(minted(), PUBLIC)), mode)
    assert await names(listing, stack.services) == (["learn"] if mode is SurfaceMode.FULL else [])


async def test_a_list_is_made_anew_when_the_token_s_time_is_over(stack: Stack) -> None:
    class Late:
        us = (EXPIRES_AT - 1) * 1_000_000

        def now_us(self) -> int:
            return self.us

    clock = Late()
    services = evolve(stack.services, clock=clock)
    listing = Listing(TOOLS, Router(examine(minted(), PUBLIC)), SurfaceMode.FULL)
    assert await names(listing, services) == ["learn"]
    clock.us += 1_000_000
    assert await names(listing, services) == []
    clock.us -= 1_000_000
    assert await names(listing, services) == ["learn"]


def test_a_hosted_tool_says_what_it_takes_to_have_it() -> None:
    meta: Any = TOOLS.by_name["sync_pull"].listing()["_meta"]
    assert meta["crux"]["upgrade"] == {
        "platform_available": True,
        "requires": "rcx_capability_token",
        "docs": "https://crux.cuecrux.com/docs/platform/sync_pull",
    }
    assert TOOLS.by_name["sync_pull"].description.startswith("[hosted] ")
    plain: Any = TOOLS.by_name["plain"].listing()["_meta"]
    assert "upgrade" not in plain["crux"]


async def test_the_ledger_is_told_what_was_offered(stack: Stack) -> None:
    observations = Mailbox("observations")
    listing = Listing(TOOLS, None, SurfaceMode.MINIMAL, Ledger(observations, FailureCount("the ledger")))
    await listing.of(call_of(stack.services, "bob"))
    message: Any = (await observations.receive()).message
    assert message.session.session_id == "ledger::bob"
    assert message.new.kind == OFFER
    payload = json.loads(message.new.payload)
    assert (payload["tools"], payload["surface_mode"], payload["count"]) == (["first", "second"], "minimal", 2)
    assert message.mark == payload["set_hash"]
