"""`memory_acknowledge_use`: an agent says which facts a turn used (memory contract 6)."""

from __future__ import annotations

import msgspec
from attrs import frozen

from crux.domain.acknowledgements import (
    MOST_FACTS,
    MOST_TURN_BYTES,
    Acknowledge,
    Intent,
    Turn,
    Used,
    sort_facts,
    used,
)
from crux.domain.features import Feature
from crux.domain.memory import FactsById
from crux.domain.tokens import utf8_size
from crux.errors import InvalidArgument
from crux.tools.callers import identity
from crux.tools.envelopes import with_envelope
from crux.tools.registry import Call, tool
from crux.tools.results import WithMeta
from crux.tools.schema import arg


@frozen
class UseArguments:
    turn_id: str = arg("Your host's name for the turn, at most 256 bytes")
    fact_ids: tuple[str, ...] = arg("Ids of the facts that you used, at most 256", default=(), declare_default=False)
    intent: str | None = arg("answer, decision, tool_call or implicit; answer unless you say otherwise", default=None)
    retrieved_chunk_ids: tuple[str, ...] = arg(
        "Chunks that you used; not looked at here", default=(), declare_default=False
    )
    confidence: float | None = arg("How sure you are, from 0 to 1; not looked at here", default=None)
    note: str | None = arg("Any remark; not looked at here", default=None)


class UseAcknowledged(msgspec.Struct, frozen=True):
    turn_id: str
    intent: Intent
    feature_enabled: bool
    receipt_ref: str
    memories_used: tuple[Used, ...]
    filtered_count: int
    redacted_count: int
    not_found_count: int
    not_visible_count: int


class UseOff(msgspec.Struct, frozen=True):
    """The operator does without acknowledgements (Decision 36)."""

    turn_id: str
    feature_enabled: bool
    feature_flag: str
    memories_used: tuple[Used, ...]
    filtered_count: int


@tool(
    "memory_acknowledge_use",
    plane="memory",
    result=UseAcknowledged,
    affinity="memory",
    envelope=True,
    examples=[{"turn_id": "turn-7", "fact_ids": ["f_example"]}],
)
async def memory_acknowledge_use(args: UseArguments, call: Call) -> UseAcknowledged | UseOff | WithMeta:
    """Say which facts shaped a turn, so that your host can show people what an answer drew on. The same turn again
    takes the place of what you said before. Returns the facts that count, and how many ids did not."""
    agent = identity(call)
    intent = _intent(args.intent)
    if not 0 < (size := utf8_size(args.turn_id)) <= MOST_TURN_BYTES:
        raise InvalidArgument(
            f"'turn_id' must have 1 to {MOST_TURN_BYTES} bytes, got {size}",
            data={"param": "turn_id"},
        )
    if len(args.fact_ids) > MOST_FACTS:
        raise InvalidArgument(
            f"'fact_ids' must be at most {MOST_FACTS} ids, got {len(args.fact_ids)}", data={"param": "fact_ids"}
        )
    if Feature.MEMORY_ACK in call.services.switched_off:
        return UseOff(
            args.turn_id, feature_enabled=False, feature_flag=Feature.MEMORY_ACK, memories_used=(), filtered_count=0
        )
    now_us = call.services.clock.now_us()
    found = await call.services.recall.ask(FactsById(tuple(dict.fromkeys(args.fact_ids))))
    result = sort_facts(found, call.viewer)
    memories = used(result.kept, call.viewer, now_us)
    await call.services.acknowledgements.ask(Acknowledge(Turn(agent, args.turn_id, intent, memories)))
    answer = UseAcknowledged(
        turn_id=args.turn_id,
        intent=intent,
        feature_enabled=True,
        receipt_ref=f"mu_{agent}_{args.turn_id}",
        memories_used=memories,
        filtered_count=len(memories),
        redacted_count=result.redacted,
        not_found_count=result.not_found,
        not_visible_count=0,
    )
    return with_envelope(answer, result.kept, call, now_us)


def _intent(given: str | None) -> Intent:
    try:
        return Intent.ANSWER if given is None else Intent(given)
    except ValueError:
        allowed = ", ".join(Intent)
        raise InvalidArgument(
            f"'intent' must be one of {allowed}", data={"param": "intent", "allowed": list(Intent)}
        ) from None
