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

    def plus(self, *, tokens_in: int, tokens_out: int, declared_budget: int) -> "Usage":
        """The totals after one more call."""
        return Usage(
            min(self.calls + 1, MOST),
            min(self.tokens_in + tokens_in, MOST),
            min(self.tokens_out + tokens_out, MOST),
            min(self.declared_budget_in + declared_budget, MOST),
        )


def declared_budget(arguments: object) -> int | None:
    """The `token_budget` that a call declares; None where it is no whole number from 0 on."""
    budget = arguments.get("token_budget") if isinstance(arguments, dict) else None
    return budget if type(budget) is int and budget >= 0 else None
