"""How long a fact stays fresh, and what its age does to the confidence in it (memory contract 1.4).

Decay is one step: a stale fact counts half. The stored confidence never changes.
"""

import math
import re
from collections.abc import Iterable, Mapping
from enum import StrEnum

from attrs import field, frozen

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US

_STALE_FACTOR = 0.5
_SALIENCE_CAP = 4.0


class Horizon(StrEnum):
    """How fast what a fact says goes out of date; `NONE` is never.

    A name is read with spaces around it and in any case: `Horizon(" Medium ")`.
    """

    VOLATILE = "volatile"
    MEDIUM = "medium"
    STABLE = "stable"
    NONE = "none"

    @classmethod
    def _missing_(cls, value: object) -> "Horizon | None":
        name = value.strip().lower() if isinstance(value, str) else None
        return next((horizon for horizon in cls if horizon.value == name), None)


class Freshness(StrEnum):
    """Whether a fact is within its horizon; `UNKNOWN` where its age makes no sense."""

    FRESH = "fresh"
    STALE = "stale"
    UNKNOWN = "unknown"


@frozen
class DecayPolicy:
    """After how long the facts of a class are stale; each figure is positive."""

    volatile_hours: int = 24
    medium_days: int = 35
    stable_days: int = 365

    _thresholds: Mapping[Horizon, int] = field(init=False)

    @_thresholds.default
    def _in_us(self) -> Mapping[Horizon, int]:
        return {
            Horizon.VOLATILE: self.volatile_hours * HOUR_US,
            Horizon.MEDIUM: self.medium_days * DAY_US,
            Horizon.STABLE: self.stable_days * DAY_US,
        }

    def threshold_us(self, horizon: Horizon) -> int | None:
        """The greatest age at which a fact of `horizon` is still fresh, in microseconds; None: any age."""
        return self._thresholds.get(horizon)

    @property
    def thresholds_us(self) -> Iterable[tuple[Horizon, int]]:
        """Each class that goes stale, with its threshold."""
        return self._thresholds.items()


_BY_PREFIX: tuple[tuple[str | tuple[str, ...], Horizon], ...] = (
    ("__ops::", Horizon.VOLATILE),
    (("bench:", "__bootstrap__::"), Horizon.STABLE),
    (("execplan:", "incident:", "__candidate_fact__::"), Horizon.MEDIUM),
)

_BY_WORD: tuple[tuple[tuple[str, ...], Horizon], ...] = (
    (("hour",), Horizon.VOLATILE),
    (("stable", "frozen", "immutable", "historical", "architect", "year"), Horizon.STABLE),
    (("month", "week"), Horizon.MEDIUM),
)


def default_horizon(entity: str) -> Horizon:
    """The class of a fact whose writer names none; `entity` is the stored name."""
    return next((horizon for prefix, horizon in _BY_PREFIX if entity.startswith(prefix)), Horizon.NONE)


def horizon_from_prose(text: str) -> Horizon:
    """The class meant by a free description such as "about two weeks" or "3 days"; `NONE` for any that says nothing."""
    text = text.lower()
    for words, horizon in _BY_WORD:
        if any(word in text for word in words):
            return horizon
    if "day" not in text:
        return Horizon.NONE
    number = re.search("[0-9]+", text)
    return Horizon.VOLATILE if number and number[0].lstrip("0") in ("", "1", "2") else Horizon.MEDIUM


def freshness(horizon: Horizon, anchor_us: int, now_us: int, policy: DecayPolicy, salience: float = 1.0) -> Freshness:
    """Whether a fact last confirmed at `anchor_us` is still within its horizon, which `salience` stretches."""
    threshold_us = policy.threshold_us(horizon)
    if threshold_us is None:
        return Freshness.FRESH
    if anchor_us <= 0 or now_us < anchor_us:
        return Freshness.UNKNOWN
    return Freshness.STALE if now_us - anchor_us > threshold_us * salience else Freshness.FRESH


def salience(access_count: int) -> float:
    """How much longer a fact stays fresh that was recalled `access_count` times: 1 to 4 times as long."""
    return min(1.0 + 0.25 * math.log1p(access_count), _SALIENCE_CAP)


def effective_confidence(confidence: float, freshness: Freshness) -> float:
    """The confidence that ranks a fact."""
    return confidence * _STALE_FACTOR if freshness is Freshness.STALE else confidence


def age_hours(anchor_us: int, now_us: int) -> int:
    """Whole hours since the anchor; 0 for an anchor in the future."""
    return max((now_us - anchor_us) // HOUR_US, 0)
