"""What is kept of installed extensions: the install, the grants, the keys that manifests are signed with.

Source: extensions contract 5.3, 6 and 7.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

import msgspec
from attrs import frozen

from crux.domain.bounds import NAME_SHOWN
from crux.domain.facts import Draft, Fact
from crux.domain.manifests import Manifest, SpokenEnum, ToolDeclaration, manifest_document, read_manifest
from crux.errors import InvalidArgument

EXTENSION_PREFIX: Final = "__extension__::"
KEY_PREFIX: Final = "__trusted_key__::"
RECORD_KEY: Final = "record"
# Characters in any one text of a grant or a key.
MOST_TEXT: Final = 512

_FINGERPRINT = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_KEY = re.compile(r"[0-9A-Fa-f]{64}")

R = TypeVar("R")


class TrustTier(SpokenEnum):
    """How far the operator trusts a key. It is shown, and gates nothing."""

    FIRST_PARTY = "first_party"
    LOCALLY_SIGNED = "locally_signed"
    COMMUNITY_REVIEWED = "community_reviewed"
    UNKNOWN = "unknown"


@frozen
class TrustedKey:
    """A key whose signature makes a manifest installable, at this tier; 32 bytes as hex digits."""

    public_key_hex: str
    trust_tier: TrustTier
    added_at_unix_ms: int
    added_by: str = ""


@frozen
class InstalledExtension:
    """An extension as it was installed; the manifest is never validated again."""

    manifest: Manifest
    manifest_hash: str
    trust_tier: TrustTier
    installed_at_unix_ms: int
    installed_by_passport: str | None = None


@frozen(kw_only=True)
class ExtensionGrant:
    """What one passport may do with one extension.

    No `allowed_tool_names` means every declared tool; no `allowed_prefixes_write` means that no write is kept. A
    `rate_limit_per_min` of None is the daemon's default, 0 lets no call through.
    """

    extension_id: str
    passport_fpr: str
    allowed_tool_names: tuple[str, ...] = ()
    allowed_prefixes_read: tuple[str, ...] = ()
    allowed_prefixes_write: tuple[str, ...] = ()
    rate_limit_per_min: int | None = None
    granted_at_unix_ms: int
    granted_by_passport: str | None = None

    def allows(self, tool: str) -> bool:
        return not self.allowed_tool_names or tool in self.allowed_tool_names


# The hash of all that a manifest says is worth keeping.
@frozen(cache_hash=True)
class GrantedTool:
    """A tool that somebody's grant reaches, and the extension that brings it."""

    installed: InstalledExtension
    tool: ToolDeclaration


@frozen
class Standing:
    """What there is of an extension for one passport; None where it is not installed, or nothing is granted."""

    installed: InstalledExtension | None
    grant: ExtensionGrant | None


class _KeptExtension(msgspec.Struct, frozen=True):
    manifest: object
    manifest_hash: str
    trust_tier: TrustTier
    installed_at_unix_ms: int
    installed_by_passport: str | None = None


class _KeptKey(msgspec.Struct, frozen=True):
    passport_fpr: str
    public_key_hex: str
    trust_tier: TrustTier
    added_at_unix_ms: int
    added_by: str = ""


_decode_extension: Final = msgspec.json.Decoder(_KeptExtension).decode
_decode_key: Final = msgspec.json.Decoder(_KeptKey).decode


def extension_entity(extension_id: str) -> str:
    return EXTENSION_PREFIX + extension_id


def key_entity(passport_fpr: str) -> str:
    return KEY_PREFIX + passport_fpr


def installed_document(installed: InstalledExtension) -> dict[str, object]:
    """The record as it is kept and shown (extensions contract 6)."""
    by = installed.installed_by_passport
    return {
        "manifest": manifest_document(installed.manifest),
        "manifest_hash": installed.manifest_hash,
        "trust_tier": installed.trust_tier,
        "installed_at_unix_ms": installed.installed_at_unix_ms,
        **({} if by is None else {"installed_by_passport": by}),
    }


