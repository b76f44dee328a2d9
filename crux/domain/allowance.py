"""A rate that may be exceeded for a moment: the token bucket."""

from attrs import evolve, frozen


@frozen
class Allowance:
    """`left` of at most `burst` units at the instant `at_s`; `per_s` come back each second."""

    burst: float
    per_s: float
    left: float
    at_s: float

    @classmethod
    def full(cls, burst: float, per_s: float, now_s: float) -> "Allowance":
        return cls(burst, per_s, burst, now_s)

    def spend(self, now_s: float) -> "Allowance | None":
        """What is left after one unit; None where there is not a whole one."""
        left = min(self.burst, self.left + (now_s - self.at_s) * self.per_s)
        return None if left < 1 else evolve(self, left=left - 1, at_s=now_s)

    def give_back(self) -> "Allowance":
        """What is left when one unit was not used after all."""
        return evolve(self, left=min(self.burst, self.left + 1))
