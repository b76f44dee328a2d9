"""The argument by which a caller does without CRC-v1 (protocol 8)."""

_PLAIN = frozenset({"legacy", "v0", "none", "off"})


def is_plain(contract: str | None) -> bool:
    """Whether a call asks for the plain object."""
    return contract is not None and contract.strip().lower() in _PLAIN
