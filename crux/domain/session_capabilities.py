"""The capabilities that a session plan may offer, and which of them one session gets (coordination contract 2.3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, Literal

import msgspec
from attrs import frozen

from crux.domain.surface import BIASES

# With fewer credits than this left, nothing heavy is offered.
LEAST_CREDITS_FOR_HEAVY = 5

Category = Literal["affinity_required", "tier_gated", "public"]
Prefer = Literal["bulk", "mcp"]
CostClass = Literal["free", "metered", "heavy"]
Reason = Literal["affinity", "tier", "credits", "max_capabilities"]

EVERY_AFFINITY = "*"


class PassportTier(StrEnum):
    """What a passport is worth, from the least on."""

    LOCAL = "local"
    FREE = "free"
    STARTER = "starter"
    PRO = "pro"
    TEAM = "team"

    @property
    def rank(self) -> int:
        return list(PassportTier).index(self)


@frozen
class Capability:
    """One thing that a session may do: over which channel, for whom, at what cost, and who carries it out.

    `min_tier` None is everybody; an `affinity` that is not `required` only counts for the order. `ce` and `core` are
    the implementations of a local daemon and of the hosted service, None where there is none.
    """

    cap: str
    affinity: str
    bulk: bool
    shape: str
    min_tier: PassportTier | None
    cost_class: CostClass
    ce: str | None
    core: str
    required: bool = True


_FREE, _STARTER, _PRO, _TEAM = PassportTier.FREE, PassportTier.STARTER, PassportTier.PRO, PassportTier.TEAM

# fmt: off
CAPABILITIES: Final = (
    Capability("retrieve", "retrieval", True, "stream<Chunk>", _FREE, "metered", "retrieve_local", "/v2/retrieve"),
    Capability("session_context", "session", True, "Snapshot", None, "free", "session_ctx_local", "/v2/session/context",
               required=False),
    Capability("journal_append", "journal", False, "Receipt", None, "free", "journal_local",
               "/mcp/vault#journal_append"),
    Capability("journal_stream", "journal", True, "stream<Event>", _STARTER, "free", "journal_stream_local",
               "/v2/journal/stream"),
    Capability("proof_document", "proof", True, "Receipt", _STARTER, "heavy", "proof_local", "/v2/proof"),
    Capability("proof_verify", "proof", False, "VerifyResult", None, "free", "proof_verify_local",
               "/mcp/vault#proof_verify"),
    Capability("annotation_add", "memory", False, "Receipt", _FREE, "free", "annotation_local",
               "/mcp/vault#annotation_add"),
    Capability("memory_get", "memory", True, "Snapshot", _FREE, "free", "memory_get_local", "/v2/memory/get"),
    Capability("memory_put", "memory", False, "Receipt", _FREE, "metered", "memory_put_local", "/mcp/memory#put"),
    Capability("audit_replay", "audit", True, "stream<Event>", _PRO, "heavy", "audit_replay_local", "/v2/audit/replay"),
    Capability("get_counterfactual_summary", "audit", False, "Report", _PRO, "heavy", None,
               "/mcp/audit#get_counterfactual_summary"),
    Capability("economy_quote", "economy", False, "Quote", _STARTER, "free", None, "/mcp/economy#quote"),
    Capability("economy_spend", "economy", False, "Receipt", _TEAM, "metered", None, "/mcp/economy#spend"),
    Capability("memory.readable_editable", "memory", False, "Receipt", None, "free", None, "/mcp/memory#view"),
    Capability("memory.freshness", "memory", False, "Snapshot", None, "free", None, "/mcp/memory#freshness"),
    Capability("trace.source_linked", "trace", False, "Snapshot", None, "free", None, "/mcp/trace#source_linked"),
    Capability("approval.risk_tiered", "approval", False, "Receipt", None, "free", None, "/mcp/approval#request"),
    Capability("trace.typed_actions", "trace", False, "Snapshot", None, "free", None, "/mcp/trace#typed_actions"),
    Capability("output.verifiable_receipts", "output", False, "Receipt", None, "free", None, "/mcp/output#attest"),
)
# fmt: on


class ImplPath(msgspec.Struct, frozen=True):
    """Who carries a capability out: a local daemon (`ce`), the hosted service (`core`)."""

    ce: str | None
    core: str | None


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A capability as a plan offers it. What is always null is not known of any capability yet."""

    cap: str
    category: Category
    prefer: Prefer
    shape: str
    input_schema: None = None
    output_schema: None = None
    min_tier: PassportTier | None
    required_affinity: str | None
    cost_class: CostClass
    cost_estimate: None = None
    stability: Literal["stable"] = "stable"
    since: str = "1.0.0"
    sunset_at: None = None
    model_policy: None = None
    attestations: tuple[str, ...] = ()
    concurrency: None = None
    impl_path: ImplPath


class Exclusion(msgspec.Struct, frozen=True):
    """A capability that a plan does not offer, and the first rule that kept it out."""

    cap: str
    reason: Reason


@frozen
class Means:
    """What a session has to its name. `credits_left` None: credits do not count here."""

    tier: PassportTier
    affinities: tuple[str, ...]
    credits_left: int | None = None


@frozen
class Wishes:
    """What a caller would like of its plan. `most` bounds the nodes of one of the five known intents only."""

    intent: str | None = None
    prefer_bulk: bool = True
    most: int | None = None


@frozen
class Selection:
    """What is offered, in order, and what is not, in the order of the table."""

    nodes: tuple[Node, ...]
    excluded: tuple[Exclusion, ...]


def select(means: Means, wishes: Wishes, capabilities: Sequence[Capability] = CAPABILITIES) -> Selection:
    """The capabilities of a session: those it has the means for, the ones that suit its intent first."""
    reasons = {capability.cap: _withheld(capability, means) for capability in capabilities}
    offered = _ranked((one for one in capabilities if reasons[one.cap] is None), wishes.intent)
    if wishes.most is not None and wishes.intent in BIASES:
        reasons |= {capability.cap: "max_capabilities" for capability in offered[wishes.most :]}
        offered = offered[: wishes.most]
    return Selection(
        tuple(_node(capability, prefer_bulk=wishes.prefer_bulk) for capability in offered),
        tuple(Exclusion(cap, reason) for cap, reason in reasons.items() if reason is not None),
    )


def _withheld(capability: Capability, means: Means) -> Reason | None:
    """The first rule that keeps `capability` from a session with these means."""
    if capability.required and not {EVERY_AFFINITY, capability.affinity}.intersection(means.affinities):
        return "affinity"
    if capability.min_tier is not None and capability.min_tier.rank > means.tier.rank:
        return "tier"
    short = means.credits_left is not None and means.credits_left < LEAST_CREDITS_FOR_HEAVY
    return "credits" if short and capability.cost_class == "heavy" else None


def _ranked(capabilities: Iterable[Capability], intent: str | None) -> list[Capability]:
    bias = BIASES.get(intent or "", {})
    return sorted(capabilities, key=lambda capability: -bias.get(capability.affinity, 0))


def _node(capability: Capability, *, prefer_bulk: bool) -> Node:
    tiered: Category = "tier_gated" if capability.min_tier is not None else "public"
    return Node(
        cap=capability.cap,
        category="affinity_required" if capability.required else tiered,
        prefer="bulk" if capability.bulk and prefer_bulk else "mcp",
        shape=capability.shape,
        min_tier=capability.min_tier,
        required_affinity=capability.affinity if capability.required else None,
        cost_class=capability.cost_class,
        impl_path=ImplPath(capability.ce, capability.core),
    )
