"""What the holder of a revoked passport may still call, and what it is told of the rest (seed 11.6)."""

from attrs import frozen

# What tells a caller that, and why, it was revoked.
ALLOWED = frozenset({"get_passport", "get_agent_identity"})


@frozen
class Revocation:
    """The end of a passport, with the reason that was recorded for it."""

    reason: str | None = None


def refusal(tool: str, revocation: Revocation | None) -> str | None:
    """Why a caller whose passport has `revocation` may not call `tool`, known or not; None where it may."""
    if revocation is None or tool in ALLOWED:
        return None
    why = revocation.reason or "no reason was recorded"
    return f"{tool} is refused: your passport was revoked ({why}). get_passport shows what is known of it."
