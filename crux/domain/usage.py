"""How much a caller has called since the daemon started, in calls and estimated tokens (protocol contract 10)."""

from typing import Final

import msgspec
from attrs import define

MOST: Final = 2**64 - 1


class Usage(msgspec.Struct, frozen=True):
    """Totals of one caller. None is above `MOST`, the largest 64-bit number."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    declared_budget_in: int = 0


@define
class Totals:
    """Runs up what becomes `Usage`."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    declared_budget_in: int = 0

    def add(self, tokens_in: int, tokens_out: int, declared_budget: int) -> None:
        """Count one more call."""
        self.calls += 1
        self.tokens_in += tokens_in
        self.tokens_out += tokens_out
        self.declared_budget_in += declared_budget

    def usage(self) -> Usage:
        """What there is by now."""
        totals = (self.calls, self.tokens_in, self.tokens_out, self.declared_budget_in)
        return Usage(*(min(total, MOST) for total in totals))


def declared_budget(arguments: object) -> int | None:
    """The `token_budget` that a call declares; None where it is no whole number from 0 on."""
    budget = arguments.get("token_budget") if isinstance(arguments, dict) else None
    return budget if type(budget) is int and budget >= 0 else None