def key_document(key: TrustedKey) -> dict[str, object]:
    """The key as it is shown in a keyring (extensions contract 5.3)."""
    return {
        "public_key_hex": key.public_key_hex,
        "trust_tier": key.trust_tier,
        "added_at_unix_ms": key.added_at_unix_ms,
        "added_by": key.added_by,
    }


def check_key(passport_fpr: str, key: TrustedKey) -> None:
    """Raise `InvalidArgument` for what is no fingerprint, no key, or too long a note of who added it."""
    if _FINGERPRINT.fullmatch(passport_fpr) is None:
        raise InvalidArgument(
            f"'passport_fpr' must be 1 to 128 characters of A-Z a-z 0-9 . _ : -, got {shown(passport_fpr)}",
            data={"param": "passport_fpr"},
        )
    if _KEY.fullmatch(key.public_key_hex) is None:
        raise InvalidArgument(
            f"'public_key_hex' must be 64 hex digits (an Ed25519 key of 32 bytes), got {shown(key.public_key_hex)}",
            data={"param": "public_key_hex"},
        )
    if len(key.added_by) > MOST_TEXT:
        raise InvalidArgument(
            f"'added_by' must have at most {MOST_TEXT} characters, got {len(key.added_by)}", data={"param": "added_by"}
        )


def shown(text: str) -> str:
    """A name that a caller made up, as a message quotes it: cut where it is long."""
    return f"'{text[:NAME_SHOWN]}'"


def record_draft(entity: str, document: Mapping[str, object], by: str | None) -> Draft:
    """The fact that keeps a record of extensions, grants or keys."""
    text = msgspec.json.encode(document).decode()
    return Draft(entity=entity, key=RECORD_KEY, value=text, private=True, actor=by)


def removal_draft(entity: str, by: str | None) -> Draft:
    """The fact that says that there is no such record any more (extensions contract 1): it has no value."""
    return Draft(entity=entity, key=RECORD_KEY, value="", confidence=0.0, private=True, actor=by)


def extension_draft(installed: InstalledExtension, by: str | None) -> Draft:
    return record_draft(extension_entity(installed.manifest.id), installed_document(installed), by)


def key_draft(passport_fpr: str, key: TrustedKey, by: str | None) -> Draft:
    return record_draft(key_entity(passport_fpr), {"passport_fpr": passport_fpr, **key_document(key)}, by)


def extension_kept_in(fact: Fact) -> InstalledExtension:
    """The install that `fact` keeps; raises `InvalidArgument` where it keeps none."""
    kept = read_record(_decode_extension, fact)
    installed = InstalledExtension(
        read_manifest(kept.manifest),
        kept.manifest_hash,
        kept.trust_tier,
        kept.installed_at_unix_ms,
        kept.installed_by_passport,
    )
    check_place(fact, extension_entity(installed.manifest.id))
    return installed


def key_kept_in(fact: Fact) -> tuple[str, TrustedKey]:
    """The fingerprint and the key that `fact` keeps; raises `InvalidArgument` where it keeps none."""
    kept = read_record(_decode_key, fact)
    key = TrustedKey(kept.public_key_hex, kept.trust_tier, kept.added_at_unix_ms, kept.added_by)
    check_key(kept.passport_fpr, key)
    check_place(fact, key_entity(kept.passport_fpr))
    return kept.passport_fpr, key


def read_record(decode: Callable[[str], R], fact: Fact) -> R:
    """The record in a fact's value; raises `InvalidArgument` where it is another, or none."""
    try:
        return decode(fact.value)
    except msgspec.MsgspecError as error:
        raise InvalidArgument(f"not a record that this daemon reads: {error}") from error


def check_place(fact: Fact, entity: str) -> None:
    """Raise `InvalidArgument` where a record is kept under another's name."""
    if (fact.entity, fact.key) != (entity, RECORD_KEY):
        raise InvalidArgument(f"the record belongs under '{entity}', key '{RECORD_KEY}'")
