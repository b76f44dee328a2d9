import json
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.capability import CapabilityCall, Decision, call_of, capability_of, decide, denied
from crux.domain.rcx_token import HOSTED_BACKEND, Capability, CreditCost, Credits, Fallbacks, Refill, Token
from crux.domain.rcx_validation import examine
from crux.errors import CAPABILITY_DENIED
from tests.rcx_tokens import EXPIRES_AT, ISSUED_AT, PUBLIC, backend, minted

OTHER_KEY = bytes(31) + b"\x01"
INVALID = "denied:token_invalid"
NOT_PERMITTED = "denied:capability_not_permitted"
EGRESS = "denied:egress_not_permitted"
ATTESTATION = "denied:attestation_missing"
EXPIRED = "denied:token_expired"
UNAVAILABLE = "denied:backend_unavailable"
REPLAY = "denied:receipt_class_side_effect_denied"
CREDIT = "denied:insufficient_credit"

PAID = Capability(
    capability="paid",
    data_egress_classes=("none", "text"),
    required_attestations=("seen", "approved"),
    credit_cost=CreditCost(unit="call", cost=5),
)
FREE = Capability(capability="free", data_egress_classes=("none",))
BACKENDS = tuple(backend(name, PAID, FREE) for name in ("local", HOSTED_BACKEND, "customer:acme"))
PAID_CALL = CapabilityCall(
    capability="paid", preferred_backend=HOSTED_BACKEND, present_attestations=PAID.required_attestations
)
FREE_CALL = CapabilityCall(capability="free")


def credits_of(balance: int | None = 5, overdraft: Any = "forbid", limit: int | None = None) -> Credits:
    return Credits(balance=balance, refill=Refill(period="none"), overdraft=overdraft, overdraft_limit=limit)


def fallbacks(
    *, unreachable: Any = "refuse", exhausted: Any = "refuse", expiry: Any = "refuse", ttl: int | None = None
) -> Fallbacks:
    return Fallbacks(
        on_backend_unreachable=unreachable, on_credits_exhausted=exhausted, on_expiry=expiry, queue_ttl_seconds=ttl
    )


def token(**changes: Any) -> Token:
    return minted(**{"backends": BACKENDS, "credits": credits_of(), "tier": "pro", **changes})


def asked(
    call: CapabilityCall,
    *,
    now_s: int = ISSUED_AT,
    balance: int | None = None,
    key: bytes | None = PUBLIC,
    **changes: Any,
) -> Decision:
    return decide(examine(token(**changes), key), call, now_s=now_s, balance=balance)


def verdict(decision: Decision) -> tuple[str, str | None, str | None]:
    return decision.mode, decision.backend_id, decision.reason_code


def refused(reason: str) -> tuple[str, None, str]:
    return "refused", None, reason


@pytest.mark.parametrize(
    ("tool", "capability", "backend_id", "egress"),
    [
        ("query", "corecrux.query.local", "local", "none"),
        ("query_scan", "corecrux.query.local", "local", "none"),
        ("query_expand", "corecrux.query.local", "local", "none"),
        ("query_facts", "crux-mcp.query_facts", "local", "none"),
        ("sync_pull", "crux-mcp.sync_pull", "hosted.vaultcrux.com", "text"),
        ("sync_push", "crux-mcp.sync_push", "hosted.vaultcrux.com", "text"),
        ("issue_passport", "crux-mcp.issue_passport", "hosted.vaultcrux.com", "text"),
        ("sync_status", "crux-mcp.sync_status", "local", "none"),
        ("ext.weather.now", "crux-extension.ext.weather.now", "local", "none"),
        ("extra", "crux-mcp.extra", "local", "none"),
    ],
)
def test_a_tool_needs_its_capability_on_its_backend(tool: str, capability: str, backend_id: str, egress: str) -> None:
    call = call_of(tool)
    assert capability_of(tool) == call.capability == capability
    assert (call.preferred_backend, call.data_egress_classes) == (backend_id, (egress,))
    assert (call.estimated_credit_cost, call.present_attestations, call.backend_reachable) == (0, (), True)


