"""What a caller is told when it asks for a capability that a paid plan brings (protocol contract 9.5)."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_UNLOCKS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "crux-mcp.dense_rerank": "results re-ordered by meaning with a dense model",
        "crux-mcp.dense_managed": "a dense index that is kept for you",
        "crux-mcp.extract_entities": "entities found in your documents",
        "crux-mcp.extract_relations": "relations between entities found in your documents",
        "crux-mcp.extract_facts": "facts found in your documents",
    }
)


def upgrade_hint(capability: str) -> dict[str, object] | None:
    """The hint for a capability of the pro tier, ready for JSON; None for any other."""
    if (unlocks := _UNLOCKS.get(capability)) is None:
        return None
    return {
        "kind": "upgrade_available",
        "capability": capability,
        "tier": "pro",
        "unlocks": unlocks,
        "metering": "only computation on the provider's side is metered",
        "still_free": "local search and all that is stored on this machine",
        "deploy": "hosted by the provider, or on a backend of your own",
    }
