"""The name under which what is recorded of a caller is kept (protocol contract 3.3)."""

from typing import Final

# The name that a caller without one is shown by (Decision 48).
ANONYMOUS_NAME: Final = "anonymous"
ANONYMOUS_KEY: Final = "__anon__"
# Callers of whom something is kept in memory; of more, those heard of last.
MOST_CALLERS: Final = 1024


def passport_key(agent: str | None) -> str:
    """The agent's name; callers without one share a key."""
    return ANONYMOUS_KEY if agent is None else agent
