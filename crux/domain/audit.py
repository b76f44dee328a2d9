"""What the audit trail says of extensions: who did what to which one, and how it went (extensions contract 12).

An event is a fact of the daemon's own: one entity for the trail, one key for a place in it.
"""

from __future__ import annotations

from typing import Final

import msgspec
from attrs import frozen

from crux.domain.extensions import read_record
from crux.domain.facts import Draft, Fact
from crux.domain.manifests import Json
from crux.domain.windows import LIMIT_PER_MIN

OPERATOR = "operator"
AUDIT_ENTITY: Final = "__audit__::extensions"

INVOKE_OK: Final = "extension_invoke_ok"
INVOKE_REJECTED: Final = "extension_invoke_rejected"
SUPPRESSED: Final = "audit_suppressed"
# Only calls come so often that some are left out.
INVOKE_FAMILY: Final = frozenset({INVOKE_OK, INVOKE_REJECTED})

# Keys sort as the places that they name do, up to the largest 64-bit number.
_PLACE_DIGITS = 20


@frozen(kw_only=True)
class AuditEvent:
    """One line of the trail. `pack_id` is the extension's id; what is None or empty is left out when it is shown."""

    action: str
    pack_id: str
    ts_unix_ms: int
    actor: str = OPERATOR
    version: str = ""
    outcome: str = ""
    detail: Json | None = None


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it is kept; no `detail` is empty text, which no JSON value is."""

    ts_unix_ms: int
    action: str
    actor: str = OPERATOR
    pack_id: str
    version: str = ""
    outcome: str = ""
    detail: msgspec.Raw = msgspec.Raw()


_decode: Final = msgspec.json.Decoder(_Line).decode


def audit_document(event: AuditEvent) -> dict[str, object]:
    """The event as readers are shown it: JSON-ready, its members in the contract's order."""
    document: dict[str, object] = {
        "ts_unix_ms": event.ts_unix_ms,
        "action": event.action,
        "actor": event.actor,
        "pack_id": event.pack_id,
    }
    if event.version:
        document["version"] = event.version
    if event.outcome:
        document["outcome"] = event.outcome
    if event.detail is not None:
        document["detail"] = msgspec.json.decode(event.detail.text)
    return document


def suppression_marker(crossing: AuditEvent, count: int, silent_before: int) -> AuditEvent:
    """What is kept in place of the event that crossed the limit, `count` being the events seen in the window with it.

    `silent_before` are events left out since the marker before this one; the member is there where there are any.
    """
    detail = {"event_family": "extension_invoke", "count": count, "limit_per_min": LIMIT_PER_MIN}
    if silent_before:
        detail["suppressed_before"] = silent_before
    return AuditEvent(
        action=SUPPRESSED,
        pack_id=crossing.pack_id,
        ts_unix_ms=crossing.ts_unix_ms,
        actor=crossing.actor,
        version=crossing.version,
        outcome="suppressed",
        detail=Json.of(detail),
    )


def audit_draft(event: AuditEvent, place: int) -> Draft:
    """The fact that keeps `event` at a place of the trail; they count from 0."""
    return Draft(
        entity=AUDIT_ENTITY,
        key=f"{place:0{_PLACE_DIGITS}}",
        value=msgspec.json.encode(audit_document(event)).decode(),
        private=True,
        actor=event.actor,
    )


def place_after(last: Fact | None) -> int:
    """The place that comes after that of the last event which is kept."""
    return 0 if last is None else int(last.key) + 1


def audit_kept_in(fact: Fact) -> AuditEvent:
    """The event that `fact` keeps; raises `InvalidArgument` where it is none that this daemon reads."""
    line = read_record(_decode, fact)
    return AuditEvent(
        action=line.action,
        pack_id=line.pack_id,
        ts_unix_ms=line.ts_unix_ms,
        actor=line.actor,
        version=line.version,
        outcome=line.outcome,
        detail=Json(bytes(line.detail).decode()) if bytes(line.detail) else None,
    )
