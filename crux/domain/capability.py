"""What a capability token lets a call do: the names of capabilities, the decision, and how a refusal is told.

Sources: seed 11.8 for names and the order of the gates, protocol contract 9.4 and 9.5 for the rest.
"""

from typing import Final, Literal

from attrs import frozen

from crux.domain.bounds import cut
from crux.domain.rcx_token import (
    CUSTOMER_BACKEND_PREFIX,
    HOSTED_BACKEND,
    LOCAL_BACKEND,
    Capability,
    Egress,
    Fallback,
    Token,
)
from crux.domain.rcx_upgrade import upgrade_hint
from crux.domain.rcx_validation import ExaminedToken
from crux.errors import Denied

MODE_HEADER = "X-Crux-Mode"
EXTENSION_PREFIX = "ext."
# The receipt of a refusal names what was asked for, and callers ask for names of any length.
MOST_CAPABILITY_BYTES = 256
HOSTED_TOOLS: Final = frozenset({"issue_passport", "sync_pull", "sync_push"})

_SHARED_QUERY = "corecrux.query.local"
_QUERIES = frozenset({"query", "query_scan", "query_expand"})

REFUSED: Final = "refused"
Mode = Literal["local", "hosted", "customer_hosted", "degraded-local", "degraded-queued", "refused"]
Reason = Literal[
    "denied:token_invalid",
    "denied:capability_not_permitted",
    "denied:egress_not_permitted",
    "denied:attestation_missing",
    "denied:token_expired",
    "denied:backend_unavailable",
    "denied:receipt_class_side_effect_denied",
    "denied:insufficient_credit",
]


@frozen(kw_only=True)
class CapabilityCall:
    """What a call needs. Costs are in credits."""

    capability: str
    preferred_backend: str = LOCAL_BACKEND
    data_egress_classes: tuple[Egress, ...] = ("none",)
    present_attestations: tuple[str, ...] = ()
    estimated_credit_cost: int = 0
    backend_reachable: bool = True


@frozen(kw_only=True)
class RefusalReceipt:
    """Evidence of a refused call, carried in the refusal and stored nowhere."""

    token_id: str
    token_hash: str
    capability: str
    backend_id: str
    data_egress_classes: tuple[Egress, ...]
    required_attestations: tuple[str, ...]
    present_attestations: tuple[str, ...]
    reason_code: Reason
    receipt_class: str

    def as_data(self) -> dict[str, object]:
        """The receipt as it is published, ready for JSON."""
        return {
            "event_type": "rcx.capability_token.call_refused.v1",
            "token_id": self.token_id,
            "token_hash": self.token_hash,
            "capability": self.capability,
            "backend_id": self.backend_id,
            "data_egress_classes": self.data_egress_classes,
            "required_attestations": self.required_attestations,
            "present_attestations": self.present_attestations,
            "reason_code": self.reason_code,
            "receipt_class": self.receipt_class,
        }


@frozen(kw_only=True)
class Decision:
    """Whether a call may go on, and where. A degraded call is authorised and still has a reason code."""

    mode: Mode
    backend_id: str | None = None
    reason_code: Reason | None = None
    token_id: str
    token_hash: str
    queue_ttl_seconds: int | None = None
    refusal_receipt: RefusalReceipt | None = None

    @property
    def authorised(self) -> bool:
        return self.mode != REFUSED

    def stamp(self) -> dict[str, object]:
        """How the decision came about, ready for JSON. Revocation lists are not consulted, and it says so."""
        return {
            "header": MODE_HEADER,
            "mode": self.mode,
            "reason_code": self.reason_code,
            "token_id": self.token_id,
            "token_hash": self.token_hash,
            "queue_ttl_seconds": self.queue_ttl_seconds,
            "revocation_checked": False,
        }


def capability_of(tool: str) -> str:
    """The capability that calling `tool` needs; the three query tools share one."""
    if tool.startswith(EXTENSION_PREFIX):
        return f"crux-extension.{tool}"
    return _SHARED_QUERY if tool in _QUERIES else f"crux-mcp.{tool}"


def call_of(tool: str) -> CapabilityCall:
    """What a call of `tool` over MCP needs: the text of a call to a hosted tool leaves the machine."""
    if tool in HOSTED_TOOLS:
        return CapabilityCall(
            capability=capability_of(tool), preferred_backend=HOSTED_BACKEND, data_egress_classes=("text",)
        )
    return CapabilityCall(capability=capability_of(tool))


