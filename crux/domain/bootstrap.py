"""The daemon's own guidance for agents: how a topic of `get_bootstrap` becomes an entity prefix (seed 11.12)."""

from crux.domain.bootstrap_stock import STOCK, Entry
from crux.domain.privacy import BOOTSTRAP_PREFIX

__all__ = ["STOCK", "Entry", "normalise_topic", "topic_prefix"]

_TOPICS = {
    "doc": "doc",
    "docs": "doc",
    "pattern": "pattern",
    "patterns": "pattern",
    "error": "resolution",
    "errors": "resolution",
    "resolution": "resolution",
    "resolutions": "resolution",
    "tool": "tool-output",
    "tool-output": "tool-output",
    "tool-outputs": "tool-output",
}


def normalise_topic(topic: str) -> str:
    """The topic that `topic` is a spelling of, in any case; any other is the caller's own and is only trimmed."""
    own = topic.strip()
    return _TOPICS.get(own.lower(), own)


def topic_prefix(topic: str | None) -> str:
    """What the entities of `topic` begin with; all guidance where it is None."""
    return BOOTSTRAP_PREFIX if topic is None else f"{BOOTSTRAP_PREFIX}{normalise_topic(topic)}:"
