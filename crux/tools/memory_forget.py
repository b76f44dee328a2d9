"""Forgetting what is in a scope, and what that would reach (memory contract 7)."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import msgspec
from attrs import frozen

from crux.domain.facts import DEFAULT_TENANT, Fact, shown_to
from crux.domain.features import Feature, check_on
from crux.domain.forget import Forget, PreviewForget, Reach, Reached, Scope, ScopeType
from crux.domain.instants import rfc3339
from crux.domain.traces import Effect
from crux.errors import InvalidArgument
from crux.tools.callers import identity
from crux.tools.registry import Call, tool
from crux.tools.schema import arg, parameters_of, parser_of

HASH_KEY_BYTES = 32
_FORMATS = {ScopeType.BEFORE_TIMESTAMP: {"format": "date-time"}}
_ALTERNATIVES = [
    {
        "properties": {"type": {"const": kind.value}, "value": {"type": "string", **_FORMATS.get(kind, {})}},
        "required": ["type", "value"],
    }
    for kind in ScopeType
]


@frozen
class ScopeArgument:
    type: ScopeType = arg("What to select facts by")
    value: str = arg("A prefix, a key with * for any run, a passport, an RFC 3339 time, or a tenant")


_parse_scope = parser_of(ScopeArgument, parameters_of(ScopeArgument, "scope."))


class ShownScope(msgspec.Struct, frozen=True):
    type: str
    value: str


@frozen
class PreviewArguments:
    scope: Mapping[str, object] = arg(
        "What to preview, as for memory_forget: {type: entity_prefix, key_glob, passport_id, before_timestamp or "
        "tenant_id, value}"
    )
    token_budget: int | None = arg("Most tokens of values reached, the oldest first", default=None, at_least=0)
    include_pinned: bool = arg("Reach what you have pinned too", default=False, hidden=True)


class Affected(msgspec.Struct, frozen=True):
    fact_id: str
    entity: str
    key: str
    stored_at: str
    tokens: int


class ForgetPreviewed(msgspec.Struct, frozen=True, kw_only=True):
    scope: ShownScope
    count: int
    facts_that_would_be_affected: tuple[Affected, ...]
    dry_run: bool = True
    left_out: int = 0


@tool(
    "memory_forget_dry_run",
    plane="memory",
    result=ForgetPreviewed,
    effect=Effect.FACT_READ,
    affinity="memory",
    examples=[{"scope": {"type": "key_glob", "value": "tmp*"}, "token_budget": 400}],
)
async def memory_forget_dry_run(args: PreviewArguments, call: Call) -> ForgetPreviewed:
    """List the very facts that memory_forget would erase for the same scope and budget, and change nothing. Take it
    first: what is forgotten does not come back."""
    scope = _parse_scope(args.scope)
    reach = _reach(scope, args.token_budget, call, include_pinned=args.include_pinned)
    found = await call.services.recall.ask(PreviewForget(reach))
    _count_cut("memory_forget_dry_run", found, args.token_budget, call)
    return ForgetPreviewed(
        scope=ShownScope(scope.type.value, scope.value),
        count=len(found.facts),
        facts_that_would_be_affected=tuple(_affected(fact, call) for fact in found.facts),
        left_out=found.left_out,
    )


@frozen
class ForgetArguments:
    scope: ScopeArgument = arg("What to forget: one selector and its value", schema={"oneOf": _ALTERNATIVES})
    reason: str = arg("Why, kept in the receipt")
    tenant_id: str = arg("Tenant that the receipt names", default=DEFAULT_TENANT, declare_default=False)
    token_budget: int | None = arg("Most tokens of values reached, the oldest first", default=None, at_least=0)
    include_pinned: bool = arg("Reach what you have pinned too", default=False, hidden=True)


class MemoryForgotten(msgspec.Struct, frozen=True, kw_only=True):
    forget_receipt_id: str
    facts_affected: int
    recovery_window_seconds: int = 0
    recovery_window_ends_at: str
    receipt_body_cbor_hex: str
    receipt_body_hash_hex: str
    value_hash_key_hex: str
    scope: ShownScope
    passport_id: str
    left_out: int = 0


@tool(
    "memory_forget",
    plane="memory",
    result=MemoryForgotten,
    effect=Effect.FORGET,
    affinity="memory",
    examples=[{"scope": {"type": "entity_prefix", "value": "scratch-"}, "reason": "tidy up"}],
)
async def memory_forget(args: ForgetArguments, call: Call) -> MemoryForgotten:
    """Erase the values of all facts in a scope for good: public ones and your own, but for what you have pinned. Names
    and versions stay as tombstones. Take delete_fact to hide one fact. Returns a receipt; keep its key to prove what
    was erased."""
    agent = identity(call)
    if not args.reason.strip():
        raise InvalidArgument("'reason' must not be blank", data={"param": "reason", "required": True})
    check_on(Feature.SCOPED_FORGET, call.services.switched_off)
    reach = _reach(args.scope, args.token_budget, call, include_pinned=args.include_pinned)
    key = secrets.token_bytes(HASH_KEY_BYTES)
    forget = Forget(reach=reach, reason=args.reason, agent=agent, receipt_tenant=args.tenant_id, hash_key=key)
    receipt = await call.services.facts.ask(forget)
    _count_cut("memory_forget", receipt.reached, args.token_budget, call)
    return MemoryForgotten(
        forget_receipt_id=receipt.receipt_id,
        facts_affected=len(receipt.reached.facts),
        recovery_window_ends_at=rfc3339(receipt.initiated_us),
        receipt_body_cbor_hex=receipt.body.hex(),
        receipt_body_hash_hex=receipt.body_hash,
        value_hash_key_hex=key.hex(),
        scope=ShownScope(args.scope.type.value, args.scope.value),
        passport_id=agent,
        left_out=receipt.reached.left_out,
    )


def _reach(scope: ScopeArgument, token_budget: int | None, call: Call, *, include_pinned: bool) -> Reach:
    """What a call reaches, for the preview and the deed alike."""
    return Reach(
        scope=Scope.of(scope.type, scope.value),
        viewer=call.viewer,
        agent=call.agent,
        include_pinned=include_pinned,
        token_budget=token_budget,
    )


def _affected(fact: Fact, call: Call) -> Affected:
    entity = shown_to(call.viewer, fact) or fact.entity
    return Affected(fact.fact_id, entity, fact.key, rfc3339(fact.stored_at_us), fact.tokens)


def _count_cut(name: str, found: Reached, token_budget: int | None, call: Call) -> None:
    if found.left_out and token_budget is not None:
        call.services.truncated(name, "token_budget")
