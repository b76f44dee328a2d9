"""The Extensions on the real store: what is decided, in which order, and that it is on disk before it is believed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from crux.actors import extensions as extensions_module
from crux.actors.extension_messages import (
    DistrustKey,
    GrantsOf,
    Install,
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
from crux.domain.audit import OPERATOR
from crux.domain.commands import Put, Transact
from crux.domain.extensions import (
    MOST_TEXT,
    ExtensionGrant,
    InstalledExtension,
    TrustedKey,
    TrustTier,
)
from crux.domain.manifest_signing import manifest_hash
from crux.errors import Conflict, InvalidArgument, NotFound
from tests.manifests import PUBLIC_KEY_HEX, SIGNER, manifest_json, manifest_of, recipe_json, signed
from tests.unit.actors.extension_rig import NOW_MS, Rig, listening, running, were_told


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


async def test_agents_hear_that_their_tools_changed(rig: Rig) -> None:
    both = await listening(rig, "alice"), await listening(rig, "bob")
    await rig.install()
    assert await were_told(*both) == [False, False], "an install alone changes nobody's tools"
    await rig.grant()
    assert await were_told(*both) == [True, False]
    await rig.extensions.ask(RevokeGrant("ext.quote", "alice", None))
    assert await were_told(*both) == [True, False]
    await rig.grant()
    await rig.grant(passport="bob")
    assert await were_told(*both) == [True, True]
    await rig.extensions.ask(Uninstall("ext.quote", None))
    assert await were_told(*both) == [True, True]
