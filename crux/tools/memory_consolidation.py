"""Facts that contradict each other, and making one fact of several (memory contract 9)."""

from __future__ import annotations

import uuid

import msgspec
from attrs import frozen

from crux.domain.consolidation import MOST_TARGETS, Consolidate
from crux.domain.contradictions import Contradiction, Contradictions
from crux.domain.decay import Horizon
from crux.domain.facts import check_writable
from crux.domain.features import Feature, check_on
from crux.domain.traces import Effect
from crux.errors import InvalidArgument
from crux.tools.budgets import fitting
from crux.tools.callers import passport
from crux.tools.registry import Call, tool
from crux.tools.schema import arg

MOST_GROUPS = 500
CONFIDENCE_FLOOR = 0.99


@frozen
class ContradictionsArguments:
    limit: int = arg("Most groups returned, up to 500; 0 for all", default=50, at_least=0, clamp=MOST_GROUPS)
    token_budget: int = arg("Most tokens of groups returned", default=500, at_least=0)


class ContradictionsFound(msgspec.Struct, frozen=True, kw_only=True):
    candidates: tuple[Contradiction, ...]
    count: int
    limit: int
    dry_run: bool = True
    left_out: int = 0


@tool(
    "memory_contradictions",
    plane="memory",
    result=ContradictionsFound,
    effect=Effect.FACT_READ,
    examples=[{"limit": 20}],
)
async def memory_contradictions(args: ContradictionsArguments, call: Call) -> ContradictionsFound:
    """Find entities and keys of which live facts say both yes and no (enabled and disabled, passed and failed). Changes
    nothing. Settle one with memory_consolidate, or store what holds. Returns the facts and values of each group."""
    check_on(Feature.CONSOLIDATION, call.services.switched_off)
    found = await call.services.recall.ask(Contradictions(call.viewer, args.limit or None))
    shown = fitting("memory_contradictions", found, args.token_budget, call)
    return ContradictionsFound(candidates=found[:shown], count=shown, limit=args.limit, left_out=len(found) - shown)


@frozen
class ConsolidateArguments:
    entity: str = arg("What the facts are about")
    key: str = arg("Which property of it")
    canonical_value: str = arg("What holds, in one value")
    target_fact_ids: tuple[str, ...] = arg("Ids of the facts that it takes the place of, at most 256")
    protected_fact_ids: tuple[str, ...] = arg(
        "Ids of facts that must not be among them", default=(), declare_default=False
    )
    confidence: float = arg("How sure you are, from 0 to 1", default=1.0, within=(0.0, 1.0), declare_default=False)
    protected_confidence_floor: float = arg(
        "Facts with this confidence or more are protected; above 1 none is",
        default=CONFIDENCE_FLOOR,
        at_least=0,
        declare_default=False,
    )
    consolidation_id: str | None = arg("Your own id: asking again with it changes nothing", default=None)
    horizon_class: Horizon | None = arg("How fast the result goes stale", default=None)


class ConsolidationReceipt(msgspec.Struct, frozen=True):
    consolidation_id: str
    canonical_fact_id: str
    canonical_hash: str
    superseded_fact_ids: tuple[str, ...]
    source_fact_ids: tuple[str, ...]


class Consolidated(msgspec.Struct, frozen=True):
    status: str
    receipt: ConsolidationReceipt


@tool(
    "memory_consolidate",
    plane="memory",
    result=Consolidated,
    effect=Effect.FACT_WRITE,
    examples=[
        {
            "entity": "service:billing",
            "key": "owner",
            "canonical_value": "data team",
            "target_fact_ids": ["f_a", "f_b"],
        }
    ],
)
async def memory_consolidate(args: ConsolidateArguments, call: Call) -> Consolidated:
    """Replace several facts of one entity and key by one canonical fact, all or nothing. Pinned, private, very sure and
    receipt-backed facts are protected; protected_confidence_floor above 1 lets sure ones be merged. Nothing is deleted,
    and an operator can undo it."""
    agent = passport("memory_consolidate", call)
    if not 0 < len(args.target_fact_ids) <= MOST_TARGETS:
        raise InvalidArgument(
            f"'target_fact_ids' must be 1 to {MOST_TARGETS} ids, got {len(args.target_fact_ids)}",
            data={"param": "target_fact_ids"},
        )
    check_writable(args.entity, args.key)
    check_on(Feature.CONSOLIDATION, call.services.switched_off)
    record = await call.services.facts.ask(
        Consolidate(
            consolidation_id=(args.consolidation_id or "").strip() or f"mcp-{uuid.uuid4()}",
            entity=args.entity,
            key=args.key,
            value=args.canonical_value,
            targets=tuple(dict.fromkeys(args.target_fact_ids)),
            protected=frozenset(args.protected_fact_ids),
            confidence=args.confidence,
            confidence_floor=args.protected_confidence_floor,
            horizon=args.horizon_class,
            viewer=call.viewer,
            agent=agent,
            rules=call.services.privacy,
        )
    )
    return Consolidated(
        "consolidated",
        ConsolidationReceipt(
            record.consolidation_id,
            record.canonical_fact_id,
            record.canonical_hash,
            tuple(replaced.fact_id for replaced in record.replaced),
            record.sources,
        ),
    )
