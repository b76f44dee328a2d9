"""The memory panel: look at what is remembered, correct it, keep it, and look back (memory contract 5)."""

from __future__ import annotations

import msgspec
from attrs import frozen

from crux.domain.commands import Chain, FactById
from crux.domain.facts import Fact, found_by, shown_to
from crux.domain.features import Feature, FeatureOff
from crux.domain.instants import rfc3339
from crux.domain.memory import EditFact, PinFact, Remembered, ViewMemory, hidden_prefix, no_fact
from crux.domain.tokens import of_json
from crux.domain.traces import Effect
from crux.errors import InvalidArgument
from crux.tools.budgets import fitting
from crux.tools.callers import identity
from crux.tools.registry import Call, tool
from crux.tools.schema import arg

MOST_VIEWED = 500
VIEW_TOKENS = 2000


@frozen
class ViewArguments:
    entity: str | None = arg("Only facts of exactly this entity", default=None)
    key: str | None = arg("Only this key", default=None)
    top_k: int = arg("Most facts returned, up to 500", default=20, at_least=1, clamp=MOST_VIEWED)
    token_budget: int | None = arg(
        "Most tokens of facts returned; 2000 unless you say otherwise", default=None, at_least=0
    )


class ViewedFact(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    entity: str
    key: str
    value: str
    version: int
    stored_at: str
    confidence: float
    pinned: bool
    source_receipt: str | None
    actor: str | None


class MemoryViewed(msgspec.Struct, frozen=True):
    facts: tuple[ViewedFact, ...]
    total_tokens: int
    returned: int
    left_out: int = 0


@tool(
    "memory_view",
    plane="memory",
    result=MemoryViewed,
    effect=Effect.FACT_READ,
    affinity="memory",
    floor_rank=8,
    examples=[{"entity": "service:billing", "token_budget": 800}],
)
async def memory_view(args: ViewArguments, call: Call) -> MemoryViewed | FeatureOff:
    """Read your memory the latest first, replaced versions and your pins included. Take query_facts to find something
    by words; take this to see what was written lately. Returns facts with their ids, and how many were left out."""
    if Feature.MEMORY_PANEL in call.services.switched_off:
        return FeatureOff(Feature.MEMORY_PANEL)
    budget = VIEW_TOKENS if args.token_budget is None else args.token_budget
    view = ViewMemory(call.viewer, call.agent, args.entity, args.key, args.top_k, budget)
    found = await call.services.recall.ask(view)
    facts = [_viewed(remembered, call) for remembered in found.facts]
    shown = fitting("memory_view", facts, budget, call, unread=found.left_out)
    total_tokens = sum(of_json(fact) for fact in facts[:shown])
    return MemoryViewed(tuple(facts[:shown]), total_tokens, shown, len(facts) - shown + found.left_out)


@frozen
class EditArguments:
    fact_id: str = arg("Id of the fact, as memory_view gives it")
    new_value: str = arg("What it should say")
    reason: str | None = arg("Why, kept with the new version", default=None)


class MemoryEdited(msgspec.Struct, frozen=True):
    old_fact_id: str
    new_fact: ViewedFact
    reason: str | None


@tool(
    "memory_edit",
    plane="memory",
    result=MemoryEdited,
    effect=Effect.FACT_WRITE,
    affinity="memory",
    examples=[{"fact_id": "f_example", "new_value": "data team", "reason": "reorg"}],
)
async def memory_edit(args: EditArguments, call: Call) -> MemoryEdited | FeatureOff:
    """Correct a fact by its id: the value is replaced by a new version of the same entity, key, confidence and privacy,
    and your pin moves along. store_fact does the same by entity and key. Returns the new version."""
    agent = identity(call)
    if Feature.MEMORY_PANEL in call.services.switched_off:
        return FeatureOff(Feature.MEMORY_PANEL)
    edit = EditFact(args.fact_id, args.new_value, args.reason, call.viewer, agent)
    edited = await call.services.facts.ask(edit)
    return MemoryEdited(args.fact_id, _viewed(Remembered(edited.fact, edited.pinned), call), args.reason)


@frozen
class PinArguments:
    fact_id: str = arg("Id of the fact, as memory_view gives it")
    pinned: bool = arg("false takes the pin off", default=True)


class MemoryPinned(msgspec.Struct, frozen=True):
    fact_id: str
    pinned: bool


@tool(
    "memory_pin",
    plane="memory",
    result=MemoryPinned,
    effect=Effect.FACT_WRITE,
    affinity="memory",
    examples=[{"fact_id": "f_example", "pinned": True}],
)
async def memory_pin(args: PinArguments, call: Call) -> MemoryPinned | FeatureOff:
    """Pin a fact that must stay: memory_forget passes over what you have pinned, and nobody consolidates it. A pin says
    nothing of freshness. Returns the fact's id and whether it is pinned."""
    agent = identity(call)
    if Feature.MEMORY_PANEL in call.services.switched_off:
        return FeatureOff(Feature.MEMORY_PANEL)
    await call.services.facts.ask(PinFact(args.fact_id, args.pinned, call.viewer, agent))
    return MemoryPinned(args.fact_id, args.pinned)


@frozen
class HistoryArguments:
    entity: str | None = arg("What the fact is about; with key", default=None)
    key: str | None = arg("Which property of it; with entity", default=None)
    fact_id: str | None = arg("Id of any live version, instead of entity and key", default=None)


class MemoryVersion(msgspec.Struct, frozen=True):
    id: str
    value: str
    version: int
    stored_at: str
    supersedes: str | None
    deleted: bool
    source_receipt: str | None


class MemoryHistory(msgspec.Struct, frozen=True):
    versions: tuple[MemoryVersion, ...]


@tool(
    "memory_history",
    plane="memory",
    result=MemoryHistory,
    effect=Effect.FACT_READ,
    affinity="memory",
    examples=[{"fact_id": "f_example"}],
)
async def memory_history(args: HistoryArguments, call: Call) -> MemoryHistory | FeatureOff:
    """Show how a fact came to be: every version of its entity and key, oldest first, deleted and forgotten ones
    included, with what each was backed by. Name the fact by id, or by entity and key as for fact_history."""
    if args.fact_id is None and (args.entity is None or args.key is None):
        raise InvalidArgument(
            "pass 'entity' and 'key', or 'fact_id'", data={"required_alternatives": ["entity+key", "fact_id"]}
        )
    if Feature.MEMORY_PANEL in call.services.switched_off:
        return FeatureOff(Feature.MEMORY_PANEL)
    entity, key = await _chain_of(args, call)
    if (prefix := hidden_prefix(entity)) is not None:
        raise InvalidArgument(
            f"entity '{entity}' is under '{prefix}', which is no agent's memory",
            data={"param": "entity", "entity": entity, "reserved_prefix": prefix},
        )
    chain = await call.services.recall.ask(Chain(entity, key, call.viewer))
    return MemoryHistory(tuple(map(_version, chain)))


async def _chain_of(args: HistoryArguments, call: Call) -> tuple[str, str]:
    """The shown entity and the key that the arguments name; raises `InvalidArgument` for an unknown id."""
    if args.entity is not None and args.key is not None:
        return args.entity, args.key
    fact_id = args.fact_id or ""
    fact = await call.services.recall.ask(FactById(fact_id))
    shown = found_by(call.viewer, fact)
    if fact is None or shown is None:
        raise no_fact(fact_id)
    return fact.entity, fact.key


def _viewed(remembered: Remembered, call: Call) -> ViewedFact:
    fact = remembered.fact
    return ViewedFact(
        id=fact.fact_id,
        entity=shown_to(call.viewer, fact) or fact.entity,
        key=fact.key,
        value=fact.value,
        version=fact.version,
        stored_at=rfc3339(fact.stored_at_us),
        confidence=fact.confidence,
        pinned=remembered.pinned,
        source_receipt=fact.source_receipt,
        actor=fact.actor,
    )


def _version(fact: Fact) -> MemoryVersion:
    return MemoryVersion(
        fact.fact_id,
        fact.value,
        fact.version,
        rfc3339(fact.stored_at_us),
        fact.supersedes,
        fact.deleted,
        fact.source_receipt,
    )