@pytest.mark.parametrize(
    ("backend_id", "mode"),
    [("local", "local"), (HOSTED_BACKEND, "hosted"), ("customer:acme", "customer_hosted")],
)
def test_a_call_that_meets_no_gate_goes_to_its_backend(backend_id: str, mode: str) -> None:
    decision = asked(evolve(PAID_CALL, preferred_backend=backend_id))
    assert verdict(decision) == (mode, backend_id, None)
    assert decision.authorised
    assert decision.refusal_receipt is None


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (asked(FREE_CALL, delegation_policy={}), INVALID),
        (asked(FREE_CALL, spec_version="rcx-ct/1.1"), INVALID),
        (asked(FREE_CALL, key=OTHER_KEY), INVALID),
        (asked(FREE_CALL, key=None), INVALID),
        (asked(FREE_CALL, token_id=""), INVALID),
        (asked(FREE_CALL, now_s=ISSUED_AT - 1), INVALID),
        (asked(evolve(FREE_CALL, capability="fre")), NOT_PERMITTED),
        (asked(evolve(FREE_CALL, preferred_backend="customer:other")), NOT_PERMITTED),
        (asked(FREE_CALL, backends=BACKENDS[1:]), NOT_PERMITTED),
        (asked(evolve(FREE_CALL, data_egress_classes=("none", "text"))), EGRESS),
        (asked(evolve(PAID_CALL, present_attestations=("seen",))), ATTESTATION),
        (asked(FREE_CALL, now_s=EXPIRES_AT), EXPIRED),
        (asked(evolve(PAID_CALL, backend_reachable=False)), UNAVAILABLE),
        (asked(PAID_CALL, receipt_class="replay"), REPLAY),
        (asked(evolve(FREE_CALL, estimated_credit_cost=1), receipt_class="replay"), REPLAY),
        (asked(PAID_CALL, credits=credits_of(4)), CREDIT),
        (asked(PAID_CALL, credits=credits_of(None)), CREDIT),
    ],
)
def test_each_gate_refuses_with_its_reason(decision: Decision, reason: str) -> None:
    assert verdict(decision) == refused(reason)
    assert not decision.authorised


def test_the_first_gate_that_does_not_open_gives_the_reason() -> None:
    changes: dict[str, Any] = {"receipt_class": "replay", "credits": credits_of(0)}
    late = EXPIRES_AT + 1
    call = evolve(PAID_CALL, data_egress_classes=("vectors",), present_attestations=(), backend_reachable=False)
    assert asked(evolve(call, capability="?"), now_s=late, token_id="", **changes).reason_code == INVALID
    assert asked(evolve(call, capability="?"), now_s=late, **changes).reason_code == NOT_PERMITTED
    assert asked(call, now_s=late, **changes).reason_code == EGRESS
    call = evolve(call, data_egress_classes=("text",))
    assert asked(call, now_s=late, **changes).reason_code == ATTESTATION
    call = evolve(call, present_attestations=("approved", "seen", "more"))
    assert asked(call, now_s=late, **changes).reason_code == EXPIRED
    assert asked(call, **changes).reason_code == UNAVAILABLE
    call = evolve(call, backend_reachable=True)
    assert asked(call, **changes).reason_code == REPLAY
    assert asked(call, credits=credits_of(0)).reason_code == CREDIT