def decide(examined: ExaminedToken, call: CapabilityCall, *, now_s: int, balance: int | None = None) -> Decision:
    """Whether the token lets `call` happen at `now_s`. `balance`, where known, stands in for the token's own."""
    if not examined.is_sound(now_s=now_s):
        return _refused(examined, call, "denied:token_invalid")
    permitted = examined.permitted(call.preferred_backend, call.capability)
    if permitted is None:
        return _refused(examined, call, "denied:capability_not_permitted")
    if not set(call.data_egress_classes).issubset(permitted.data_egress_classes):
        return _refused(examined, call, "denied:egress_not_permitted")
    if not set(permitted.required_attestations).issubset(call.present_attestations):
        return _refused(examined, call, "denied:attestation_missing")
    obstacle = _obstacle(examined.token, call, permitted, now_s, balance)
    if obstacle is None:
        return _authorised(examined, _mode_of(call.preferred_backend), call.preferred_backend)
    return _fall_back(examined, call, *obstacle)


class CapabilityRefused(Denied):
    """The daemon's capability token does not allow the call."""


def denied(decision: Decision) -> CapabilityRefused:
    """The failure that tells a caller of a refusal (protocol contract 9.5)."""
    receipt = decision.refusal_receipt
    return CapabilityRefused(
        f"the capability token does not allow this call: {decision.reason_code}",
        data={
            "reason_code": decision.reason_code,
            "mode": decision.mode,
            "token_id": decision.token_id,
            "token_hash": decision.token_hash,
            "stamp": decision.stamp(),
            "refusal_receipt": receipt and receipt.as_data(),
            "upgrade_hint": receipt and upgrade_hint(receipt.capability),
        },
    )


def _obstacle(
    token: Token, call: CapabilityCall, permitted: Capability, now_s: int, balance: int | None
) -> tuple[Reason, Fallback] | None:
    """What stands in the way of a permitted call, and what the token wants done about it."""
    fallback = token.fallback
    if token.expires_at <= now_s:
        # A call cannot wait in a queue for a token to become young again.
        return "denied:token_expired", "refuse" if fallback.on_expiry == "queue" else fallback.on_expiry
    if not call.backend_reachable and call.preferred_backend != LOCAL_BACKEND:
        return "denied:backend_unavailable", fallback.on_backend_unreachable
    cost = max(call.estimated_credit_cost, permitted.credit_cost.cost if permitted.credit_cost else 0)
    if cost > 0 and token.receipt_class == "replay":
        return "denied:receipt_class_side_effect_denied", "refuse"
    if cost > 0 and cost > _credit(token, balance):
        return "denied:insufficient_credit", fallback.on_credits_exhausted
    return None


def _credit(token: Token, balance: int | None) -> int:
    """The credits that may be spent, an overdraft included."""
    credit = token.credits
    if balance is None:
        balance = credit.balance or 0
    return balance if credit.overdraft == "forbid" else balance + (credit.overdraft_limit or 0)


def _mode_of(backend_id: str) -> Mode:
    if backend_id == LOCAL_BACKEND:
        return "local"
    return "customer_hosted" if backend_id.startswith(CUSTOMER_BACKEND_PREFIX) else "hosted"


def _fall_back(examined: ExaminedToken, call: CapabilityCall, reason: Reason, fallback: Fallback) -> Decision:
    queue_ttl_s = examined.token.fallback.queue_ttl_seconds
    if fallback == "degrade_to_local":
        return _authorised(examined, "degraded-local", LOCAL_BACKEND, reason)
    if fallback == "queue" and queue_ttl_s is not None:
        return _authorised(examined, "degraded-queued", call.preferred_backend, reason, queue_ttl_s)
    return _refused(examined, call, reason)


def _authorised(
    examined: ExaminedToken,
    mode: Mode,
    backend_id: str,
    reason: Reason | None = None,
    queue_ttl_s: int | None = None,
) -> Decision:
    return Decision(
        mode=mode,
        backend_id=backend_id,
        reason_code=reason,
        token_id=examined.token.token_id,
        token_hash=examined.token_hash,
        queue_ttl_seconds=queue_ttl_s,
    )


def _refused(examined: ExaminedToken, call: CapabilityCall, reason: Reason) -> Decision:
    permitted = examined.permitted(call.preferred_backend, call.capability)
    token = examined.token
    return Decision(
        mode=REFUSED,
        reason_code=reason,
        token_id=token.token_id,
        token_hash=examined.token_hash,
        refusal_receipt=RefusalReceipt(
            token_id=token.token_id,
            token_hash=examined.token_hash,
            capability=cut(call.capability, MOST_CAPABILITY_BYTES),
            backend_id=call.preferred_backend,
            data_egress_classes=call.data_egress_classes,
            required_attestations=permitted.required_attestations if permitted else (),
            present_attestations=call.present_attestations,
            reason_code=reason,
            receipt_class=token.receipt_class,
        ),
    )
