"""What a run does: how often, how long, and which rows."""

from attrs import frozen

HTTP_REFERENCE = "hypercorn"
HTTP_NAMES = (
    HTTP_REFERENCE,
    "wire",
    "loop",
    "crux-query",
    "crux-identity",
    "quart",
    "mcp-sdk",
    "fastmcp",
    "ceiling",
)
DURABLE_REFERENCE = "fdatasync"
DURABLE_NAMES = (DURABLE_REFERENCE, "store-1", "store-16", "store-64")
MAILBOX_REFERENCE = "channel"
MAILBOX_NAMES = (MAILBOX_REFERENCE, "ask")
STREAM_REFERENCE = "calm"
STREAM_NAMES = (STREAM_REFERENCE, "streams", "push")
STUCK_REFERENCE = "quiet"
STUCK_NAMES = (STUCK_REFERENCE, "stuck")
INVOKE_REFERENCE = "invoke-1"
INVOKE_NAMES = (INVOKE_REFERENCE, "invoke-200", "invoke-200-http")
# Two references, since one call at a time and several are compared with the same number of bare ones.
INSTANT_NAMES = (("bare-1", "instant-1", "instant-1-http"), ("bare-16", "instant-16", "instant-16-http"))
NAMES = (
    HTTP_NAMES
    + DURABLE_NAMES
    + STREAM_NAMES
    + MAILBOX_NAMES
    + STUCK_NAMES
    + INVOKE_NAMES
    + INSTANT_NAMES[0]
    + INSTANT_NAMES[1]
)


@frozen
class Settings:
    """One run: `rounds` turns of `seconds` each for every row whose name is in `only`."""

    rounds: int
    seconds: float
    only: tuple[str, ...] = NAMES
    concurrency: int = 16

    @property
    def warmup_s(self) -> float:
        """Load that is not counted, before each stretch that is."""
        return self.seconds / 5

    def chosen(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Which of a section's rows to measure: those asked for and, with any of them, its first, the reference."""
        asked = [name for name in names if name in self.only]
        return tuple(name for name in names if asked and (name in asked or name == names[0]))
