"""The integrations that a console shows (extensions contract 13): the audit trail of extensions is read here."""

from __future__ import annotations

from crux.actors.audit import AuditTail
from crux.domain.audit import audit_document
from crux.domain.manifest_rules import CAPABILITIES
from crux.transport.rest.route import AllOf, HttpCall, Reply, json_reply, route

EVENTS_SHOWN = 50


@route("GET", "/v1/console/integrations", AllOf(("admin:read",)))
async def integrations(call: HttpCall) -> Reply:
    """Show the newest events of the trail, the oldest of them first, and what a manifest may ask for.

    Packs and their grants are of a library that this daemon does not have, so that there are none.
    """
    events = await call.ask(call.api.services.audit, AuditTail(EVENTS_SHOWN))
    return json_reply(
        {
            "packs": [],
            "grants": [],
            "audit_tail": [audit_document(event) for event in events],
            "allowed_capabilities": list(CAPABILITIES),
        }
    )


ROUTES = (integrations,)