@pytest.mark.parametrize(
    ("obstacle", "setting", "reason"),
    [
        ({"call": evolve(PAID_CALL, backend_reachable=False)}, "unreachable", UNAVAILABLE),
        ({"call": PAID_CALL, "credits": credits_of(0)}, "exhausted", CREDIT),
    ],
)
def test_an_obstacle_is_dealt_with_as_the_token_says(obstacle: dict[str, Any], setting: str, reason: str) -> None:
    def with_fallback(action: str, ttl: int | None = None) -> Decision:
        return asked(**obstacle, fallback=fallbacks(**{setting: action}, ttl=ttl))

    assert verdict(with_fallback("degrade_to_local")) == ("degraded-local", "local", reason)
    assert verdict(with_fallback("queue", 60)) == ("degraded-queued", HOSTED_BACKEND, reason)
    assert with_fallback("queue", 60).stamp()["queue_ttl_seconds"] == 60
    assert verdict(with_fallback("queue")) == refused(reason)
    assert verdict(with_fallback("refuse", 60)) == refused(reason)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("degrade_to_local", ("degraded-local", "local", EXPIRED)),
        ("queue", refused(EXPIRED)),
        ("refuse", refused(EXPIRED)),
    ],
)
def test_a_call_under_an_expired_token_may_degrade_but_not_wait(action: str, expected: tuple[str, ...]) -> None:
    assert verdict(asked(PAID_CALL, now_s=EXPIRES_AT, fallback=fallbacks(expiry=action, ttl=60))) == expected


def test_the_local_backend_is_always_reachable() -> None:
    assert asked(evolve(FREE_CALL, backend_reachable=False)).mode == "local"


def test_a_replay_token_allows_what_costs_nothing() -> None:
    assert asked(FREE_CALL, receipt_class="replay").mode == "local"


@pytest.mark.parametrize(
    ("credits_", "balance", "allowed"),
    [
        (credits_of(5), None, True),
        (credits_of(4, "forbid", 100), None, False),
        (credits_of(4, "warn", 1), None, True),
        (credits_of(4, "allow_to_limit", 1), None, True),
        (credits_of(3, "allow_to_limit", 1), None, False),
        (credits_of(4, "warn"), None, False),
        (credits_of(5, "warn"), None, True),
        (credits_of(None, "warn", 5), None, True),
        (credits_of(-1, "warn", 5), None, False),
        (credits_of(0), 5, True),
        (credits_of(5), 4, False),
        (credits_of(5), 0, False),
    ],
)
def test_credit_is_the_balance_and_what_an_overdraft_adds(
    credits_: Credits, balance: int | None, allowed: bool
) -> None:
    assert asked(PAID_CALL, credits=credits_, balance=balance).authorised is allowed


def test_the_dearer_of_the_estimate_and_the_price_counts() -> None:
    assert asked(evolve(PAID_CALL, estimated_credit_cost=6)).reason_code == CREDIT
    assert asked(evolve(PAID_CALL, estimated_credit_cost=1), credits=credits_of(4)).reason_code == CREDIT


actions = st.sampled_from(["degrade_to_local", "refuse", "queue"])


