"""What the audit trail is told of changes to extensions, grants and keys (extensions contract 12)."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from crux.actors.clock import Clock, now_ms
from crux.domain.audit import OPERATOR, AuditEvent
from crux.domain.extensions import ExtensionGrant, InstalledExtension, TrustedKey
from crux.domain.grants import terms_document
from crux.domain.manifests import Json

Events = tuple[AuditEvent, ...]


@frozen
class ChangeTrail:
    """Words what was changed, by whom, in order. `by` is the acting passport, None for an operator without one."""

    clock: Clock

    def installed(self, installed: InstalledExtension, by: str | None) -> Events:
        detail = {"manifest_hash": installed.manifest_hash, "trust_tier": installed.trust_tier}
        return (self._of_extension("extension_install", installed, by, detail),)

    def uninstalled(self, installed: InstalledExtension, grants: tuple[ExtensionGrant, ...], by: str | None) -> Events:
        """An extension went, and these grants with it."""
        gone = self._of_extension("extension_uninstall", installed, by, {})
        return (gone, *(self._of_grant("removed", grant, by) for grant in grants))

    def granted(self, grant: ExtensionGrant, by: str | None) -> Events:
        return (self._of_grant("added", grant, by),)

    def revoked(self, grant: ExtensionGrant, by: str | None) -> Events:
        return (self._of_grant("removed", grant, by),)

    def trusted(self, passport_fpr: str, key: TrustedKey, by: str | None) -> Events:
        return (self._of_key("added", passport_fpr, key, by),)

    def distrusted(self, passport_fpr: str, key: TrustedKey, by: str | None) -> Events:
        return (self._of_key("removed", passport_fpr, key, by),)

    def _of_extension(
        self, action: str, installed: InstalledExtension, by: str | None, detail: Mapping[str, object]
    ) -> AuditEvent:
        return AuditEvent(
            action=action,
            pack_id=installed.manifest.id,
            ts_unix_ms=now_ms(self.clock),
            actor=by or OPERATOR,
            version=installed.manifest.version,
            outcome=action.removeprefix("extension_") + "ed",
            detail=Json.of(detail),
        )

    def _of_grant(self, outcome: str, grant: ExtensionGrant, by: str | None) -> AuditEvent:
        return AuditEvent(
            action=f"extension_grant_{outcome}",
            pack_id=grant.extension_id,
            ts_unix_ms=now_ms(self.clock),
            actor=by or OPERATOR,
            outcome=outcome,
            detail=Json.of(terms_document(grant)),
        )

    def _of_key(self, outcome: str, passport_fpr: str, key: TrustedKey, by: str | None) -> AuditEvent:
        return AuditEvent(
            action=f"trusted_key_{outcome}",
            pack_id=passport_fpr,
            ts_unix_ms=now_ms(self.clock),
            actor=by or OPERATOR,
            outcome=outcome,
            detail=Json.of({"passport_fpr": passport_fpr, "trust_tier": key.trust_tier}),
        )
