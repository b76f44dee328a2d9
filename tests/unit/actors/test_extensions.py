"""The Extensions on the real store: what is decided, in which order, and that it is on disk before it is believed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing
from attrs import define

from crux.actors import extensions as extensions_module
from crux.actors.audit import RECORD_S, AuditFigures, AuditSink, AuditTail
from crux.actors.extension_messages import (
    DistrustKey,
    GrantsOf,
    Install,
    IssueGrant,
    ListExtensions,
    ListKeys,
    Lookup,
    Resolve,
    RevokeGrant,
    ShowExtension,
    ToolsFor,
    TrustKey,
    Uninstall,
)
from crux.actors.extensions import Extensions
from crux.actors.facts import FactStore
from crux.actors.mailbox import ASK_DEADLINE_S, LOOK_S, Mailbox
from crux.actors.outbox import Outbox
from crux.actors.recall import Recall
from crux.actors.sessions import LIST_CHANGED, OpenStream, SessionRegistry
from crux.actors.supervisor import RestartPolicy, Supervised, start_all
from crux.domain.audit import OPERATOR
from crux.domain.commands import Chain, Put, Records, Transact
from crux.domain.decay import DecayPolicy
from crux.domain.extensions import (
    MOST_TEXT,
    ExtensionGrant,
    InstalledExtension,
    TrustedKey,
    TrustTier,
    extension_draft,
    key_draft,
)
from crux.domain.facts import Draft
from crux.domain.grants import grant_draft
from crux.domain.manifest_rules import manifest_hash
from crux.domain.messages import Message
from crux.domain.privacy import RAW_ADMIN
from crux.domain.streams import StreamLimits, owner_key
from crux.errors import Conflict, InvalidArgument, NoAnswer, NotFound, StorageFull
from crux.storage.engine import SqliteEngine
from crux.storage.writer import Outcomes
from tests.conftest import HandClock
from tests.manifests import PUBLIC_KEY_HEX, SIGNER, manifest_json, manifest_of, recipe_json, signed

NOW_MS = HandClock().us // 1000


@define
class Rig:
    """The actor and those that it asks, over a database."""

    extensions: Mailbox
    facts: Mailbox
    recall: Mailbox
    audit: Mailbox
    sessions: Mailbox
    engine: SqliteEngine
    batches: list[Sequence[Message[Any]]]

    async def install(self, document: dict[str, Any] | None = None, by: str | None = None) -> InstalledExtension:
        return await self.extensions.ask(Install(manifest_of(document or manifest_json()), by, allow_unsigned=True))

    async def grant(self, extension_id: str = "ext.quote", passport: str = "alice", **terms: Any) -> ExtensionGrant:
        return await self.extensions.ask(IssueGrant(extension_id=extension_id, passport_fpr=passport, **terms))

    async def trust(self, fingerprint: str = SIGNER, tier: TrustTier = TrustTier.COMMUNITY_REVIEWED) -> TrustedKey:
        return await self.extensions.ask(TrustKey(fingerprint, PUBLIC_KEY_HEX, tier, "", None))

    async def tool_names(self, passport: str = "alice") -> list[str]:
        return [granted.tool.name for granted in await self.extensions.ask(ToolsFor(passport))]

    async def trail(self) -> list[tuple[str, str, str, str, str, Any]]:
        return [
            (event.action, event.pack_id, event.actor, event.version, event.outcome, json.loads(event.detail.text))
            for event in await self.audit.ask(AuditTail(1000))
            if event.detail is not None
        ]

    async def records(self) -> list[tuple[str, str, float]]:
        """What the store holds now under the names of extensions: entity, value and confidence."""
        kept = [
            fact
            for prefix in ("__extension__::", "__extension_grant__::", "__trusted_key__::")
            for fact in await self.recall.ask(Records(prefix))
        ]
        assert all(fact.private and fact.tenant == "default" and fact.key == "record" for fact in kept)
        return [(fact.entity, fact.value, fact.confidence) for fact in kept]

    async def store(self, *drafts: Draft) -> None:
        await self.facts.ask(Transact(tuple(map(Put, drafts))))

    def writes(self) -> list[Message[Any]]:
        """What was committed of extensions, in order; the trail apart."""
        return [
            command
            for batch in self.batches
            for command in batch
            if isinstance(command, Transact)
            and not any(isinstance(step, Put) and step.draft.entity.startswith("__audit__") for step in command.steps)
        ]

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        commit = self.engine.commit

        async def refuse(commands: Sequence[Message[Any]], now_us: int) -> Outcomes:
            await trio.lowlevel.checkpoint()
            return [StorageFull("the disk is full")] * len(commands)

        self.engine.commit = refuse
        yield
        self.engine.commit = commit


@asynccontextmanager
async def running(directory: Path, *, audit_capacity: int = 1024, audits: bool = True) -> AsyncIterator[Rig]:
    """The four actors; ends as a process does that is killed. With `audits` False nobody reads the audit's mailbox."""
    engine = await SqliteEngine.open(directory, DecayPolicy())
    facts, recall, extensions = Mailbox("facts"), Mailbox("recall"), Mailbox("extensions")
    audit, sessions, clock = Mailbox("audit", audit_capacity), Mailbox("sessions"), HandClock()
    rig = Rig(extensions, facts, recall, audit, sessions, engine, [])
    commit = engine.commit

    async def noted(commands: Sequence[Message[Any]], now_us: int) -> Outcomes:
        rig.batches.append(commands)
        return await commit(commands, now_us)

    engine.commit = noted
    sink = Supervised(audit, lambda: AuditSink(facts, recall, AuditFigures()))

    def build() -> Extensions:
        return Extensions(facts, recall, audit, sessions, clock, builtins={"store_fact", "ext.builtin"})

    async with trio.open_nursery() as nursery:
        if not audits:
            nursery.start_soon(audit.keep_time)
        await start_all(
            nursery,
            [
                Supervised(facts, lambda: FactStore(engine, clock)),
                Supervised(recall, lambda: Recall(engine)),
                *([sink] if audits else []),
                Supervised(sessions, SessionRegistry),
                Supervised(extensions, build),
            ],
            RestartPolicy(backoff_s=0),
        )
        yield rig
        nursery.cancel_scope.cancel()
    engine.close()


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running(tmp_path) as rig:
        yield rig


