"""How much of a listing a budget of tokens has room for."""

from collections.abc import Sequence

from crux.domain.budgets import Room
from crux.tools.registry import Call


def fitting(name: str, rows: Sequence[object], token_budget: int, call: Call, *, unread: int = 0) -> int:
    """How many of `rows` the budget has room for, the first in any case; a cut is counted.

    `unread` rows were known to have no room before.
    """
    room = Room(token_budget)
    shown = next((n for n, row in enumerate(rows) if not room.takes(row)), len(rows))
    if shown < len(rows) or unread:
        call.services.truncated(name, "token_budget")
    return shown