@given(
    egress=st.lists(st.sampled_from(["none", "text", "vectors"]), max_size=2).map(tuple),
    attestations=st.sets(st.sampled_from(["seen", "approved"])).map(tuple),
    backend_id=st.sampled_from(["local", HOSTED_BACKEND, "customer:acme", "customer:other"]),
    reachable=st.booleans(),
    estimate=st.integers(0, 8),
    receipt_class=st.sampled_from(["verified", "replay"]),
    balance=st.none() | st.integers(0, 8),
    overdraft=st.sampled_from(["forbid", "warn", "allow_to_limit"]),
    limit=st.none() | st.integers(0, 4),
    expired=st.booleans(),
    on=st.tuples(actions, actions, actions),
    ttl=st.none() | st.integers(0, 9),
)
def test_a_decision_follows_the_table_of_gates(
    egress: Any,
    attestations: Any,
    backend_id: str,
    reachable: bool,
    estimate: int,
    receipt_class: Any,
    balance: int | None,
    overdraft: str,
    limit: int | None,
    expired: bool,
    on: tuple[str, str, str],
    ttl: int | None,
) -> None:
    call = CapabilityCall(
        capability="paid",
        preferred_backend=backend_id,
        data_egress_classes=egress,
        present_attestations=attestations,
        estimated_credit_cost=estimate,
        backend_reachable=reachable,
    )
    on_expiry, on_unreachable, on_exhausted = on
    cost = max(estimate, 5)
    enough = (balance or 0) >= cost or (overdraft != "forbid" and (balance or 0) + (limit or 0) >= cost)
    table = [
        (backend_id == "customer:other", NOT_PERMITTED, "refuse"),
        ("vectors" in egress, EGRESS, "refuse"),
        (len(attestations) < 2, ATTESTATION, "refuse"),
        (expired, EXPIRED, on_expiry.replace("queue", "refuse")),
        (not reachable and backend_id != "local", UNAVAILABLE, on_unreachable),
        (receipt_class == "replay", REPLAY, "refuse"),
        (not enough, CREDIT, on_exhausted),
    ]
    shut = [(reason, action) for holds, reason, action in table if holds]
    expected: tuple[str, str | None, str | None]
    match shut:
        case []:
            expected = (
                {"local": "local", HOSTED_BACKEND: "hosted"}.get(backend_id, "customer_hosted"),
                backend_id,
                None,
            )
        case [(reason, "degrade_to_local"), *_]:
            expected = ("degraded-local", "local", reason)
        case [(reason, "queue"), *_] if ttl is not None:
            expected = ("degraded-queued", backend_id, reason)
        case [(reason, _), *_]:
            expected = refused(reason)
    decision = asked(
        call,
        now_s=EXPIRES_AT if expired else ISSUED_AT,
        receipt_class=receipt_class,
        credits=credits_of(balance, overdraft, limit),
        fallback=fallbacks(expiry=on_expiry, unreachable=on_unreachable, exhausted=on_exhausted, ttl=ttl),
    )
    assert verdict(decision) == expected
    assert decision.authorised is (expected[0] != "refused") is (decision.refusal_receipt is None)


def test_a_refusal_is_told_with_its_stamp_and_receipt() -> None:
    call = evolve(PAID_CALL, present_attestations=("seen",), data_egress_classes=("text",))
    decision = asked(call)
    error = denied(decision)
    names_token = {"token_id": decision.token_id, "token_hash": decision.token_hash}
    assert error.code == CAPABILITY_DENIED
    assert ATTESTATION in error.message
    assert error.data is not None
    assert list(error.data) == [
        "reason_code",
        "mode",
        "token_id",
        "token_hash",
        "stamp",
        "refusal_receipt",
        "upgrade_hint",
    ]
    assert json.loads(json.dumps(error.data)) == {
        "reason_code": ATTESTATION,
        "mode": "refused",
        **names_token,
        "stamp": {
            "header": "X-Crux-Mode",
            "mode": "refused",
            "reason_code": ATTESTATION,
            **names_token,
            "queue_ttl_seconds": None,
            "revocation_checked": False,
        },
        "refusal_receipt": {
            "event_type": "rcx.capability_token.call_refused.v1",
            **names_token,
            "capability": "paid",
            "backend_id": HOSTED_BACKEND,
            "data_egress_classes": ["text"],
            "required_attestations": ["seen", "approved"],
            "present_attestations": ["seen"],
            "reason_code": ATTESTATION,
            "receipt_class": "verified",
        },
        "upgrade_hint": None,
    }


def test_the_receipt_of_an_unknown_capability_asks_for_no_attestation() -> None:
    receipt = asked(evolve(FREE_CALL, capability="?")).refusal_receipt
    assert receipt is not None
    assert receipt.required_attestations == ()


@pytest.mark.parametrize(("length", "shown"), [(256, 256), (257, 256), (1_000_000, 256)])
def test_of_a_long_capability_a_receipt_tells_the_start(length: int, shown: int) -> None:
    receipt = asked(CapabilityCall(capability="c" * length)).refusal_receipt
    assert receipt is not None
    assert receipt.capability == "c" * shown


def test_a_refused_capability_of_the_pro_tier_comes_with_a_hint() -> None:
    data = denied(asked(CapabilityCall(capability="crux-mcp.dense_rerank"))).data
    assert data is not None
    assert isinstance(hint := data["upgrade_hint"], dict)
    assert hint["capability"] == "crux-mcp.dense_rerank"
