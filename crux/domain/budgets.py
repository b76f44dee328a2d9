"""The budget of tokens that a caller sets for an answer (Decision 32)."""

from collections.abc import Sequence
from typing import Final

import msgspec

from crux.domain.facts import Fact
from crux.domain.tokens import of_size

# Values of 8 MiB: what one call reads or erases of them at most, the first in any case.
MOST_VALUE_TOKENS: Final = 2 * 1024 * 1024

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


def within_budget(facts: Sequence[Fact], token_budget: int | None) -> Sequence[Fact]:
    """The first fact, and those after it while their values have no more tokens than the budget (2.6), and than
    `MOST_VALUE_TOKENS`."""
    most = MOST_VALUE_TOKENS if token_budget is None else min(token_budget, MOST_VALUE_TOKENS)
    spent = 0
    for count, fact in enumerate(facts):
        spent += fact.tokens
        if count and spent > most:
            return facts[:count]
    return facts
