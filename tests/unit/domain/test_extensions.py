import json
from typing import Any

import msgspec
import pytest
from attrs import evolve

from crux.domain.extensions import (
    MOST_TEXT,
    InstalledExtension,
    TrustedKey,
    TrustTier,
    check_key,
    extension_draft,
    extension_kept_in,
    installed_document,
    key_document,
    key_draft,
    key_kept_in,
    removal_draft,
    shown,
)
from crux.domain.facts import Draft, Fact, next_version
from crux.errors import InvalidArgument
from tests.manifests import PUBLIC_KEY_HEX, manifest_json, manifest_of, recipe_json, signed

MANIFEST = manifest_of(manifest_json())
INSTALLED = InstalledExtension(MANIFEST, "blake3:00", TrustTier.UNKNOWN, 7)
KEY = TrustedKey(PUBLIC_KEY_HEX, TrustTier.FIRST_PARTY, 7, "me")


def kept(draft: Draft) -> Fact:
    return next_version(draft, None, fact_id="f", now_us=1)


@pytest.mark.parametrize(
    ("tier", "spoken"),
    [
        ("first_party", "FirstParty"),
        ("locally_signed", "LocallySigned"),
        ("community_reviewed", "CommunityReviewed"),
        ("unknown", "Unknown"),
    ],
)
def test_a_tier_has_a_slug_and_a_spoken_name(tier: str, spoken: str) -> None:
    assert TrustTier(tier).spoken == spoken


@pytest.mark.parametrize(
    "installed",
    [
        INSTALLED,
        evolve(INSTALLED, installed_by_passport="bob", trust_tier=TrustTier.LOCALLY_SIGNED),
        evolve(INSTALLED, manifest=manifest_of(recipe_json("r"))),
        evolve(INSTALLED, manifest=signed(MANIFEST)),
    ],
)
def test_an_install_that_is_kept_is_read_back_whole(installed: InstalledExtension) -> None:
    draft = extension_draft(installed, "eve")
    assert (draft.private, draft.actor, draft.key) == (True, "eve", "record")
    assert draft.entity == f"__extension__::{installed.manifest.id}"
    assert extension_kept_in(kept(draft)) == installed


def test_an_install_is_shown_with_who_made_it_where_somebody_did() -> None:
    document = installed_document(INSTALLED)
    assert list(document) == ["manifest", "manifest_hash", "trust_tier", "installed_at_unix_ms"]
    by_bob = installed_document(evolve(INSTALLED, installed_by_passport="bob"))
    assert by_bob == {**document, "installed_by_passport": "bob"}


def test_a_key_that_is_kept_is_read_back_whole() -> None:
    draft = key_draft("p_1:x", KEY, "eve")
    assert (draft.private, draft.actor, draft.entity, draft.key) == (True, "eve", "__trusted_key__::p_1:x", "record")
    assert json.loads(draft.value) == {"passport_fpr": "p_1:x", **key_document(KEY)}
    assert key_kept_in(kept(draft)) == ("p_1:x", KEY)


def test_a_removal_has_no_value_and_no_confidence() -> None:
    draft = removal_draft("__extension__::a", "eve")
    assert (draft.entity, draft.key, draft.value, draft.confidence) == ("__extension__::a", "record", "", 0.0)
    assert (draft.private, draft.actor) == (True, "eve")


@pytest.mark.parametrize(
    "change",
    [
        {"value": "not JSON"},
        {"value": "{}"},
        {"value": '{"manifest": {}, "manifest_hash": "", "trust_tier": "unknown", "installed_at_unix_ms": 1}'},
        {"value": extension_draft(INSTALLED, None).value.replace('"unknown"', '"great"')},
        {"entity": "__extension__::other"},
        {"key": "other"},
    ],
)
def test_a_fact_that_keeps_no_such_install_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        extension_kept_in(msgspec.structs.replace(kept(extension_draft(INSTALLED, None)), **change))


@pytest.mark.parametrize(
    "change",
    [
        {"value": "not JSON"},
        {"value": "{}"},
        {"value": key_draft("p", evolve(KEY, public_key_hex="ab"), None).value},
        {"entity": "__trusted_key__::other"},
        {"key": "other"},
    ],
)
def test_a_fact_that_keeps_no_such_key_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        key_kept_in(msgspec.structs.replace(kept(key_draft("p", KEY, None)), **change))


@pytest.mark.parametrize("fingerprint", ["p", "p_community_alice", "A-Z.0:9_", "x" * 128])
def test_a_fingerprint_has_the_shape_of_a_passport_header(fingerprint: str) -> None:
    check_key(fingerprint, KEY)


@pytest.mark.parametrize("fingerprint", ["", "a b", "a\n", "é", "a/b", "x" * 129])
def test_what_is_no_fingerprint_is_refused(fingerprint: str) -> None:
    with pytest.raises(InvalidArgument, match="'passport_fpr' must be 1 to 128 characters"):
        check_key(fingerprint, KEY)


def test_hex_digits_may_be_capital() -> None:
    check_key("p", evolve(KEY, public_key_hex=PUBLIC_KEY_HEX.upper()))


def test_a_note_has_a_longest() -> None:
    check_key("p", evolve(KEY, added_by="x" * MOST_TEXT))
    with pytest.raises(InvalidArgument, match="'added_by' must have at most 512 characters, got 513"):
        check_key("p", evolve(KEY, added_by="x" * (MOST_TEXT + 1)))


def test_a_long_name_is_shown_in_part() -> None:
    assert (shown("a"), len(shown("x" * 10_000))) == ("'a'", 202)
