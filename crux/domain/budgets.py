"""The budget of tokens that a caller sets for an answer (Decision 32)."""

from typing import Final

import msgspec

from crux.domain.tokens import of_size

_encode: Final = msgspec.json.Encoder().encode


class Room:
    """What is left of a budget of tokens (None: no end of it). The first thing put in needs no room."""

    def __init__(self, budget: int | None) -> None:
        self._budget = budget
        self._empty = True
        self.spent = 0

    def takes(self, *parts: object) -> bool:
        """Whether one item, of all these parts of the answer, fits; then its tokens are spent."""
        if self._budget is None:
            return True
        cost = of_size(sum(len(_encode(part)) for part in parts))
        if self.spent + cost > self._budget and not self._empty:
            return False
        self.spent += cost
        self._empty = False
        return True