def unsigned(**members: Any) -> Install:
    return Install(manifest_of(manifest_json(**members)), None, allow_unsigned=True)


# --- installing


async def test_an_install_is_kept_with_its_hash_tier_time_and_installer(rig: Rig) -> None:
    manifest = manifest_of(manifest_json())
    installed = await rig.extensions.ask(Install(manifest, "bob", allow_unsigned=True))
    assert installed == InstalledExtension(manifest, manifest_hash(manifest), TrustTier.UNKNOWN, NOW_MS, "bob")
    assert await rig.extensions.ask(ShowExtension("ext.quote")) == installed
    assert await rig.extensions.ask(ListExtensions()) == (installed,)
    ((entity, value, confidence),) = await rig.records()
    kept = json.loads(value)
    assert (entity, confidence) == ("__extension__::ext.quote", 1.0)
    assert (kept["manifest"]["id"], kept["trust_tier"], kept["installed_by_passport"]) == (
        "ext.quote",
        "unknown",
        "bob",
    )
    detail = {"manifest_hash": installed.manifest_hash, "trust_tier": "unknown"}
    assert await rig.trail() == [("extension_install", "ext.quote", "bob", "0.1.0", "installed", detail)]


async def test_extensions_are_listed_by_id(rig: Rig) -> None:
    for name in ("b", "a", "c"):
        await rig.install(recipe_json(name))
    assert [one.manifest.id for one in await rig.extensions.ask(ListExtensions())] == ["a", "b", "c"]


async def test_what_is_wrong_with_an_install_is_told_in_the_order_of_the_contract(rig: Rig) -> None:
    await rig.install()
    wrong_name = {"name": " "}
    for install, refusal, told in (
        (unsigned(extension_id="Ext.Quote", **wrong_name), InvalidArgument, "Ext.Quote"),
        (unsigned(extension_id="ext.quote", **wrong_name), Conflict, "^extension 'ext.quote' is already installed$"),
        (unsigned(extension_id="ext.other", **wrong_name), InvalidArgument, "^field 'name' is required"),
        (unsigned(extension_id="ext.other"), InvalidArgument, "ext.quote.daily"),
    ):
        with pytest.raises(refusal, match=told):
            await rig.extensions.ask(install)
    assert len(await rig.extensions.ask(ListExtensions())) == len(await rig.trail()) == 1


