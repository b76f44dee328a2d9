"""Calls to the tools of extensions: who is let through, what is kept of an answer, and how MCP words it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
import trio
from attrs import Factory, define, evolve

from crux.actors.extension_messages import Install, IssueGrant, RevokeGrant, Uninstall
from crux.actors.facts import FactStore
from crux.actors.mailbox import Mailbox
from crux.domain.commands import Chain, Transact
from crux.domain.extensions import ExtensionGrant, InstalledExtension
from crux.domain.facts import Fact
from crux.domain.messages import Message
from crux.domain.outbound import AcceptedWrite, DispatchOutcome
from crux.domain.outbound_refusals import Transport
from crux.domain.privacy import RAW_ADMIN, PrivacyRules, Viewer
from crux.domain.rcx_validation import examine
from crux.domain.router import Router
from crux.domain.windows import limited
from crux.errors import CruxError, InvalidArgument, StorageFull, UnknownTool
from crux.tools.extensions import DispatchFailed, ExtensionTool, Invoker, extension_tool
from crux.tools.registry import Call, Services
from crux.tools.results import result_of
from tests.conftest import NoCalls, Stack
from tests.manifests import manifest_json, manifest_of, recipe_json
from tests.rcx_tokens import PUBLIC, minted

ID, TOOL = "ext.quote", "ext.quote.daily"
WASM: dict[str, Any] = {
    "entry": {"kind": "wasm", "path": "x.wasm"},
    "wasm_module_path": "x.wasm",
    "wasm_module_sha256": "ab" * 32,
}


def outcome(*writes: AcceptedWrite, drop_reasons: tuple[str, ...] = ()) -> DispatchOutcome:
    return DispatchOutcome(
        result=b'{"quote":1.0}',
        writes=writes,
        drop_reasons=drop_reasons,
        upstream_status=200,
        elapsed_ms=7,
        request_id="req-1",
    )


@define
class Dispatches:
    """Stands for the pipeline: writes down what it is asked, and comes to what it is told."""

    came_to: DispatchOutcome = Factory(outcome)
    refusal: CruxError | None = None
    asked: list[tuple[str, str, object, str]] = Factory(list)
    meanwhile: Message[Any] | None = None
    then: Message[Any] | None = None
    leave: Callable[[], object] = lambda: None
    extensions: Mailbox | None = None

    async def dispatch(
        self, installed: InstalledExtension, grant: ExtensionGrant, tool: str, args: object, passport: str
    ) -> DispatchOutcome:
        await trio.lowlevel.checkpoint()
        assert (installed.manifest.id, passport) == (grant.extension_id, grant.passport_fpr)
        self.asked.append((installed.manifest.id, tool, args, passport))
        if self.refusal is not None:
            raise self.refusal
        for change in (self.meanwhile, self.then):
            if change is not None:
                assert self.extensions is not None
                await self.extensions.ask(change)
        self.leave()
        return self.came_to


@pytest.fixture
def dispatches(stack: Stack) -> Dispatches:
    return Dispatches(extensions=stack.services.extensions)


@pytest.fixture
def invoker(stack: Stack, dispatches: Dispatches) -> Invoker:
    services = stack.services
    return Invoker(services.extensions, services.facts, dispatches.dispatch, PrivacyRules())


async def install(stack: Stack, document: dict[str, Any] | None = None) -> None:
    manifest = manifest_of(document or manifest_json())
    await stack.services.extensions.ask(Install(manifest, None, allow_unsigned=True))


async def grant(stack: Stack, passport: str = "alice", extension_id: str = ID, **terms: Any) -> None:
    await stack.services.extensions.ask(IssueGrant(extension_id=extension_id, passport_fpr=passport, **terms))


async def chain(stack: Stack, entity: str) -> Sequence[Fact]:
    return await stack.services.recall.ask(Chain(entity, None, RAW_ADMIN))


# --- who is let through, in the seed's order


async def test_what_is_not_installed_is_not_called(invoker: Invoker, dispatches: Dispatches) -> None:
    with pytest.raises(CruxError, match=r"^extension 'ext\.quote' not installed$") as refused:
        await invoker.invoke(ID, TOOL, {}, "alice")
    assert refused.value.status == 404
    assert not dispatches.asked


async def test_a_passport_without_a_grant_is_not_let_through(
    stack: Stack, invoker: Invoker, dispatches: Dispatches
) -> None:
    await install(stack)
    await grant(stack, "bob")
    with pytest.raises(CruxError, match=r"^passport 'alice' has no grant for extension 'ext\.quote'$") as refused:
        await invoker.invoke(ID, TOOL, {}, "alice")
    assert refused.value.status == 403
    assert not dispatches.asked


async def test_a_grant_of_some_tools_is_no_grant_of_others(
    stack: Stack, invoker: Invoker, dispatches: Dispatches
) -> None:
    await install(stack, manifest_json(tools=(TOOL, "ext.quote.weekly")))
    await grant(stack, allowed_tool_names=(TOOL,))
    with pytest.raises(CruxError) as refused:
        await invoker.invoke(ID, "ext.quote.weekly", {}, "alice")
    assert refused.value.message == "tool 'ext.quote.weekly' is not in the grant's allowed_tool_names"
    assert refused.value.status == 403
    assert not dispatches.asked
    await invoker.invoke(ID, TOOL, {}, "alice")
    assert dispatches.asked == [(ID, TOOL, {}, "alice")]


async def test_a_kind_that_brings_no_tools_is_not_called(
    stack: Stack, invoker: Invoker, dispatches: Dispatches
) -> None:
    await install(stack, recipe_json(ID))
    await grant(stack)
    with pytest.raises(CruxError) as refused:
        await invoker.invoke(ID, TOOL, {}, "alice")
    assert refused.value.message == "extension 'ext.quote' has unsupported entry.kind HttpRecipe for tool dispatch"
    assert refused.value.status == 400
    assert not dispatches.asked


async def test_wasm_is_said_not_to_be_built_in(stack: Stack, invoker: Invoker, dispatches: Dispatches) -> None:
    document = manifest_json(**WASM)
    del document["external_tool_endpoint"]
    await install(stack, document)
    await grant(stack)
    with pytest.raises(CruxError, match="WebAssembly") as refused:
        await invoker.invoke(ID, TOOL, {}, "alice")
    assert refused.value.status == 501
    assert not dispatches.asked


# --- what is kept


async def test_the_outcome_comes_back_as_the_seed_prints_it(stack: Stack, invoker: Invoker) -> None:
    await install(stack)
    await grant(stack)
    assert await invoker.invoke(ID, TOOL, {"topic": "x"}, "alice") == (
        b'{"result":{"quote":1.0},"accepted_fact_writes":0,"dropped_fact_writes":0,"drop_reasons":[],'
        b'"upstream_status":200,"elapsed_ms":7,"request_id":"req-1"}'
    )


async def test_accepted_writes_are_facts_of_one_commit(
    stack: Stack, invoker: Invoker, dispatches: Dispatches, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[Transact[Any]] = []
    handle = FactStore.handle

    async def noted(store: FactStore, messages: Sequence[Message[Any]]) -> Any:
        commits.extend(message for message in messages if isinstance(message, Transact))
        return await handle(store, messages)

    await install(stack)
    await grant(stack, allowed_prefixes_write=("quotes::",))
    monkeypatch.setattr(FactStore, "handle", noted)
    dispatches.came_to = outcome(
        AcceptedWrite(0, "quotes::1", "text", "first", 0.5), AcceptedWrite(1, "quotes::2", "text", "second", 1.0)
    )
    answer = json.loads(await invoker.invoke(ID, TOOL, {}, "alice"))
    assert answer["accepted_fact_writes"] == 2
    (commit,) = commits
    assert len(commit.steps) == 2
    for entity, value, confidence in (("quotes::1", "first", 0.5), ("quotes::2", "second", 1.0)):
        (fact,) = await chain(stack, entity)
        assert (fact.key, fact.value, fact.confidence) == ("text", value, confidence)
        assert (fact.tenant, fact.private) == ("default", False)


async def test_what_was_granted_anew_meanwhile_is_another_grant(
    stack: Stack, invoker: Invoker, dispatches: Dispatches
) -> None:
    await install(stack)
    await grant(stack, allowed_prefixes_write=("quotes::",))
    dispatches.came_to = outcome(AcceptedWrite(0, "quotes::1", "k", "v", 1.0))
    dispatches.meanwhile = RevokeGrant(ID, "alice", None)
    stack.clock.us += 1_000_000
    dispatches.then = IssueGrant(extension_id=ID, passport_fpr="alice", allowed_prefixes_write=("quotes::",))
    assert json.loads(await invoker.invoke(ID, TOOL, {}, "alice"))["accepted_fact_writes"] == 0
    assert not await chain(stack, "quotes::1")


@pytest.mark.parametrize(
    "change", [RevokeGrant(ID, "alice", None), Uninstall(ID, None)], ids=lambda change: type(change).__name__
)
async def test_what_is_granted_no_more_when_the_answer_comes_is_not_kept(
    stack: Stack, invoker: Invoker, dispatches: Dispatches, change: Message[Any]
) -> None:
    await install(stack)
    await grant(stack, allowed_prefixes_write=("quotes::",))
    write = AcceptedWrite(1, "quotes::1", "k", "v", 1.0)
    dispatches.came_to = outcome(write, drop_reasons=("fact_writes[0] was dropped",))
    dispatches.meanwhile = change
    answer = json.loads(await invoker.invoke(ID, TOOL, {}, "alice"))
    assert answer["result"] == {"quote": 1.0}
    assert (answer["accepted_fact_writes"], answer["dropped_fact_writes"]) == (0, 2)
    assert answer["drop_reasons"] == [
        "fact_writes[0] was dropped",
        "fact_writes[1] entity 'quotes::1' not covered by grant.allowed_prefixes_write",
    ]
    assert not await chain(stack, "quotes::1")


async def test_a_caller_who_leaves_changes_nothing_about_what_is_kept(
    stack: Stack, invoker: Invoker, dispatches: Dispatches
) -> None:
    """It leaves between the answer of the endpoint and the commit."""
    await install(stack)
    await grant(stack, allowed_prefixes_write=("quotes::",))
    dispatches.came_to = outcome(AcceptedWrite(0, "quotes::1", "k", "v", 1.0))
    with trio.CancelScope() as scope:
        dispatches.leave = scope.cancel
        await invoker.invoke(ID, TOOL, {}, "alice")
        await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert len(await chain(stack, "quotes::1")) == 1


async def test_what_must_be_private_is_stored_private(stack: Stack, dispatches: Dispatches) -> None:
    """A prefix may have become private after it was granted; the gate has the last word."""
    services = stack.services
    invoker = Invoker(services.extensions, services.facts, dispatches.dispatch, PrivacyRules(("quotes::",)))
    await install(stack)
    await grant(stack, allowed_prefixes_write=("quotes::",))
    dispatches.came_to = outcome(AcceptedWrite(0, "quotes::1", "k", "v", 1.0))
    await invoker.invoke(ID, TOOL, {}, "alice")
    (fact,) = await chain(stack, "quotes::1")
    assert fact.private


async def test_a_store_that_takes_nothing_is_told_of(
    stack: Stack, invoker: Invoker, dispatches: Dispatches, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(store: FactStore, messages: Sequence[Message[Any]]) -> Any:
        await trio.lowlevel.checkpoint()
        return [StorageFull("the disk is full")] * len(messages)

    await install(stack)
    await grant(stack, allowed_prefixes_write=("quotes::",))
    monkeypatch.setattr(FactStore, "handle", refuse)
    dispatches.came_to = outcome(AcceptedWrite(0, "quotes::1", "k", "v", 1.0))
    with pytest.raises(StorageFull):
        await invoker.invoke(ID, TOOL, {}, "alice")
    assert not await chain(stack, "quotes::1")


# --- over MCP


@define
class Calls(NoCalls):
    """Comes to what it is told."""

    refusal: CruxError | None = None
    asked: list[tuple[str, str, object, str]] = Factory(list)

    async def invoke(self, extension_id: str, tool: str, args: object, passport: str) -> bytes:
        await trio.lowlevel.checkpoint()
        self.asked.append((extension_id, tool, args, passport))
        if self.refusal is not None:
            raise self.refusal
        return b'{"result":1.0}'


async def found(name: str, services: Services) -> ExtensionTool:
    tool = await extension_tool(name, services)
    assert tool is not None
    return tool


def call_on(services: Services, agent: str | None = "alice") -> Call:
    return Call(agent, Viewer((agent,) if agent else ()), services)


@pytest.mark.parametrize("name", [TOOL, "ext_quote_daily"])
async def test_both_names_of_a_tool_call_it(stack: Stack, name: str) -> None:
    await install(stack)
    calls = Calls()
    services = evolve(stack.services, extension_calls=calls)
    tool = await found(name, services)
    assert tool.gated_as == TOOL
    given = await tool.run(tool.parse({"topic": "x"}), call_on(services))
    assert calls.asked == [(ID, TOOL, {"topic": "x"}, "alice")]
    assert msgspec.json.decode(result_of(given, {}).encoded()) == {
        "content": [{"type": "text", "text": '{"result":1.0}'}],
        "_meta": {"crux": {"extension_id": ID, "rcx_capability": f"crux-extension.{TOOL}"}},
    }


@pytest.mark.parametrize("name", ["list_entities", "extension", "ex", "EXT.quote.daily", ""])
async def test_other_names_are_no_tools_of_extensions(deaf_services: Services, name: str) -> None:
    assert await extension_tool(name, deaf_services) is None


async def test_a_caller_without_a_passport_is_told_to_bring_one(stack: Stack) -> None:
    await install(stack)
    tool = await found(TOOL, stack.services)
    with pytest.raises(InvalidArgument, match="granted to passports") as refused:
        await tool.run({}, call_on(stack.services, None))
    assert refused.value.code == -32602


async def test_the_subject_of_the_daemon_s_token_calls_for_a_caller_without_a_name(stack: Stack) -> None:
    await install(stack)
    calls, router = Calls(), Router(examine(minted(), PUBLIC))
    services = evolve(stack.services, extension_calls=calls, router=router)
    tool = await found(TOOL, services)
    await tool.run({}, call_on(services, None))
    await tool.run({}, call_on(services))
    subject = router.examined.token.subject.passport_fpr
    assert subject
    assert [passport for *_, passport in calls.asked] == [subject, "alice"]


async def test_a_name_that_nobody_declares_is_unknown(stack: Stack) -> None:
    tool = await found("ext.nothing", stack.services)
    assert tool.gated_as == "ext.nothing"
    with pytest.raises(UnknownTool, match=r"unknown extension tool: ext\.nothing") as refused:
        await tool.run({}, call_on(stack.services))
    assert refused.value.code == -32601


@pytest.mark.parametrize("arguments", [[], "x", 1, True])
async def test_arguments_are_an_object(stack: Stack, arguments: object) -> None:
    with pytest.raises(InvalidArgument, match="'arguments' must be an object"):
        (await found(TOOL, stack.services)).parse(arguments)


async def test_no_arguments_are_an_empty_object(stack: Stack) -> None:
    assert (await found(TOOL, stack.services)).parse(None) == {}


async def test_every_failure_on_the_way_has_one_code_and_says_what_http_would(stack: Stack) -> None:
    await install(stack)
    services = evolve(stack.services, extension_calls=Calls(Transport("no answer from 'x' within 5 s")))
    with pytest.raises(DispatchFailed) as refused:
        await (await found(TOOL, services)).run({}, call_on(services))
    assert refused.value.code == -32603
    assert refused.value.message == "the extension call failed with status 502: no answer from 'x' within 5 s"
    assert refused.value.data == {"status": 502}


async def test_a_program_is_told_when_to_come_again(stack: Stack) -> None:
    await install(stack)
    services = evolve(stack.services, extension_calls=Calls(limited(10, 7.5)))
    with pytest.raises(DispatchFailed) as refused:
        await (await found(TOOL, services)).run({}, call_on(services))
    assert refused.value.data == {"status": 429, "retry_after_s": 8}
