"""The pipeline of a call: one row for each of its checks, and what is left in the audit however a call ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest
import structlog.testing
import trio
import trio.testing
from attrs import define, evolve, field, frozen

from crux.actors.actor import Actor, handles
from crux.actors.audit import RECORD_S, RecordAudit
from crux.actors.limiter import RateLimiter
from crux.actors.mailbox import Mailbox
from crux.actors.supervisor import Supervised, start_all
from crux.domain.audit import AuditEvent
from crux.domain.bounds import NAME_SHOWN
from crux.domain.endpoints import Endpoint
from crux.domain.extensions import ExtensionGrant, InstalledExtension, TrustTier
from crux.domain.manifests import Entry, EntryKind, Json, Manifest, Network, Safety, ToolDeclaration
from crux.domain.outbound import AcceptedWrite, Answer
from crux.domain.outbound_config import OutboundConfig
from crux.domain.outbound_refusals import EndpointNotAllowed, ResponseTooLarge, Transport
from crux.errors import CruxError, StorageFull
from crux.tools.dispatch import Dispatcher, Party
from tests.conftest import HandClock

TOOL = "ext.example.quote.daily"
WRITES = (
    b'[{"entity":"personal::quotes::1","key":"quote","value":"v","confidence":7},'
    b'{"entity":"secrets::api-key","key":"k","value":"v"}]'
)
GOOD = Answer(200, b'{"result": {"quote":1.0}, "fact_writes":' + WRITES + b"}")
MANIFEST = Manifest(
    schema="crux.integration.v1",
    id="ext.example.quote",
    name="Quote of the Day",
    version="0.1.0",
    publisher_passport_fpr="p_community_alice",
    summary="",
    entry=Entry(EntryKind.EXTERNAL_TOOL, "tools/quote.json"),
    network=Network(("tools.example.com:443",)),
    safety=Safety(max_runtime_ms=3000, max_output_bytes=65536),
    external_tool_endpoint="https://tools.example.com/crux/invoke",
    tools=(ToolDeclaration(TOOL, "Return today's quote.", Json("{}")),),
)
INSTALLED = InstalledExtension(MANIFEST, "blake3:0", TrustTier.UNKNOWN, 0)
GRANT = ExtensionGrant(
    extension_id=MANIFEST.id,
    passport_fpr="p_alice",
    allowed_tool_names=(TOOL,),
    allowed_prefixes_write=("personal::quotes::",),
    granted_at_unix_ms=0,
)
ARGS = {"topic": "engineering"}
BODY = (
    b'{"tool":"ext.example.quote.daily","args":{"topic":"engineering"},"calling_passport_id":"p_alice",'
    b'"request_id":"req-1800000000000000000"}'
)


@frozen
class Sent:
    endpoint: Endpoint
    body: bytes
    timeout_s: float
    max_response_bytes: int


@define
class Endpoints:
    """Stands for the network: notes what is sent, and answers or raises what a test wants."""

    reply: Callable[[], Answer | BaseException] = lambda: GOOD
    takes_s: float = 0.0
    sent: list[Sent] = field(factory=list)

    async def __call__(
        self,
        endpoint: Endpoint,
        body: bytes,
        *,
        party: Party,
        timeout_s: float,
        max_response_bytes: int,
        config: OutboundConfig,
    ) -> Answer:
        assert party == (MANIFEST.id, "p_alice") or party[1] == "p_bob"
        self.sent.append(Sent(endpoint, body, timeout_s, max_response_bytes))
        await trio.sleep(self.takes_s)
        reply = self.reply()
        if isinstance(reply, BaseException):
            raise reply
        return reply


class Trail(Actor):
    """An audit that keeps what it hears in a list, takes its time, or fails."""

    def __init__(self, events: list[AuditEvent], fate: dict[str, Any]) -> None:
        self.events = events
        self.fate = fate

    @handles(RecordAudit)
    async def record(self, m: RecordAudit) -> int:
        await trio.sleep(self.fate.get("takes_s", 0.0))
        if "error" in self.fate:
            raise self.fate["error"]
        self.events.extend(m.events)
        return len(m.events)


@define
class Rig:
    dispatcher: Dispatcher
    network: Endpoints
    events: list[AuditEvent]
    fate: dict[str, Any]

    async def call(self, **changes: Any) -> Any:
        given: dict[str, Any] = {
            "installed": INSTALLED,
            "grant": GRANT,
            "tool": TOOL,
            "args": ARGS,
            "passport": "p_alice",
        } | changes
        return await self.dispatcher.dispatch(**given)

    def with_config(self, **changes: Any) -> Rig:
        config = OutboundConfig(**changes)
        return evolve(self, dispatcher=evolve(self.dispatcher, config=lambda: config))


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    events: list[AuditEvent] = []
    fate: dict[str, Any] = {}
    network = Endpoints()
    limiter, audit = Mailbox("limiter"), Mailbox("audit")
    async with trio.open_nursery() as nursery:
        await start_all(nursery, [Supervised(limiter, RateLimiter), Supervised(audit, lambda: Trail(events, fate))])
        dispatcher = Dispatcher(limiter, audit, network, HandClock(), OutboundConfig)
        yield Rig(dispatcher, network, events, fate)
        nursery.cancel_scope.cancel()


def event(reason: str | None) -> AuditEvent:
    detail = {"tool_name": TOOL} if reason is None else {"tool_name": TOOL, "reason": reason}
    return AuditEvent(
        action="extension_invoke_ok" if reason is None else "extension_invoke_rejected",
        pack_id=MANIFEST.id,
        ts_unix_ms=1_800_000_000_000,
        actor="p_alice",
        version="0.1.0",
        outcome="ok" if reason is None else "rejected",
        detail=Json(msgspec.json.encode(detail).decode()),
    )


def with_manifest(**changes: Any) -> dict[str, Any]:
    return {"installed": evolve(INSTALLED, manifest=evolve(MANIFEST, **changes))}


def answering(status: int, body: bytes) -> Callable[[], Answer]:
    return lambda: Answer(status, body)


def failing(error: Exception) -> Callable[[], Exception]:
    return lambda: error


@frozen
class Row:
    """One check: what makes it refuse, how the refusal reads, and whether the endpoint heard of the call."""

    step: int
    reason: str
    text: str
    status: int = 502
    call: dict[str, Any] = field(factory=dict)
    config: dict[str, Any] = field(factory=dict)
    reply: Callable[[], Answer | BaseException] = lambda: GOOD
    sent: bool = False


ROWS = [
    Row(
        1,
        "not_external_tool",
        "extension 'ext.example.quote' has entry.kind HttpRecipe, expected ExternalTool",
        call=with_manifest(entry=Entry(EntryKind.HTTP_RECIPE, "x"), external_tool_endpoint=None),
    ),
    Row(
        2,
        "not_external_tool",
        "extension 'ext.example.quote' has no external_tool_endpoint",
        call=with_manifest(external_tool_endpoint=None),
    ),
    Row(
        3,
        "plain_http_blocked",
        "plain http endpoint blocked (set CORECRUXD_EXTENSIONS_ALLOW_PLAIN_HTTP=true for dev)",
        call=with_manifest(external_tool_endpoint="http:///no-host-either"),
    ),
    Row(
        4,
        "invalid_endpoint",
        "invalid endpoint 'https:///x': expected a host: an ASCII name, an IPv4 address, or an IPv6 address in brackets",
        call=with_manifest(external_tool_endpoint="https:///x"),
    ),
    Row(
        5,
        "endpoint_not_allowed",
        "endpoint 'tools.example.com:444' is not allowed by extension 'ext.example.quote' network.allowed_hosts",
        call=with_manifest(external_tool_endpoint="https://tools.example.com:444/", tools=()),
    ),
    Row(
        6,
        "tool_not_in_manifest",
        f"tool '{TOOL}' is not declared by extension 'ext.example.quote'",
        call=with_manifest(tools=()) | {"grant": evolve(GRANT, passport_fpr="p_bob")},
    ),
    Row(
        7,
        "no_grant",
        "scope violation",
        403,
        call={"grant": evolve(GRANT, passport_fpr="p_bob", allowed_tool_names=("other",))},
    ),
    Row(7, "no_grant", "scope violation", 403, call={"grant": evolve(GRANT, extension_id="ext.other")}),
    Row(
        8,
        "tool_not_in_grant",
        "scope violation",
        403,
        call={"grant": evolve(GRANT, allowed_tool_names=("other",), rate_limit_per_min=0)},
    ),
    Row(
        10,
        "rate_limited",
        "rate limited (cap 0/min)",
        429,
        call={"grant": evolve(GRANT, rate_limit_per_min=0)},
        config={"max_request_bytes": 0},
    ),
    Row(10, "rate_limited", "rate limited (cap 0/min)", 429, config={"default_rate_per_min": 0}),
    Row(
        11,
        "request_too_large",
        f"request too large ({len(BODY)} bytes, max {len(BODY) - 1})",
        config={"max_request_bytes": len(BODY) - 1},
    ),
    Row(11, "json", "the arguments cannot be written as JSON: ", call={"args": "\ud800"}),
    Row(12, "transport", "no answer", reply=failing(Transport("no answer")), sent=True),
    Row(12, "endpoint_not_allowed", "private", reply=failing(EndpointNotAllowed("private")), sent=True),
    Row(13, "response_too_large", "(9 bytes, max 8)", reply=failing(ResponseTooLarge("(9 bytes, max 8)")), sent=True),
    Row(
        13,
        "response_too_large",
        "response too large (65537 bytes, max 65536)",
        reply=answering(500, b"x" * 65537),
        sent=True,
    ),
    Row(14, "upstream_error", "upstream returned status 301: hello", reply=answering(301, b"hello"), sent=True),
    Row(
        14,
        "upstream_error",
        f"upstream returned status 500: {'x' * 512}",
        reply=answering(500, b"x" * 513),
        sent=True,
    ),
    Row(
        15,
        "malformed_response",
        "upstream returned malformed response: the body is empty",
        reply=answering(204, b""),
        sent=True,
    ),
    Row(
        15,
        "malformed_response",
        "upstream returned malformed response: Expected `str`, got `int` - at `$.fact_writes[0].value`",
        reply=answering(200, b'{"result":1,"fact_writes":[{"entity":"personal::quotes::","key":"k","value":1}]}'),
        sent=True,
    ),
    Row(0, "internal", "a bug", status=0, reply=failing(ValueError("a bug")), sent=True),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.step}-{row.reason}")
async def test_each_check_refuses_in_its_turn_and_leaves_one_entry(
    rig: Rig, autojump_clock: trio.testing.MockClock, row: Row
) -> None:
    """Most rows break a later check as well, which must not be the one that is heard of."""
    rig.network.reply = row.reply
    with pytest.raises((CruxError, ValueError)) as refused:
        await rig.with_config(**row.config).call(**row.call)
    error = refused.value
    text = error.message if isinstance(error, CruxError) else str(error)
    assert text == row.text or (row.reason == "json" and text.startswith(row.text))
    assert (error.status if isinstance(error, CruxError) else 0) == row.status
    assert rig.events == [event(row.reason)]
    assert len(rig.network.sent) == row.sent


async def test_a_call_that_goes_well_is_sent_answered_and_noted(
    rig: Rig, autojump_clock: trio.testing.MockClock
) -> None:
    rig.network.takes_s = 1.25
    outcome = await rig.call()
    assert rig.network.sent == [
        Sent(Endpoint("https", "tools.example.com", 443, "/crux/invoke", "tools.example.com"), BODY, 3.0, 65536)
    ]
    assert msgspec.json.encode(outcome.document()) == (
        b'{"result":{"quote":1.0},"accepted_fact_writes":1,"dropped_fact_writes":1,"drop_reasons":["fact_writes[1] '
        b"entity 'secrets::api-key' not covered by grant.allowed_prefixes_write\"],"
        b'"upstream_status":200,"elapsed_ms":1250,"request_id":"req-1800000000000000000"}'
    )
    assert outcome.writes == (AcceptedWrite(0, "personal::quotes::1", "quote", "v", 1.0),)
    assert rig.events == [event(None)]


async def test_the_budgets_of_the_daemon_hold_where_they_are_tighter(
    rig: Rig, autojump_clock: trio.testing.MockClock
) -> None:
    await rig.with_config(timeout_s=1, max_response_bytes=1000).call()
    assert [(sent.timeout_s, sent.max_response_bytes) for sent in rig.network.sent] == [(1, 1000)]


async def test_plain_http_is_called_where_the_switch_is_on(rig: Rig, autojump_clock: trio.testing.MockClock) -> None:
    changes = with_manifest(external_tool_endpoint="http://tools.example.com:443/x")
    await rig.with_config(allow_plain_http=True).call(**changes)
    assert rig.network.sent[0].endpoint.scheme == "http"


async def test_elapsed_time_is_that_of_the_endpoint_alone(rig: Rig, autojump_clock: trio.testing.MockClock) -> None:
    rig.fate["takes_s"] = 2.0
    rig.network.takes_s = 0.5
    assert (await rig.call()).elapsed_ms == 500


@pytest.mark.parametrize("grant", [GRANT, evolve(GRANT, rate_limit_per_min=10)])
async def test_the_call_after_the_last_of_a_minute_never_reaches_the_endpoint(
    rig: Rig, autojump_clock: trio.testing.MockClock, grant: ExtensionGrant
) -> None:
    for _ in range(10):
        await rig.call(grant=grant)
    with pytest.raises(CruxError, match=r"^rate limited \(cap 10/min\)$"):
        await rig.call(grant=grant)
    assert len(rig.network.sent) == 10
    await rig.call(grant=evolve(grant, passport_fpr="p_bob"), passport="p_bob")
    await trio.sleep(60)
    await rig.call(grant=grant)


async def test_an_attempt_that_was_admitted_counts_however_it_ends(
    rig: Rig, autojump_clock: trio.testing.MockClock
) -> None:
    grant = evolve(GRANT, rate_limit_per_min=2)
    with pytest.raises(CruxError, match="too large"):
        await rig.with_config(max_request_bytes=1).call(grant=grant)
    rig.network.reply = failing(Transport("down"))
    with pytest.raises(Transport):
        await rig.call(grant=grant)
    with pytest.raises(CruxError, match="rate limited"):
        await rig.call(grant=grant)


async def test_an_attempt_that_was_not_admitted_does_not_count(
    rig: Rig, autojump_clock: trio.testing.MockClock
) -> None:
    grant = evolve(GRANT, rate_limit_per_min=1)
    for _ in range(3):
        with pytest.raises(CruxError, match="scope violation"):
            await rig.call(grant=grant, passport="p_bob")
    await rig.call(grant=grant)


async def test_a_name_is_cut_in_the_audit_and_in_the_refusal(rig: Rig, autojump_clock: trio.testing.MockClock) -> None:
    """Whoever has a grant may ask for any name."""
    with pytest.raises(CruxError) as refused:
        await rig.call(tool="x" * 100_000)
    assert len(refused.value.message) < NAME_SHOWN + 100
    (kept,) = rig.events
    assert kept.detail == Json.of({"tool_name": "x" * NAME_SHOWN, "reason": "tool_not_in_manifest"})


async def test_calls_of_one_instant_have_ids_of_their_own(rig: Rig, autojump_clock: trio.testing.MockClock) -> None:
    ids = [(await rig.call()).request_id for _ in range(10)]
    assert len(set(ids)) == 10
    assert all(one.startswith("req-1800000000000000") for one in ids)


async def test_a_call_that_is_given_up_leaves_its_entry_without_waiting_for_the_audit(
    rig: Rig, autojump_clock: trio.testing.MockClock
) -> None:
    rig.network.takes_s = 10
    rig.fate["takes_s"] = 1000
    with trio.move_on_after(1) as scope:
        await rig.call()
    assert scope.cancelled_caught
    assert trio.current_time() - scope.deadline < 0.001
    await trio.sleep(1001)
    assert rig.events == [event("cancelled")]


@pytest.mark.parametrize("reply", [lambda: GOOD, failing(Transport("down"))])
async def test_a_call_that_is_given_up_while_the_audit_writes_leaves_one_entry(
    rig: Rig, autojump_clock: trio.testing.MockClock, reply: Any
) -> None:
    rig.network.reply = reply
    rig.fate["takes_s"] = 2
    with trio.move_on_after(1) as scope:
        try:
            await rig.call()
        finally:
            await trio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert rig.events == [event(None if reply() is GOOD else "transport")]


async def test_an_audit_that_fails_changes_nothing_for_the_caller(
    rig: Rig, autojump_clock: trio.testing.MockClock
) -> None:
    rig.fate["error"] = StorageFull("the disk is full")
    with structlog.testing.capture_logs() as logs:
        assert (await rig.call()).upstream_status == 200
        rig.network.reply = failing(Transport("down"))
        with pytest.raises(Transport):
            await rig.call()
    assert [(entry["log_level"], entry["action"]) for entry in logs] == [
        ("warning", "extension_invoke_ok"),
        ("warning", "extension_invoke_rejected"),
    ]


async def test_an_audit_that_hangs_holds_a_call_for_a_bounded_time(
    rig: Rig, autojump_clock: trio.testing.MockClock
) -> None:
    rig.fate["takes_s"] = 1000
    began = trio.current_time()
    with structlog.testing.capture_logs() as logs:
        assert (await rig.call()).upstream_status == 200
    assert trio.current_time() - began == pytest.approx(RECORD_S)
    assert [entry["log_level"] for entry in logs] == ["warning"]


async def test_two_hundred_calls_wait_for_a_slow_endpoint_side_by_side(
    rig: Rig, autojump_clock: trio.testing.MockClock
) -> None:
    rig.network.takes_s = 2.5
    grant = evolve(GRANT, rate_limit_per_min=200)
    began = trio.current_time()
    outcomes = []

    async def call() -> None:
        outcomes.append(await rig.call(grant=grant))

    async with trio.open_nursery() as nursery:
        for _ in range(200):
            nursery.start_soon(call)
    assert len({outcome.request_id for outcome in outcomes}) == 200
    assert trio.current_time() - began == pytest.approx(2.5)