@pytest.mark.parametrize(
    "name", ["keys", "registry", "register", "install-from-registry", "", ".", "..", "a b", "é", "x" * 129]
)
async def test_an_id_that_no_route_could_name_is_refused(rig: Rig, name: str) -> None:
    with pytest.raises(InvalidArgument):
        await rig.extensions.ask(unsigned(extension_id=name))


@pytest.mark.parametrize("tool", ["store_fact", "ext.builtin", "ext_builtin", "ext.quote.daily", "ext.quote-daily"])
async def test_a_tool_name_that_is_taken_or_lacks_its_mark_is_refused(rig: Rig, tool: str) -> None:
    await rig.install()
    with pytest.raises(InvalidArgument):
        await rig.extensions.ask(unsigned(extension_id="ext.other", tools=(tool,)))


async def test_a_tool_name_is_free_again_when_its_extension_is_gone(rig: Rig) -> None:
    await rig.install()
    await rig.extensions.ask(Uninstall("ext.quote", None))
    assert (await rig.install(manifest_json("ext.other"))).manifest.id == "ext.other"


async def test_of_many_who_install_the_same_at_once_one_does(rig: Rig) -> None:
    outcomes: list[str] = []

    async def install(by: str) -> None:
        try:
            outcomes.append((await rig.install(by=by)).installed_by_passport or "")
        except Conflict:
            outcomes.append("conflict")

    async with trio.open_nursery() as waiting:
        for number in range(8):
            waiting.start_soon(install, f"by {number}")
    assert sorted(outcomes)[1:] == ["conflict"] * 7
    assert (await rig.extensions.ask(ShowExtension("ext.quote"))).installed_by_passport == min(outcomes)
    assert len(rig.writes()) == len(await rig.trail()) == 1


async def test_without_a_signature_the_switch_decides(rig: Rig) -> None:
    manifest = manifest_of(manifest_json())
    with pytest.raises(InvalidArgument, match="CORECRUXD_EXTENSIONS_ALLOW_UNSIGNED"):
        await rig.extensions.ask(Install(manifest, None))
    assert (await rig.install()).trust_tier is TrustTier.UNKNOWN


@pytest.mark.parametrize("tier", TrustTier)
async def test_a_signed_manifest_gets_the_tier_of_its_key_and_keeps_it(rig: Rig, tier: TrustTier) -> None:
    install = Install(signed(manifest_of(manifest_json())), None)
    with pytest.raises(InvalidArgument):
        await rig.extensions.ask(install)
    await rig.trust(tier=tier)
    assert (await rig.extensions.ask(install)).trust_tier is tier
    await rig.extensions.ask(DistrustKey(SIGNER, None))
    assert (await rig.extensions.ask(ShowExtension("ext.quote"))).trust_tier is tier


async def test_what_is_not_installed_is_not_found(rig: Rig) -> None:
    for message in (ShowExtension("nope"), Uninstall("nope", None)):
        with pytest.raises(NotFound, match=r"^extension 'nope' not installed$"):
            await rig.extensions.ask(message)
    assert await rig.trail() == []


