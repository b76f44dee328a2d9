"""What a server's memory says of its streams: resident sizes at the moments that count, and what follows from them."""

import resource
from pathlib import Path

from attrs import frozen

_PAGE_KIB = resource.getpagesize() / 1024


def resident_kib(pid: int) -> float:
    """How much memory a process holds now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_KIB


@frozen
class Footprint:
    """Resident sizes in KiB of a server that had `count` streams open twice, at least one.

    `opened` is right after the first round was opened and `used` just before it was closed; `again` with the second
    round open, and `closed` after that one too.
    """

    count: int
    before: float
    opened: float
    used: float
    again: float
    closed: float

    @property
    def each(self) -> float:
        """What one stream of the first round cost."""
        return (self.opened - self.before) / self.count

    @property
    def second_round(self) -> float:
        """What the second round takes, in first rounds: above 1 as much as the first one left behind."""
        return (self.again - self.before) / (self.used - self.before)

    @property
    def returned(self) -> float:
        """The share of the second round's memory that the system has back after closing."""
        return (self.again - self.closed) / (self.again - self.before)
