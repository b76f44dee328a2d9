"""How much a caller has called since the daemon started, in calls and estimated tokens (protocol contract 10)."""

from typing import Final

import msgspec

MOST: Final = 2**64 - 1


class Usage(msgspec.Struct, frozen=True):
    """Totals of one caller. They stop at `MOST`, the largest 64-bit number."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    declared_budget_in: int = 0

    @property
    def used(self) -> int:
        """Tokens both ways."""
        return _sum(self.tokens_in, self.tokens_out)

    def plus(self, *, tokens_in: int, tokens_out: int, declared_budget: int) -> "Usage":
        """The totals after one more call."""
        return Usage(
            _sum(self.calls, 1),
            _sum(self.tokens_in, tokens_in),
            _sum(self.tokens_out, tokens_out),
            _sum(self.declared_budget_in, declared_budget),
        )


def declared_budget(arguments: object) -> int | None:
    """The `token_budget` that a call declares; None where it is no whole number from 0 on."""
    budget = arguments.get("token_budget") if isinstance(arguments, dict) else None
    return budget if type(budget) is int and budget >= 0 else None


def _sum(one: int, other: int) -> int:
    return min(one + other, MOST)
