"""Which actor may ask which: declared once, drawn in docs/architecture.md, tested to have no cycle.

An actor that waits for an answer handles nothing meanwhile, so a circle of asks would be a deadlock. A name on the left
may ask the names on the right and no others; edges and tools may ask anyone.
"""

from collections.abc import Mapping

ASKS: Mapping[str, frozenset[str]] = {
    "facts": frozenset(),
    "recall": frozenset(),
    "sessions": frozenset(),
    "intents": frozenset(),
    "traces": frozenset(),
    "meter": frozenset(),
    "observations": frozenset({"facts", "recall"}),
    "gaps": frozenset({"facts", "recall"}),
    "acknowledgements": frozenset(),
    "sweeper": frozenset({"facts"}),
    "introspection": frozenset(),
    "limiter": frozenset(),
    "audit": frozenset({"facts", "recall"}),
    "extensions": frozenset({"facts", "recall", "audit"}),
}
