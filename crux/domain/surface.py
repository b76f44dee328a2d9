"""Which tools `tools/list` advertises: all, the core floor, or the floor and what suits the caller's work (seed 11.10).

Shaping only narrows a list, and only the list: a tool that is left out stays callable by name.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import islice
from types import MappingProxyType
from typing import Final, Protocol, TypeVar

from attrs import frozen

INTENT_TTL_S = 3600
MOST_PICKS = 12
CALLS_READ = 50

# An intent is a phrase; what a caller sends beyond this would be kept in memory for every passport.
MOST_INTENT_CHARACTERS = 256

_BOOST_PER_CALL = 4
_MOST_BOOST = 12

# For each intent, what a tool or a capability of an affinity scores. Only capabilities of a session plan have the
# affinity journal or economy; the seed discloses them as dead for tools.
BIASES: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "audit_review": {"audit": 30, "proof": 20, "retrieval": 10},
        "compliance_export": {"audit": 30, "proof": 25, "economy": 10},
        "document_ingest": {"memory": 30, "journal": 20, "retrieval": 10},
        "session_review": {"session": 30, "memory": 20, "journal": 10},
        "knowledge_query": {"retrieval": 30, "memory": 20, "session": 5},
    }
)


class ExtensionNames(StrEnum):
    """Which name of an extension's tool is listed; both can be called. Some hosts take no name with a dot."""

    VERBATIM = "verbatim"
    SAFE = "safe"


class SurfaceMode(StrEnum):
    """How much of the catalogue is advertised."""

    FULL = "full"
    MINIMAL = "minimal"
    DYNAMIC = "dynamic"

    @classmethod
    def named(cls, text: str) -> "SurfaceMode":
        """The mode that `text` names in any case; anything else is full, so that a typo never hides a tool."""
        try:
            return cls(text.strip().lower())
        except ValueError:
            return cls.FULL


class Advertised(Protocol):
    """What shaping asks of a tool. `floor_rank` is its place in the core floor; None: it is not of the floor."""

    @property
    def name(self) -> str: ...
    @property
    def affinity(self) -> str | None: ...
    @property
    def floor_rank(self) -> int | None: ...


ShownTool = TypeVar("ShownTool", bound=Advertised)


def intent_in(text: str) -> str | None:
    """The intent that a caller's words declare: trimmed, its first `MOST_INTENT_CHARACTERS`; None where they are blank.

    The five intents with a meaning are far shorter, so that none comes to be by the cut.
    """
    return text.strip()[:MOST_INTENT_CHARACTERS] or None


@frozen
class IntentRecord:
    """What a caller said its work is, and when."""

    intent: str
    declared_us: int

    @classmethod
    def declared(cls, text: str, *, now_us: int) -> "IntentRecord | None":
        """The record that a declaration leaves; None: a blank one clears the earlier record."""
        intent = intent_in(text)
        return None if intent is None else cls(intent, now_us)

    def holds(self, *, now_us: int) -> bool:
        """Whether the record still counts: its age is an hour at most."""
        return now_us - self.declared_us <= INTENT_TTL_S * 1_000_000


def shape(
    mode: SurfaceMode, intent: str | None, recent_calls: Iterable[str], tools: Sequence[ShownTool]
) -> tuple[ShownTool, ...]:
    """The tools to advertise out of `tools`, in order.

    `tools` are those that the caller may see, in catalogue order, extension tools last. `recent_calls` are the names of
    the caller's traced calls, newest first. An intent that is none of the five brings nothing; a tool that was called
    lately may come in all the same.
    """
    if mode is SurfaceMode.FULL:
        return tuple(tools)
    ranked = [(tool.floor_rank, tool) for tool in tools if tool.floor_rank is not None]
    floor = tuple(tool for _, tool in sorted(ranked, key=lambda pair: pair[0]))
    if mode is SurfaceMode.MINIMAL:
        return floor
    return floor + _picks(BIASES.get(intent or "", {}), boosts(recent_calls), tools)


def boosts(recent_calls: Iterable[str]) -> Mapping[str, int]:
    """What each recently called tool scores for it: less, at most, than the strongest bias of an intent."""
    calls = Counter(islice(recent_calls, CALLS_READ))
    return {name: min(_BOOST_PER_CALL * count, _MOST_BOOST) for name, count in calls.items()}


def _picks(bias: Mapping[str, int], boost: Mapping[str, int], tools: Sequence[ShownTool]) -> tuple[ShownTool, ...]:
    scored = [
        (bias.get(tool.affinity or "", 0) + boost.get(tool.name, 0), tool) for tool in tools if tool.floor_rank is None
    ]
    best = sorted(scored, key=lambda pair: -pair[0])
    return tuple(tool for score, tool in best[:MOST_PICKS] if score > 0)
