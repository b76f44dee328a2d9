"""Grants: what may be granted to a passport, and how a grant is kept and shown (extensions contract 7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from crux.domain.extensions import MOST_TEXT, ExtensionGrant, check_place, read_record, record_draft, shown
from crux.domain.facts import Draft, Fact
from crux.domain.privacy import AGENT_PREFIX, BOOTSTRAP_PREFIX, BORN_PRIVATE_PREFIXES, DAEMON_PREFIXES
from crux.errors import InvalidArgument

GRANT_PREFIX: Final = "__extension_grant__::"
# Entries in any one list of a grant.
MOST_ENTRIES: Final = 256
MOST_RATE: Final = 2**32 - 1

# How all names begin that the daemon keeps for itself, those of a later version as well.
_INTERNAL = "__"
_RESERVED: Final = (AGENT_PREFIX, BOOTSTRAP_PREFIX, *DAEMON_PREFIXES, *BORN_PRIVATE_PREFIXES)

_decode: Final = msgspec.json.Decoder(ExtensionGrant).decode


def check_grant(grant: ExtensionGrant) -> None:
    """Raise `InvalidArgument` for what cannot be granted: the passport first, then lists, then prefixes in order."""
    check_passport(grant.passport_fpr)
    lists = {
        "allowed_tool_names": grant.allowed_tool_names,
        "allowed_prefixes_read": grant.allowed_prefixes_read,
        "allowed_prefixes_write": grant.allowed_prefixes_write,
    }
    for name, texts in lists.items():
        _check_texts(name, texts)
    rate = grant.rate_limit_per_min
    if rate is not None and not 0 <= rate <= MOST_RATE:
        raise InvalidArgument(
            f"'rate_limit_per_min' must be an integer from 0 to {MOST_RATE}, got {shown(str(rate))}",
            data={"param": "rate_limit_per_min"},
        )
    for prefix in (*grant.allowed_prefixes_read, *grant.allowed_prefixes_write):
        check_prefix(prefix)


def check_passport(passport_fpr: str) -> None:
    """Raise `InvalidArgument` for a name that no passport has.

    The subject of a JWT is one too, so that it may hold more than the characters of a header.
    """
    if not passport_fpr.strip():
        raise InvalidArgument("'passport_fpr' must not be blank", data={"param": "passport_fpr"})
    if len(passport_fpr) > MOST_TEXT or passport_fpr != passport_fpr.strip() or not passport_fpr.isprintable():
        raise InvalidArgument(
            f"'passport_fpr' must be printable text of at most {MOST_TEXT} characters without blanks around it, "
            f"got {shown(passport_fpr)}",
            data={"param": "passport_fpr"},
        )


def check_prefix(prefix: str) -> None:
    """Raise `InvalidArgument` for a prefix that reaches names which the daemon or an agent keeps to itself.

    Entities are matched by how they start, so a leading part of a reserved prefix reaches all that it stands for.
    """
    if not prefix:
        raise InvalidArgument(
            "the empty prefix cannot be granted: it reaches every entity; name a prefix such as 'quotes::'",
            data={"prefix": prefix},
        )
    if prefix.startswith(_INTERNAL):
        raise InvalidArgument(
            f"prefix {shown(prefix)} cannot be granted: entities that start with '{_INTERNAL}' belong to the daemon",
            data={"prefix": prefix, "reserved_prefix": _INTERNAL},
        )
    for reserved in _RESERVED:
        if prefix.startswith(reserved) or reserved.startswith(prefix):
            raise InvalidArgument(
                f"prefix {shown(prefix)} cannot be granted: it reaches entities that start with '{reserved}', "
                "which is reserved",
                data={"prefix": prefix, "reserved_prefix": reserved},
            )


def grant_entity(extension_id: str, passport_fpr: str) -> str:
    """Where a grant is kept. No extension's id holds a colon, so that no two pairs share a name (Decision 25)."""
    return f"{GRANT_PREFIX}{extension_id}::{passport_fpr}"


def granted_extension(entity: str) -> str:
    """The extension whose grant is kept under `entity`."""
    return entity.removeprefix(GRANT_PREFIX).partition("::")[0]


def terms_document(grant: ExtensionGrant) -> dict[str, object]:
    """Who may do what, for the audit trail."""
    return {
        "passport_fpr": grant.passport_fpr,
        "allowed_tool_names": grant.allowed_tool_names,
        "allowed_prefixes_read": grant.allowed_prefixes_read,
        "allowed_prefixes_write": grant.allowed_prefixes_write,
        "rate_limit_per_min": grant.rate_limit_per_min,
    }


def grant_document(grant: ExtensionGrant) -> dict[str, object]:
    """The grant as it is kept and shown; what is None is left out."""
    document = {
        "extension_id": grant.extension_id,
        **terms_document(grant),
        "granted_at_unix_ms": grant.granted_at_unix_ms,
        "granted_by_passport": grant.granted_by_passport,
    }
    return {name: value for name, value in document.items() if value is not None}


def grant_draft(grant: ExtensionGrant, by: str | None) -> Draft:
    return record_draft(grant_entity(grant.extension_id, grant.passport_fpr), grant_document(grant), by)


def grant_kept_in(fact: Fact) -> ExtensionGrant:
    """The grant that `fact` keeps; raises `InvalidArgument` where it keeps none, or one that is not given out."""
    grant = read_record(_decode, fact)
    check_grant(grant)
    check_place(fact, grant_entity(grant.extension_id, grant.passport_fpr))
    return grant


def _check_texts(name: str, texts: Sequence[str]) -> None:
    if len(texts) > MOST_ENTRIES:
        raise InvalidArgument(
            f"'{name}' must have at most {MOST_ENTRIES} entries, got {len(texts)}", data={"param": name}
        )
    for text in texts:
        if len(text) > MOST_TEXT:
            raise InvalidArgument(
                f"'{name}' must hold texts of at most {MOST_TEXT} characters, got one of {len(text)}",
                data={"param": name},
            )
