"""A bounded store of values that end."""

from typing import Generic, TypeVar

V = TypeVar("V")


class Expiring(Generic[V]):
    """At most `most` values by key, each until an instant of its own; one more pushes out the one put in first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[bytes, tuple[V, float]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def get(self, key: bytes, now_s: float) -> V | None:
        """The value; None where there is none or its time is over, from the very instant on."""
        held = self._held.get(key)
        if held is None:
            return None
        value, until_s = held
        if until_s <= now_s:
            del self._held[key]
            return None
        return value

    def put(self, key: bytes, value: V, until_s: float) -> None:
        self.drop(key)
        if len(self._held) >= self._most:
            del self._held[next(iter(self._held))]
        self._held[key] = value, until_s

    def drop(self, key: bytes) -> None:
        self._held.pop(key, None)

    def sweep(self, now_s: float) -> None:
        """Forget what has ended."""
        self._held = {key: held for key, held in self._held.items() if held[1] > now_s}
