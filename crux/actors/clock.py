"""Wall-clock time as actors are handed it, so that a test can hold it still."""

import time
from typing import Protocol


class Clock(Protocol):
    def now_us(self) -> int:
        """Microseconds since the Unix epoch."""
        ...


def now_ms(clock: Clock) -> int:
    """Milliseconds since the Unix epoch."""
    return clock.now_us() // 1000


class SystemClock:
    """The machine's clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1000
