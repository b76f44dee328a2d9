"""The RateLimiter: how often each passport may call each extension."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

import trio
from attrs import frozen

from crux.actors.actor import Actor, handles
from crux.domain.messages import Message
from crux.domain.windows import Attempts, admitted, effective_cap, limited

# Callers who have made an attempt that still counts, and attempts held in all: some 40 MB and 8 MB. Nobody has a window
# but by a grant, and no daemon makes 4,000 calls a second.
MOST_WINDOWS: Final = 100_000
MOST_HELD: Final = 250_000

_Caller = tuple[str, str]


@frozen
class Admit(Message[None]):
    """Take one call of the `cap` in any 60 s. Raises `RateLimited` where they are used up; that uses up nothing."""

    extension_id: str
    passport_fpr: str
    cap: int


class RateLimiter(Actor):
    """Admits at most `cap` calls in any 60 s, for each extension and passport.

    Owns every window. Where no more fit, who has none gets none until one has emptied: no window that counts is ever
    given up, so that nobody outruns the limit by making more of them. A restart begins with empty ones, which lets each
    caller have its calls of a minute once more. Asks nobody. Source: seed 002 section 5.3.
    """

    def __init__(self) -> None:
        # By when the last attempt was made, so that windows empty in this order.
        self._windows: OrderedDict[_Caller, Attempts] = OrderedDict()
        self._held = 0

    @handles(Admit)
    def admit(self, m: Admit) -> None:
        now_s = trio.current_time()
        self._sweep(now_s)
        caller = (m.extension_id, m.passport_fpr)
        held = self._windows.get(caller)
        attempts = admitted(held or (), m.cap, now_s)
        total = self._held + len(attempts) - len(held or ())
        if total > MOST_HELD or (held is None and len(self._windows) >= MOST_WINDOWS):
            oldest = next(iter(self._windows.values()))
            raise limited(effective_cap(m.cap), oldest[-1] - now_s)
        self._windows[caller] = attempts
        self._windows.move_to_end(caller)
        self._held = total

    def _sweep(self, now_s: float) -> None:
        while self._windows:
            caller, attempts = next(iter(self._windows.items()))
            if attempts[-1] > now_s:
                break
            del self._windows[caller]
            self._held -= len(attempts)
