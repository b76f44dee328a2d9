"""The tools of extensions in `tools/list`: whose they are, how they are named and stamped, and what hides them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing
from attrs import evolve

from crux.actors.extension_messages import Install, IssueGrant, RevokeGrant, Uninstall
from crux.actors.traces import RecordTrace
from crux.domain.capability import capability_of
from crux.domain.consequence import consequence_of
from crux.domain.privacy import Viewer
from crux.domain.rcx_mint import mint_free_token
from crux.domain.rcx_validation import examine
from crux.domain.router import Router
from crux.domain.surface import ExtensionNames, SurfaceMode
from crux.domain.traces import Effect, trace_of
from crux.tools.catalogue import CATALOGUE
from crux.tools.listing import TOOLS_S, Listing
from crux.tools.registry import Call, Catalogue, Services
from tests.conftest import Stack
from tests.manifests import manifest_json, manifest_of
from tests.rcx_tokens import ISSUED_AT, KEY, PUBLIC

ID, TOOL = "ext.quote", "ext.quote.daily"
NOTHING = Catalogue.of([])


async def install(stack: Stack, document: dict[str, Any] | None = None) -> None:
    manifest = manifest_of(document or manifest_json())
    await stack.services.extensions.ask(Install(manifest, None, allow_unsigned=True))


async def grant(stack: Stack, passport: str = "alice", extension_id: str = ID, **terms: Any) -> None:
    await stack.services.extensions.ask(IssueGrant(extension_id=extension_id, passport_fpr=passport, **terms))


async def entries(listing: Listing, stack: Stack, agent: str | None = "alice") -> list[dict[str, Any]]:
    viewer = Viewer((agent,) if agent else ())
    found: list[dict[str, Any]] = json.loads(await listing.of(Call(agent, viewer, stack.services)))["tools"]
    return found


async def names(listing: Listing, stack: Stack, agent: str | None = "alice") -> list[str]:
    return [entry["name"] for entry in await entries(listing, stack, agent)]


def full(catalogue: Catalogue = NOTHING, router: Router | None = None, **given: Any) -> Listing:
    return Listing(catalogue, router, SurfaceMode.FULL, **given)


async def test_only_who_has_a_grant_sees_a_tool_after_those_of_the_catalogue(stack: Stack) -> None:
    await install(stack)
    await grant(stack)
    listing, own = full(CATALOGUE), [tool.name for tool in CATALOGUE.tools]
    assert await names(listing, stack) == [*own, TOOL]
    assert await names(listing, stack, "bob") == own
    assert await names(listing, stack, None) == own


async def test_tools_of_all_grants_are_listed_by_name(stack: Stack) -> None:
    await install(stack, manifest_json("z", ("ext.b", "ext.d")))
    await install(stack, manifest_json("a", ("ext.c", "ext.a")))
    await grant(stack, extension_id="z")
    await grant(stack, extension_id="a", allowed_tool_names=("ext.c",))
    assert await names(full(), stack) == ["ext.b", "ext.c", "ext.d"]


async def test_an_entry_says_whose_tool_it_is(stack: Stack) -> None:
    document = manifest_json()
    document["tools"][0]["input_schema"]["properties"] = {"topic": {"type": "string"}}
    await install(stack, document)
    await grant(stack)
    (entry,) = await entries(full(), stack)
    consequence = json.loads(json.dumps(consequence_of(TOOL).as_metadata()))
    schema = entry["inputSchema"]
    assert entry["description"] == "[local][extension:ext.quote][trust:Unknown] A tool."
    assert schema["properties"] == {"topic": {"type": "string"}}
    origin = schema["x-crux-extension"]
    assert origin.pop("manifest_hash").startswith("blake3:")
    assert origin == {"extension_id": ID, "trust_tier": "unknown", "rcx_capability": capability_of(TOOL)}
    assert schema["x-crux-consequence-metadata"] == consequence
    assert entry["_meta"] == {"crux": {"consequence_metadata": consequence}}


async def test_what_a_manifest_says_of_the_consequences_stands_in_the_schema(stack: Stack) -> None:
    document = manifest_json()
    document["tools"][0]["consequence_metadata"] = {"reversibility": "none"}
    await install(stack, document)
    await grant(stack)
    (entry,) = await entries(full(), stack)
    assert entry["inputSchema"]["x-crux-consequence-metadata"] == {"reversibility": "none"}


async def test_a_schema_that_is_no_object_goes_out_as_it_is(stack: Stack) -> None:
    document = manifest_json()
    document["tools"][0]["input_schema"] = True
    await install(stack, document)
    await grant(stack)
    (entry,) = await entries(full(), stack)
    assert entry["inputSchema"] is True


async def test_names_without_dots_are_listed_where_the_operator_wants_that(stack: Stack) -> None:
    await install(stack)
    await grant(stack)
    assert await names(full(extension_names=ExtensionNames.SAFE), stack) == ["ext_quote_daily"]


async def test_a_name_of_the_catalogue_is_the_catalogue_s(stack: Stack) -> None:
    """A newer daemon may have a tool of a name that an extension took before."""
    await install(stack)
    await grant(stack)
    newer = Catalogue.of([evolve(CATALOGUE.tools[0], name=TOOL)])
    (entry,) = await entries(full(newer), stack)
    assert "extension" not in entry["description"]


async def test_a_list_is_encoded_once_for_as_long_as_nothing_changes(stack: Stack) -> None:
    await install(stack)
    await grant(stack)
    listing, call = full(), Call("alice", Viewer(("alice",)), stack.services)
    assert await listing.of(call) is await listing.of(call)
    await stack.services.extensions.ask(RevokeGrant(ID, "alice", None))
    assert await names(listing, stack) == []
    await grant(stack)
    assert await names(listing, stack) == [TOOL]
    await stack.services.extensions.ask(Uninstall(ID, None))
    assert await names(listing, stack) == []


async def test_a_list_comes_without_the_tools_of_extensions_where_nobody_tells_of_them(
    deaf_services: Services, autojump_clock: trio.testing.MockClock
) -> None:
    with structlog.testing.capture_logs() as logs:
        found = json.loads(await full(CATALOGUE).of(Call("alice", Viewer(("alice",)), deaf_services)))["tools"]
    assert [entry["name"] for entry in found] == [tool.name for tool in CATALOGUE.tools]
    assert [entry["log_level"] for entry in logs] == ["warning"]
    assert trio.current_time() < TOOLS_S + 1


async def test_a_list_stays_as_it_was_last_known_where_nobody_tells_of_a_change(
    stack: Stack, deaf_services: Services, mock_clock: trio.testing.MockClock
) -> None:
    await install(stack)
    await grant(stack)
    listing = full()
    assert await names(listing, stack) == [TOOL]
    later = evolve(stack.services, extensions=deaf_services.extensions)
    mock_clock.autojump_threshold = 0
    found = json.loads(await listing.of(Call("alice", Viewer(("alice",)), later)))["tools"]
    assert [entry["name"] for entry in found] == [TOOL]


def permitting(*capabilities: str) -> Router:
    token = mint_free_token(KEY, instance_id="node_1", capabilities=capabilities, issued_at=ISSUED_AT)
    return Router(examine(token, PUBLIC))


async def test_a_capability_token_permits_each_tool_by_its_own_capability(stack: Stack) -> None:
    await install(stack, manifest_json(tools=(TOOL, "ext.quote.weekly")))
    await grant(stack)
    router = permitting(capability_of(TOOL))
    (entry,) = await entries(full(router=router), stack)
    assert entry["name"] == TOOL
    assert entry["inputSchema"].items() >= router.schema_stamp().items()
    assert entry["_meta"]["crux"].items() >= router.stamp().items()
    assert await names(full(router=permitting()), stack) == []


@pytest.mark.parametrize("mode", [SurfaceMode.MINIMAL, SurfaceMode.DYNAMIC])
async def test_a_narrow_surface_hides_what_was_not_called_lately(stack: Stack, mode: SurfaceMode) -> None:
    await install(stack)
    await grant(stack)
    assert await names(Listing(NOTHING, None, mode), stack) == []


async def test_a_dynamic_surface_shows_what_was_called_lately(stack: Stack) -> None:
    await install(stack)
    await grant(stack)
    trace = trace_of(TOOL, Effect.TOOL_DISPATCH, {}, b"{}", ok=True, ts_us=stack.clock.now_us())
    stack.services.traces.tell(RecordTrace("alice", trace))
    assert await names(Listing(NOTHING, None, SurfaceMode.DYNAMIC), stack) == [TOOL]


async def test_agents_with_like_grants_share_one_list(stack: Stack) -> None:
    await install(stack)
    await grant(stack)
    await grant(stack, "bob")
    listing = full()
    one, other = [await listing.of(Call(agent, Viewer((agent,)), stack.services)) for agent in ("alice", "bob")]
    assert one is other
