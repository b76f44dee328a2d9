"""The sealed plan of a session: what it may do, over which channels, until when, with hashes over all of it
(coordination contract 2).

Byte strings are bytes here and in the hashes, lowercase hex where a plan is read. Instants are Unix milliseconds,
lifetimes seconds.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import cbor2
import msgspec
from attrs import frozen
from blake3 import blake3

from crux.domain.canonical import canonical_json
from crux.domain.facts import Draft
from crux.domain.session_capabilities import (
    EVERY_AFFINITY,
    Exclusion,
    Means,
    Node,
    PassportTier,
    Wishes,
    select,
)

ID_BYTES = 16
PLAN_VERSION = 1
GRAPH_VERSION = 1
SESSION_TTL_S = 3600

PLAN_PREFIX = "__session_plan__::"
PLAN_KEY = "plan"
BINDING_PREFIX = "__session_binding__::"
BINDING_KEY = "record"

# The passport that a first start seeds for whoever has none, and its tenant.
DEFAULT_PASSPORT = "personal-default"
DEFAULT_SESSION_TENANT = "personal"
_NO_USER = "anonymous"

_HASHED_OF_NODE: Final = ("cap", "prefer", "shape", "min_tier", "cost_class", "impl_path")


class PlanPassport(msgspec.Struct, frozen=True):
    """Who the session is; on a local daemon `ce:`, 8 hex digits of the install's hash, and the user's name."""

    principal_id: str
    tier: PassportTier
    affinities: tuple[str, ...]
    passport_receipt: None = None


class Channels(msgspec.Struct, frozen=True):
    """Where a session talks to the daemon; a local one has no bulk channel, and no other while MCP is switched off."""

    bulk: str | None
    mcp: str | None


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the capabilities beyond the list of them.

    `edges` are pairs of which the first needs the second: no local capability needs another. `excluded` is None where
    the caller did not want to read it.
    """

    version: int
    valid_until: int
    refresh_hint: None = None
    edges: tuple[tuple[str, str], ...] = ()
    excluded: tuple[Exclusion, ...] | None


class Budget(msgspec.Struct, frozen=True):
    """What the session may spend; None is no bound."""

    tokens_cap: int | None
    crux_cap: int | None
    ttl_s: int


class SealReceipt(msgspec.Struct, frozen=True):
    """What a plan is sealed with: the hash of the whole, which a local daemon does not sign."""

    mode: Literal["local"]
    hash: bytes
    signature: bytes | None = None
    signer_kid: str | None = None
    parent_chain: tuple[bytes, ...] | None = None


class SessionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan. `capability_graph` lists the capabilities in the order that suits the intent."""

    plan_id: bytes
    session_id: bytes
    plan_version: int
    minted_at: int
    origin: Literal["ce"]
    origin_install: bytes
    session_ttl_s: int
    passport: PlanPassport
    model: None = None
    channels: Channels
    capability_graph: tuple[Node, ...]
    capability_graph_hash: bytes
    graph: Graph
    budget: Budget
    receipt: SealReceipt
    intent_hint: str | None


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """Whose session it is (coordination contract 2.6)."""

    session_id_hex: str
    tenant_id: str
    passport_id: str
    passport_category: str
    agent_work_gate: bool
    bound_at_unix_ms: int


@frozen
class Request:
    """What a plan is asked for. `agent` None is a caller without a name."""

    agent: str | None = None
    wishes: Wishes = Wishes()
    want_parent_chain: bool = False
    hide_exclusions: bool = False


def mint(
    request: Request, *, plan_id: bytes, session_id: bytes, install_id: str, mcp_url: str | None, now_us: int
) -> SessionPlan:
    """The sealed plan of a local session; both ids are `ID_BYTES` of randomness."""
    minted_at = now_us // 1000
    install = blake3(install_id.encode()).digest()
    passport = PlanPassport(
        f"ce:{install.hex()[:8]}:{request.agent or _NO_USER}", PassportTier.LOCAL, (EVERY_AFFINITY,)
    )
    budget = Budget(tokens_cap=None, crux_cap=None, ttl_s=SESSION_TTL_S)
    chosen = select(Means(passport.tier, passport.affinities, budget.crux_cap), request.wishes)
    plan = SessionPlan(
        plan_id=plan_id,
        session_id=session_id,
        plan_version=PLAN_VERSION,
        minted_at=minted_at,
        origin="ce",
        origin_install=install,
        session_ttl_s=SESSION_TTL_S,
        passport=passport,
        channels=Channels(bulk=None, mcp=mcp_url),
        capability_graph=chosen.nodes,
        capability_graph_hash=graph_hash(request.wishes.intent, chosen.nodes),
        graph=Graph(
            version=GRAPH_VERSION,
            valid_until=minted_at + SESSION_TTL_S * 1000,
            excluded=None if request.hide_exclusions else chosen.excluded,
        ),
        budget=budget,
        receipt=SealReceipt("local", bytes(32), parent_chain=() if request.want_parent_chain else None),
        intent_hint=request.wishes.intent,
    )
    receipt = msgspec.structs.replace(plan.receipt, hash=plan_hash(plan))
    return msgspec.structs.replace(plan, receipt=receipt)


def graph_hash(intent: str | None, nodes: tuple[Node, ...]) -> bytes:
    """The 32 bytes that stand for an intent and what it was offered, in order (coordination contract 2.4)."""
    caps = [{name: members[name] for name in _HASHED_OF_NODE} for members in map(_members, nodes)]
    return blake3(_canonical_cbor({"intent": intent, "caps": caps})).digest()


def plan_hash(plan: SessionPlan) -> bytes:
    """The 32 bytes that stand for a plan, whatever its receipt's own hash and signature are."""
    receipt = msgspec.structs.replace(plan.receipt, hash=bytes(32), signature=None, signer_kid=None)
    return blake3(plan_cbor(msgspec.structs.replace(plan, receipt=receipt))).digest()


def plan_cbor(plan: SessionPlan) -> bytes:
    """The plan as canonical CBOR (RFC 8949 4.2.1)."""
    return _canonical_cbor(_members(plan))


def plan_json(plan: SessionPlan) -> bytes:
    """The plan as it is served and kept: compact JSON, the members of every object sorted by name."""
    return canonical_json(_readable(_members(plan)))


def plan_drafts(plan: SessionPlan, agent: str | None) -> tuple[Draft, Draft]:
    """The two facts that a session leaves: its plan, and whose it is."""
    session = plan.session_id.hex()
    binding = Binding(
        session_id_hex=session,
        tenant_id=DEFAULT_SESSION_TENANT,
        passport_id=agent or DEFAULT_PASSPORT,
        passport_category=DEFAULT_SESSION_TENANT,
        agent_work_gate=False,
        bound_at_unix_ms=plan.minted_at,
    )
    return (
        Draft(PLAN_PREFIX + session, PLAN_KEY, plan_json(plan).decode(), private=True, actor=agent),
        Draft(BINDING_PREFIX + session, BINDING_KEY, msgspec.json.encode(binding).decode(), private=True, actor=agent),
    )


def _members(record: msgspec.Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(record, builtin_types=(bytes,))
    return found


def _canonical_cbor(value: object) -> bytes:
    return cbor2.dumps(value, canonical=True)


def _readable(value: object) -> object:
    """`value` with hex for every byte string."""
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {name: _readable(member) for name, member in value.items()}
        case list() | tuple():
            return [_readable(item) for item in value]
    return value
