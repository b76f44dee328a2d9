"""What the Extensions write, read again after a kill, a crash, a lost answer or a record of another version, and tell."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog.testing
import trio
import trio.testing

from crux.actors import extensions as extensions_module
from crux.actors.audit import RECORD_S
from crux.actors.extension_messages import (
    DistrustKey,
    GrantsOf,
    Install,
    IssueGrant,
    ListExtensions,
    ListKeys,
    RevokeGrant,
    ShowExtension,
    ToolsFor,
    TrustKey,
    Uninstall,
)
from crux.actors.mailbox import ASK_DEADLINE_S, LOOK_S
from crux.domain.commands import Chain
from crux.domain.extensions import (
    ExtensionGrant,
    InstalledExtension,
    TrustedKey,
    TrustTier,
    extension_draft,
    key_draft,
)
from crux.domain.facts import Draft
from crux.domain.grants import grant_draft
from crux.domain.manifest_signing import manifest_hash
from crux.domain.messages import Message
from crux.domain.privacy import RAW_ADMIN
from crux.errors import Conflict, NoAnswer, StorageFull
from tests.manifests import PUBLIC_KEY_HEX, SIGNER, manifest_json, manifest_of, recipe_json
from tests.unit.actors.extension_rig import Rig, listening, running, were_told
from tests.unit.actors.stores import kept_back


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running(tmp_path) as rig:
        yield rig


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

    async def grant_too_late() -> None:
        with pytest.raises(NoAnswer):
            await rig.grant()

    gate = kept_back(rig.engine, lands=lands)
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
    assert await were_told(alice) == [lands]
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
