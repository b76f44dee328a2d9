"""How changes to extensions, grants and keys get into the audit trail (extensions contract 12)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from attrs import frozen

from crux.actors.audit import RecordAudit
from crux.actors.clock import Clock
from crux.actors.mailbox import Mailbox
from crux.domain.audit import OPERATOR, AuditEvent
from crux.domain.extensions import ExtensionGrant, InstalledExtension, TrustedKey
from crux.domain.grants import terms_document
from crux.domain.manifests import Json
from crux.errors import CruxError
from crux.logs import get_logger

log = get_logger("crux.extensions")

# The trail is best effort: what it has no time for is logged, and the change stands.
AUDIT_DEADLINE_S = 5.0


@frozen
class ChangeTrail:
    """Puts what was changed, by whom, into the trail, in order. An event that fails is logged, and nothing is raised.

    Owns no state. `by` is the acting passport, None for an operator without one.
    """

    audit: Mailbox
    clock: Clock

    async def installed(self, installed: InstalledExtension, by: str | None) -> None:
        detail = {"manifest_hash": installed.manifest_hash, "trust_tier": installed.trust_tier}
        await self._record(self._of_extension("extension_install", installed, by, detail))

    async def uninstalled(
        self, installed: InstalledExtension, grants: tuple[ExtensionGrant, ...], by: str | None
    ) -> None:
        """An extension went, and these grants with it."""
        gone = self._of_extension("extension_uninstall", installed, by, {})
        await self._record(gone, *(self._of_grant("removed", grant, by) for grant in grants))

    async def granted(self, grant: ExtensionGrant, by: str | None) -> None:
        await self._record(self._of_grant("added", grant, by))

    async def revoked(self, grant: ExtensionGrant, by: str | None) -> None:
        await self._record(self._of_grant("removed", grant, by))

    async def trusted(self, passport_fpr: str, key: TrustedKey, by: str | None) -> None:
        await self._record(self._of_key("added", passport_fpr, key, by))

    async def distrusted(self, passport_fpr: str, key: TrustedKey, by: str | None) -> None:
        await self._record(self._of_key("removed", passport_fpr, key, by))

    async def _record(self, *events: AuditEvent) -> None:
        # One mailbox keeps their order, and the answer to the last one comes when all are settled.
        *before, last = events
        for event in before:
            if not self.audit.tell(RecordAudit(event)):
                _log_lost(event, f"the mailbox of {self.audit.name} is full")
        try:
            await self.audit.ask(RecordAudit(last), deadline_s=AUDIT_DEADLINE_S)
        except CruxError as error:
            _log_lost(last, error.message)

    def _of_extension(
        self, action: str, installed: InstalledExtension, by: str | None, detail: Mapping[str, object]
    ) -> AuditEvent:
        return AuditEvent(
            action=action,
            pack_id=installed.manifest.id,
            ts_unix_ms=self._now_ms(),
            actor=by or OPERATOR,
            version=installed.manifest.version,
            outcome=action.removeprefix("extension_") + "ed",
            detail=_json(detail),
        )

    def _of_grant(self, outcome: str, grant: ExtensionGrant, by: str | None) -> AuditEvent:
        return AuditEvent(
            action=f"extension_grant_{outcome}",
            pack_id=grant.extension_id,
            ts_unix_ms=self._now_ms(),
            actor=by or OPERATOR,
            outcome=outcome,
            detail=_json(terms_document(grant)),
        )

    def _of_key(self, outcome: str, passport_fpr: str, key: TrustedKey, by: str | None) -> AuditEvent:
        return AuditEvent(
            action=f"trusted_key_{outcome}",
            pack_id=passport_fpr,
            ts_unix_ms=self._now_ms(),
            actor=by or OPERATOR,
            outcome=outcome,
            detail=_json({"passport_fpr": passport_fpr, "trust_tier": key.trust_tier}),
        )

    def _now_ms(self) -> int:
        return self.clock.now_us() // 1000


def _json(detail: Mapping[str, object]) -> Json:
    return Json(msgspec.json.encode(detail).decode())


def _log_lost(event: AuditEvent, reason: str) -> None:
    log.warning("an audit event was not kept", action=event.action, pack_id=event.pack_id, reason=reason)
