"""The audit trail over HTTP, as the console reads it."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from crux.actors.audit import RecordAudit
from crux.actors.mailbox import Mailbox
from crux.domain.audit import AuditEvent
from crux.domain.manifests import Json
from tests.conftest import Stack

Who = Callable[..., dict[str, str]]


@pytest.fixture
def audit(stack: Stack) -> Mailbox:
    return stack.services.audit


async def test_the_newest_50_events_are_shown_the_oldest_of_them_first(
    http: httpx.AsyncClient, who: Who, audit: Mailbox
) -> None:
    for number in range(51):
        await audit.ask(RecordAudit((AuditEvent(action=f"a{number}", pack_id="ext.quote", ts_unix_ms=number),)))
    answer = await http.get("/v1/console/integrations", headers=who(scopes="admin:read"))
    assert answer.status_code == 200
    assert [event["action"] for event in answer.json()["audit_tail"]] == [f"a{number}" for number in range(1, 51)]


async def test_an_event_is_shown_with_what_it_says_and_packs_are_none(
    http: httpx.AsyncClient, who: Who, audit: Mailbox
) -> None:
    event = AuditEvent(
        action="extension_install",
        pack_id="ext.quote",
        ts_unix_ms=7,
        actor="bob",
        version="0.1.0",
        outcome="installed",
        detail=Json('{"trust_tier":"unknown"}'),
    )
    await audit.ask(RecordAudit((event,)))
    shown = (await http.get("/v1/console/integrations", headers=who())).json()
    capabilities = shown.pop("allowed_capabilities")
    assert shown == {
        "packs": [],
        "grants": [],
        "audit_tail": [
            {
                "ts_unix_ms": 7,
                "action": "extension_install",
                "actor": "bob",
                "pack_id": "ext.quote",
                "version": "0.1.0",
                "outcome": "installed",
                "detail": {"trust_tier": "unknown"},
            }
        ],
    }
    assert len(capabilities) == len(set(capabilities)) == 14


async def test_the_trail_is_for_readers_of_an_administrators(http: httpx.AsyncClient, who: Who) -> None:
    answer = await http.get("/v1/console/integrations", headers=who(scopes="query:read facts:write admin:write"))
    assert (answer.status_code, answer.json()["detail"]) == (403, "insufficient scopes")
    assert answer.json()["missingScopes"] == ["admin:read"]