async def test_there_is_room_for_so_many_extensions(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert extensions_module.MOST_EXTENSIONS == 500
    monkeypatch.setattr(extensions_module, "MOST_EXTENSIONS", 2)
    await rig.install(recipe_json("a"))
    await rig.install(recipe_json("b"))
    with pytest.raises(Conflict, match=r"^2 extensions are installed: uninstall one first$"):
        await rig.install(recipe_json("c"))


# --- uninstalling


async def test_an_extension_ends_with_its_grants_in_one_write_and_coming_back_revives_none(rig: Rig) -> None:
    installed = await rig.install()
    await rig.install(manifest_json("ext.other", ("ext.other",)))
    await rig.grant(passport="bob", allowed_prefixes_write=("q::",))
    await rig.grant(passport="alice", rate_limit_per_min=3)
    await rig.grant("ext.other")
    before = len(rig.writes())
    assert await rig.extensions.ask(Uninstall("ext.quote", "eve")) == installed
    assert len(rig.writes()) == before + 1
    assert [record[0] for record in await rig.records()] == [
        "__extension__::ext.other",
        "__extension_grant__::ext.other::alice",
    ]
    ended = rig.writes()[-1]
    assert isinstance(ended, Transact)
    drafts = [step.draft for step in ended.steps if isinstance(step, Put)]
    assert [(draft.entity, draft.value, draft.confidence) for draft in drafts] == [
        ("__extension__::ext.quote", "", 0.0),
        ("__extension_grant__::ext.quote::alice", "", 0.0),
        ("__extension_grant__::ext.quote::bob", "", 0.0),
    ]
    *_, gone, alice, bob = await rig.trail()
    assert gone == ("extension_uninstall", "ext.quote", "eve", "0.1.0", "uninstalled", {})
    assert [(end[0], end[2], end[4], end[5]["passport_fpr"]) for end in (alice, bob)] == [
        ("extension_grant_removed", "eve", "removed", "alice"),
        ("extension_grant_removed", "eve", "removed", "bob"),
    ]
    await rig.install()
    assert await rig.extensions.ask(GrantsOf("ext.quote")) == ()
    assert await rig.tool_names() == ["ext.other"]


# --- keys


async def test_a_key_is_kept_shown_replaced_and_removed(rig: Rig) -> None:
    key = await rig.extensions.ask(TrustKey("p_b", PUBLIC_KEY_HEX, TrustTier.FIRST_PARTY, "me", "bob"))
    assert key == TrustedKey(PUBLIC_KEY_HEX, TrustTier.FIRST_PARTY, NOW_MS, "me")
    other = await rig.extensions.ask(TrustKey("p_a", PUBLIC_KEY_HEX.upper(), TrustTier.UNKNOWN, "", None))
    assert await rig.extensions.ask(ListKeys()) == (("p_a", other), ("p_b", key))
    again = await rig.extensions.ask(TrustKey("p_b", PUBLIC_KEY_HEX, TrustTier.UNKNOWN, "", None))
    assert dict(await rig.extensions.ask(ListKeys()))["p_b"] == again
    assert await rig.extensions.ask(DistrustKey("p_b", "eve")) == again
    assert await rig.extensions.ask(ListKeys()) == (("p_a", other),)
    assert await rig.trail() == [
        ("trusted_key_added", "p_b", "bob", "", "added", {"passport_fpr": "p_b", "trust_tier": "first_party"}),
        ("trusted_key_added", "p_a", OPERATOR, "", "added", {"passport_fpr": "p_a", "trust_tier": "unknown"}),
        ("trusted_key_added", "p_b", OPERATOR, "", "added", {"passport_fpr": "p_b", "trust_tier": "unknown"}),
        ("trusted_key_removed", "p_b", "eve", "", "removed", {"passport_fpr": "p_b", "trust_tier": "unknown"}),
    ]


async def test_a_key_that_is_not_there_is_not_found(rig: Rig) -> None:
    with pytest.raises(NotFound, match=r"^key 'nope' is not in the keyring$"):
        await rig.extensions.ask(DistrustKey("nope", None))


@pytest.mark.parametrize(
    "text", ["", "ab", PUBLIC_KEY_HEX[:-1], PUBLIC_KEY_HEX + "0", PUBLIC_KEY_HEX[:-1] + "g", PUBLIC_KEY_HEX[:-1] + "٣"]
)
async def test_a_key_has_64_hex_digits(rig: Rig, text: str) -> None:
    with pytest.raises(InvalidArgument, match="'public_key_hex' must be 64 hex digits"):
        await rig.extensions.ask(TrustKey(SIGNER, text, TrustTier.UNKNOWN, "", None))


@pytest.mark.parametrize("fingerprint", ["", "a b", "é", "a/b", "x" * 129])
async def test_a_fingerprint_has_the_shape_of_a_passport(rig: Rig, fingerprint: str) -> None:
    with pytest.raises(InvalidArgument, match="'passport_fpr' must be 1 to 128 characters"):
        await rig.trust(fingerprint)


async def test_the_longest_fingerprint_and_note_are_taken_and_no_longer_note(rig: Rig) -> None:
    await rig.extensions.ask(TrustKey("aZ0._:-x" * 16, PUBLIC_KEY_HEX, TrustTier.UNKNOWN, "x" * MOST_TEXT, None))
    with pytest.raises(InvalidArgument, match="'added_by' must have at most 512 characters"):
        await rig.extensions.ask(TrustKey("p", PUBLIC_KEY_HEX, TrustTier.UNKNOWN, "x" * (MOST_TEXT + 1), None))


async def test_a_full_keyring_takes_only_what_it_has(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert extensions_module.MOST_KEYS == 1000
    monkeypatch.setattr(extensions_module, "MOST_KEYS", 2)
    await rig.trust("a")
    await rig.trust("b")
    with pytest.raises(Conflict, match=r"^2 keys are in the keyring: remove one first$"):
        await rig.trust("c")
    await rig.trust("a", TrustTier.FIRST_PARTY)


# --- grants


async def test_a_grant_is_kept_as_it_was_asked_for(rig: Rig) -> None:
    await rig.install()
    terms: dict[str, Any] = {
        "allowed_tool_names": ("ext.quote.daily",),
        "allowed_prefixes_read": ("r::",),
        "allowed_prefixes_write": ("w::",),
        "rate_limit_per_min": 0,
    }
    grant = await rig.grant(by="bob", **terms)
    assert grant == ExtensionGrant(
        extension_id="ext.quote",
        passport_fpr="alice",
        granted_at_unix_ms=NOW_MS,
        granted_by_passport="bob",
        **terms,
    )
    assert await rig.extensions.ask(GrantsOf("ext.quote")) == (grant,)
    shown = {name: list(value) if isinstance(value, tuple) else value for name, value in terms.items()}
    assert (await rig.trail())[-1] == (
        "extension_grant_added",
        "ext.quote",
        "bob",
        "",
        "added",
        {"passport_fpr": "alice", **shown},
    )


async def test_what_is_wrong_with_a_grant_is_told_in_the_order_of_the_contract(rig: Rig) -> None:
    await rig.install()
    await rig.grant()
    ungrantable = {"allowed_prefixes_write": ("__passport__",)}
    for extension_id, passport, terms, refusal, told in (
        ("Nope", "", ungrantable, NotFound, "^extension 'Nope' not installed$"),
        ("ext.quote", " ", ungrantable, InvalidArgument, "^'passport_fpr' must not be blank$"),
        ("ext.quote", "alice", ungrantable, InvalidArgument, "cannot be granted"),
        ("ext.quote", "alice", {}, Conflict, "^passport 'alice' has a grant for extension 'ext.quote' already"),
    ):
        with pytest.raises(refusal, match=told):
            await rig.grant(extension_id, passport, **terms)
    assert len(await rig.extensions.ask(GrantsOf("ext.quote"))) == 1


async def test_a_grant_that_was_revoked_is_over_and_can_be_issued_again(rig: Rig) -> None:
    await rig.install()
    grant = await rig.grant()
    assert await rig.extensions.ask(RevokeGrant("ext.quote", "alice", "eve")) == grant
    assert (await rig.trail())[-1][:3] == ("extension_grant_removed", "ext.quote", "eve")
    assert (await rig.extensions.ask(Lookup("ext.quote", "alice"))).grant is None
    assert await rig.tool_names() == []
    with pytest.raises(NotFound, match=r"^passport 'alice' has no grant for extension 'ext.quote'$"):
        await rig.extensions.ask(RevokeGrant("ext.quote", "alice", None))
    assert await rig.grant() == grant


async def test_grants_are_listed_by_passport_and_those_of_nothing_are_none(rig: Rig) -> None:
    await rig.install()
    for passport in ("b", "a", "c"):
        await rig.grant(passport=passport)
    assert [grant.passport_fpr for grant in await rig.extensions.ask(GrantsOf("ext.quote"))] == ["a", "b", "c"]
    assert await rig.extensions.ask(GrantsOf("nope")) == ()


async def test_there_is_room_for_so_many_grants_each_and_in_all(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (extensions_module.MOST_GRANTS_EACH, extensions_module.MOST_GRANTS) == (500, 5000)
    monkeypatch.setattr(extensions_module, "MOST_GRANTS_EACH", 2)
    monkeypatch.setattr(extensions_module, "MOST_GRANTS", 3)
    await rig.install(recipe_json("a"))
    await rig.install(recipe_json("b"))
    await rig.grant("a", "x")
    await rig.grant("a", "y")
    with pytest.raises(Conflict, match=r"^2 grants of this extension exist"):
        await rig.grant("a", "z")
    await rig.grant("b", "x")
    with pytest.raises(Conflict, match=r"^3 grants exist"):
        await rig.grant("b", "y")
    await rig.extensions.ask(Uninstall("a", None))
    await rig.grant("b", "y")


# --- looking up


async def test_a_lookup_tells_what_is_installed_and_what_is_granted(rig: Rig) -> None:
    installed = await rig.install()
    grant = await rig.grant()
    for extension_id, passport, found in (
        ("ext.quote", "alice", (installed, grant)),
        ("ext.quote", "bob", (installed, None)),
        ("nope", "alice", (None, None)),
    ):
        standing = await rig.extensions.ask(Lookup(extension_id, passport))
        assert (standing.installed, standing.grant) == found


async def test_a_passport_has_the_tools_of_its_grants_by_name(rig: Rig) -> None:
    await rig.install(manifest_json("z", ("ext.b", "ext.d")))
    await rig.install(manifest_json("a", ("ext.c", "ext.a", "ext.e")))
    await rig.install(recipe_json("recipe"))
    await rig.grant("z")
    await rig.grant("a", allowed_tool_names=("ext.c", "ext.e", "ext.undeclared"))
    await rig.grant("recipe")
    await rig.grant("a", "bob")
    assert await rig.tool_names() == ["ext.b", "ext.c", "ext.d", "ext.e"]
    assert await rig.tool_names("bob") == ["ext.a", "ext.c", "ext.e"]
    assert await rig.tool_names("eve") == []
    granted = await rig.extensions.ask(ToolsFor("bob"))
    assert {one.installed.manifest.id for one in granted} == {"a"}


async def test_the_same_tools_come_back_until_a_grant_of_the_passport_changes(rig: Rig) -> None:
    await rig.install()
    await rig.install(manifest_json("ext.other", ("ext.other",)))
    await rig.grant()
    first = await rig.extensions.ask(ToolsFor("alice"))
    await rig.grant(passport="bob")
    await rig.install(recipe_json("recipe"))
    assert await rig.extensions.ask(ToolsFor("alice")) is first
    await rig.grant("ext.other")
    second = await rig.extensions.ask(ToolsFor("alice"))
    assert (len(first), len(second)) == (1, 2)
    await rig.extensions.ask(Uninstall("ext.quote", None))
    assert await rig.tool_names() == ["ext.other"]


async def test_a_tool_is_found_by_its_name_and_by_the_one_without_dots(rig: Rig) -> None:
    await rig.install(manifest_json(tools=("ext.quote.daily", "ext.quote.of-the-day")))
    for name, declared in (
        ("ext.quote.daily", "ext.quote.daily"),
        ("ext_quote_daily", "ext.quote.daily"),
        ("ext_quote_of-the-day", "ext.quote.of-the-day"),
    ):
        assert await rig.extensions.ask(Resolve(name)) == ("ext.quote", declared)
    for name in ("ext.quote", "ext_quote.daily", "ext.quote.daily.more", ""):
        assert await rig.extensions.ask(Resolve(name)) is None
    await rig.extensions.ask(Uninstall("ext.quote", None))
    assert await rig.extensions.ask(Resolve("ext.quote.daily")) is None


# --- who hears of it


async def listening(rig: Rig, agent: str) -> Outbox:
    return (await rig.sessions.ask(OpenStream(owner_key(agent, None), StreamLimits(0, 0), None))).outbox


async def told(*listeners: Outbox) -> list[bool]:
    """Which of the agents were told by now that their tools changed; what waited for them is taken."""
    await trio.testing.wait_all_tasks_blocked()
    return [listener.holds(LIST_CHANGED) and LIST_CHANGED in await listener.take() for listener in listeners]


async def test_agents_hear_that_their_tools_changed(rig: Rig) -> None:
    both = await listening(rig, "alice"), await listening(rig, "bob")
    await rig.install()
    assert await told(*both) == [False, False], "an install alone changes nobody's tools"
    await rig.grant()
    assert await told(*both) == [True, False]
    await rig.extensions.ask(RevokeGrant("ext.quote", "alice", None))
    assert await told(*both) == [True, False]
    await rig.grant()
    await rig.grant(passport="bob")
    assert await told(*both) == [True, True]
    await rig.extensions.ask(Uninstall("ext.quote", None))
    assert await told(*both) == [True, True]


# --- the store


async def everything(rig: Rig) -> tuple[object, ...]:
    listed = await rig.extensions.ask(ListExtensions())
    grants = [await rig.extensions.ask(GrantsOf(one.manifest.id)) for one in listed]
    keys = await rig.extensions.ask(ListKeys())
    return (listed, grants, keys, await rig.extensions.ask(ToolsFor("alice")), await rig.trail())


async def test_all_of_it_is_there_after_a_kill(tmp_path: Path) -> None:
    async with running(tmp_path) as rig:
        await rig.install(by="bob")
        await rig.install(recipe_json("gone"))
        await rig.grant(allowed_prefixes_write=("q::",))
        await rig.grant(passport="gone")
        await rig.trust()
        await rig.trust("gone")
        await rig.extensions.ask(Uninstall("gone", None))
        await rig.extensions.ask(RevokeGrant("ext.quote", "gone", None))
        await rig.extensions.ask(DistrustKey("gone", None))
        before = await everything(rig)
    async with running(tmp_path) as rig:
        assert await everything(rig) == before
        with pytest.raises(Conflict):
            await rig.install()


async def test_all_of_it_is_there_after_the_actor_failed(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    await rig.install()
    await rig.grant()
    before = await everything(rig)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    with monkeypatch.context() as patch, structlog.testing.capture_logs():
        patch.setattr(extensions_module, "check_extension_id", fail)
        with pytest.raises(Exception, match="internal error"):
            await rig.install(recipe_json("b"))
    assert await everything(rig) == before
    assert rig.extensions.figures.restarts == 1


@pytest.mark.parametrize(
    "change",
    [
        Install(manifest_of(manifest_json("ext.other", ("ext.other",))), None, allow_unsigned=True),
        Uninstall("ext.quote", None),
        IssueGrant(extension_id="ext.quote", passport_fpr="bob"),
        RevokeGrant("ext.quote", "alice", None),
        TrustKey("other", PUBLIC_KEY_HEX, TrustTier.UNKNOWN, "", None),
        TrustKey(SIGNER, PUBLIC_KEY_HEX, TrustTier.FIRST_PARTY, "", None),
        DistrustKey(SIGNER, None),
    ],
    ids=lambda change: type(change).__name__,
)
async def test_what_was_not_kept_has_not_happened(rig: Rig, change: Message[object]) -> None:
    await rig.install()
    await rig.grant()
    await rig.trust()
    before = await everything(rig)
    with rig.full_disk(), pytest.raises(StorageFull):
        await rig.extensions.ask(change)
    assert await everything(rig) == before
    await rig.extensions.ask(change)
    assert await everything(rig) != before


@pytest.mark.parametrize("lands", [True, False])
async def test_a_write_without_an_answer_is_looked_up_before_anything_else(
    rig: Rig, mock_clock: trio.testing.MockClock, lands: bool
) -> None:
    """Where it was made after all, the trail and the agent hear of it then."""
    await rig.install()
    alice, before = await listening(rig, "alice"), await rig.trail()
    commit, gate = rig.engine.commit, trio.Event()

    async def keep_back(commands: Sequence[Message[Any]], now_us: int) -> Outcomes:
        rig.engine.commit = commit
        await gate.wait()
        return await commit(commands, now_us) if lands else [StorageFull("the disk is full")] * len(commands)

    async def grant_too_late() -> None:
        with pytest.raises(NoAnswer):
            await rig.grant()

    rig.engine.commit = keep_back
    async with trio.open_nursery() as waiting:
        waiting.start_soon(grant_too_late)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(ASK_DEADLINE_S + LOOK_S)
    found: list[ExtensionGrant] = []

    async def show() -> None:
        found.extend(await rig.extensions.ask(GrantsOf("ext.quote")))

    async with trio.open_nursery() as waiting:
        waiting.start_soon(show)
        await trio.testing.wait_all_tasks_blocked()
        assert not found
        gate.set()
    assert [grant.passport_fpr for grant in found] == (["alice"] if lands else [])
    assert await told(alice) == [lands]
    assert await rig.tool_names() == (["ext.quote.daily"] if lands else [])
    *known, last = await rig.trail()
    assert (known == before and last[0] == "extension_grant_added") if lands else [*known, last] == before


async def test_a_record_that_cannot_be_read_is_skipped_and_logged(tmp_path: Path) -> None:
    manifest = manifest_of(recipe_json("a"))
    installed = InstalledExtension(manifest, manifest_hash(manifest), TrustTier.UNKNOWN, 1)
    key = TrustedKey(PUBLIC_KEY_HEX, TrustTier.UNKNOWN, 1)
    grant = ExtensionGrant(extension_id="a", passport_fpr="alice", granted_at_unix_ms=1)
    orphan = ExtensionGrant(extension_id="never", passport_fpr="alice", granted_at_unix_ms=1)
    broken = [
        Draft("__extension__::broken", "record", "{}", private=True),
        Draft("__extension__::other", "record", extension_draft(installed, None).value, private=True),
        Draft("__extension_grant__::a::bob", "record", "no JSON", private=True),
        Draft("__trusted_key__::short", "record", '{"passport_fpr":"short","public_key_hex":"ab"}', private=True),
    ]
    sound = [extension_draft(installed, None), key_draft("p", key, None), grant_draft(grant, None)]
    async with running(tmp_path) as rig:
        await rig.store(*broken, *sound, grant_draft(orphan, None))
    with structlog.testing.capture_logs() as logs:
        async with running(tmp_path) as rig:
            assert await rig.extensions.ask(ListExtensions()) == (installed,)
            assert await rig.extensions.ask(GrantsOf("a")) == (grant,)
            assert await rig.extensions.ask(GrantsOf("never")) == ()
            assert await rig.extensions.ask(ListKeys()) == (("p", key),)
    skipped = [entry["entity"] for entry in logs if entry["event"] == "a record of extensions is skipped"]
    assert sorted(skipped) == sorted(draft.entity for draft in broken)
    assert [entry["extension_id"] for entry in logs if "extension_id" in entry] == ["never"]


@pytest.mark.parametrize("by", ["install", "uninstall"])
async def test_a_grant_that_could_not_be_read_never_comes_to_life(tmp_path: Path, by: str) -> None:
    """Not when its extension is installed again, nor when a later daemon can read it (Decision 26)."""
    async with running(tmp_path) as rig:
        await rig.install()
        await rig.grant(passport="mallory")
        kept = [record for record in await rig.records() if record[0].endswith("::mallory")]
        (sound,) = [Draft(entity, "record", value, private=True) for entity, value, _ in kept]
        if by == "install":
            await rig.store(Draft("__extension__::ext.quote", "record", "{}", private=True))
        else:
            await rig.store(Draft(sound.entity, "record", "{}", private=True))
    async with running(tmp_path) as rig:
        if by == "uninstall":
            await rig.extensions.ask(Uninstall("ext.quote", None))
        await rig.install()
    async with running(tmp_path) as rig:
        assert await rig.extensions.ask(GrantsOf("ext.quote")) == ()
        assert [record[0] for record in await rig.records()] == ["__extension__::ext.quote"]


async def test_an_earlier_version_of_a_record_stays_in_the_store(rig: Rig) -> None:
    await rig.install()
    await rig.extensions.ask(Uninstall("ext.quote", "eve"))
    chain = await rig.recall.ask(Chain("__extension__::ext.quote", "record", RAW_ADMIN))
    assert [(bool(fact.value), fact.version, fact.actor) for fact in chain] == [(True, 1, None), (False, 2, "eve")]


# --- the trail


async def test_an_event_that_is_not_kept_is_logged_and_the_change_stands(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    async with running(tmp_path, audits=False) as rig:
        with structlog.testing.capture_logs() as logs:
            async with trio.open_nursery() as waiting:
                waiting.start_soon(rig.install)
                while not rig.audit.report().depth:
                    await trio.lowlevel.checkpoint()
                mock_clock.jump(RECORD_S + LOOK_S)
        assert [(entry["action"], entry["pack_id"]) for entry in logs] == [("extension_install", "ext.quote")]
        assert (await rig.extensions.ask(ShowExtension("ext.quote"))).manifest.id == "ext.quote"


async def test_all_that_ends_with_an_extension_is_one_message_for_the_trail(tmp_path: Path) -> None:
    async with running(tmp_path, audit_capacity=1) as rig:
        await rig.install()
        for passport in "abc":
            await rig.grant(passport=passport)
        await rig.extensions.ask(Uninstall("ext.quote", None))
        assert [event[0] for event in await rig.trail()][-4:] == [
            "extension_uninstall",
            *["extension_grant_removed"] * 3,
        ]
