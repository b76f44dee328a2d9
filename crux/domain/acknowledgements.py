"""Which facts an agent says it used for a turn (memory contract 6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec
from attrs import frozen

from crux.domain.decay import DAY_US
from crux.domain.facts import Fact, found_by
from crux.domain.memory import hidden_prefix
from crux.domain.messages import Message
from crux.domain.privacy import Viewer

# Turns that are remembered: of more, those acknowledged last.
MOST_TURNS = 1024
MOST_FACTS = 256
MOST_TURN_BYTES = 256


class Intent(StrEnum):
    """What a turn used its facts for."""

    ANSWER = "answer"
    DECISION = "decision"
    TOOL_CALL = "tool_call"
    IMPLICIT = "implicit"


class Used(msgspec.Struct, frozen=True):
    """A fact that a turn used; its age in whole days, None for one from the future."""

    fact_id: str
    topic: str
    age_days: int | None


@frozen
class Turn:
    """What an agent acknowledged for a turn."""

    agent: str
    turn_id: str
    intent: Intent
    used: tuple[Used, ...]


@frozen
class Acknowledge(Message[None]):
    """Remember a turn, in the place of what its agent acknowledged for it before."""

    turn: Turn


@frozen
class TurnOf(Message[Turn | None]):
    """What an agent acknowledged for a turn."""

    agent: str
    turn_id: str


@frozen
class Sorted:
    """The facts that count, and how many ids were of the daemon's own or of nothing that the agent can see."""

    kept: tuple[Fact, ...]
    redacted: int
    not_found: int


def sort_facts(found: Iterable[Fact | None], viewer: Viewer) -> Sorted:
    """Which of these facts `viewer` may say that it used. What it cannot see is as unknown as what never was."""
    kept: list[Fact] = []
    redacted = not_found = 0
    for fact in found:
        shown = found_by(viewer, fact)
        if fact is None or shown is None:
            not_found += 1
        elif hidden_prefix(shown) is not None:
            redacted += 1
        else:
            kept.append(fact)
    return Sorted(tuple(kept), redacted, not_found)


def used(facts: Sequence[Fact], viewer: Viewer, now_us: int) -> tuple[Used, ...]:
    """The facts as a turn's record names them."""
    return tuple(
        Used(
            fact.fact_id,
            found_by(viewer, fact) or fact.entity,
            (now_us - fact.anchor_us) // DAY_US if now_us >= fact.anchor_us else None,
        )
        for fact in facts
    )
