"""What an actor reports of itself: counts, a handling-time histogram, and the state of its mailbox."""

from bisect import bisect_left

from attrs import define, field, frozen

BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


@define
class Histogram:
    """Counts per bucket of seconds (`counts[i]`: at most `bounds[i]`; the last one: more) and their sum."""

    bounds: tuple[float, ...] = BUCKETS_S
    counts: list[int] = field()
    sum_s: float = 0.0

    @counts.default
    def _no_counts(self) -> list[int]:
        return [0] * (len(self.bounds) + 1)

    def observe(self, elapsed_s: float, times: int = 1) -> None:
        self.counts[bisect_left(self.bounds, elapsed_s)] += times
        self.sum_s += elapsed_s * times


@define
class Figures:
    """Running totals of one actor over all its restarts; only the trio thread touches them."""

    handled: int = 0  # answered with a reply
    refused: int = 0  # answered with an expected failure
    crashed: int = 0  # answered by the supervisor, because the actor raised
    abandoned: int = 0  # asks cancelled before their turn came
    dropped: int = 0  # tells that found the mailbox full
    overloaded: int = 0  # asks whose turn did not come before their deadline
    restarts: int = 0
    handling: Histogram = field(factory=Histogram)  # of a batch, each message took as long as the whole


@frozen
class Report:
    """A reading of an actor's figures at one moment."""

    name: str
    depth: int
    capacity: int
    oldest_s: float
    handled: int
    refused: int
    crashed: int
    abandoned: int
    dropped: int
    overloaded: int
    restarts: int
    handling_counts: tuple[int, ...]
    handling_sum_s: float
