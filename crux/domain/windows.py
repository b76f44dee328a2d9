"""The two counts over a minute: how often somebody may call an extension, and how many events of it the audit keeps.

Instants are seconds on a clock that never goes back. What is held of an attempt, or of a window, is the instant at
which it is over; from that very instant on it does not count (seed 002 section 5.3 and 5.6).
"""

from bisect import bisect_right
from enum import Enum, auto
from math import ceil
from typing import Final

from attrs import frozen

from crux.errors import RateLimited

WINDOW_S: Final = 60.0
# Each attempt that counts is held, so that a cap above this is taken for this: nobody makes 167 calls in each second.
MOST_COUNTED: Final = 10_000
# How many events of one extension the audit keeps in a window.
LIMIT_PER_MIN: Final = 60

# When each of the attempts that were admitted ceases to count, in the order in which they were made.
Attempts = tuple[float, ...]


def effective_cap(cap: int) -> int:
    """The cap that is enforced where `cap` was granted."""
    return min(cap, MOST_COUNTED)


def counted(attempts: Attempts, now_s: float) -> Attempts:
    """Those that still count."""
    over = bisect_right(attempts, now_s)
    return attempts[over:] if over else attempts


def admitted(attempts: Attempts, cap: int, now_s: float) -> Attempts:
    """Those that count once another attempt was made at `now_s`, which at most `cap` in any `WINDOW_S` may be.

    Raises `RateLimited`, which says when the next attempt will be admitted; a cap of 0 admits none, ever.
    """
    now_counted = counted(attempts, now_s)
    cap = effective_cap(cap)
    if len(now_counted) >= cap:
        raise limited(cap, now_counted[-cap] - now_s if cap > 0 else None)
    return (*now_counted, now_s + WINDOW_S)


def limited(cap: int, wait_s: float | None) -> RateLimited:
    """The refusal in the words of the seed; `wait_s` is when to come again, None where that does not help."""
    error = RateLimited(f"rate limited (cap {cap}/min)")
    if wait_s is not None:
        # Whole seconds, rounded up; a sum of floats may be a trace above the window.
        error.retry_after_s = min(max(ceil(wait_s), 1), int(WINDOW_S))
    return error


class Fate(Enum):
    """What becomes of an event."""

    KEPT = auto()
    MARKED = auto()  # a marker is kept in its place, which says that the window is full
    SILENT = auto()


@frozen
class EventWindow:
    """The events seen of one extension since the first of them, and when the window ends.

    `silent` are those that nothing was kept of since the last marker, in this window and before it.
    """

    ends_s: float
    seen: int
    silent: int = 0


@frozen
class Counted:
    """The window with one more event in it, the event's fate, and, for a marker, how many were silent before it."""

    window: EventWindow
    fate: Fate
    silent_before: int = 0


def count_event(window: EventWindow | None, now_s: float) -> Counted:
    """Count an event at `now_s` into a window (None: the first one ever), or into the one that begins with it."""
    silent = 0 if window is None else window.silent
    if window is None or window.ends_s <= now_s:
        return Counted(EventWindow(now_s + WINDOW_S, 1, silent), Fate.KEPT)
    seen = window.seen + 1
    if seen <= LIMIT_PER_MIN:
        return Counted(EventWindow(window.ends_s, seen, silent), Fate.KEPT)
    if seen == LIMIT_PER_MIN + 1:
        return Counted(EventWindow(window.ends_s, seen), Fate.MARKED, silent)
    return Counted(EventWindow(window.ends_s, seen, silent + 1), Fate.SILENT)
