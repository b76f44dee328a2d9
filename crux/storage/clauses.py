"""Parts of a WHERE: what a viewer sees, whose it is, and what it is called."""

from collections.abc import Iterable

from attrs import frozen

from crux.domain.decay import DecayPolicy
from crux.domain.privacy import AGENT_PREFIX, Viewer, split_entity

LAST_CHARACTER = "\U0010ffff"


@frozen
class Clause:
    """A part of a WHERE and its parameters."""

    sql: str
    parameters: tuple[object, ...] = ()


def visible(viewer: Viewer) -> list[Clause]:
    if viewer.sees_all:
        return []
    if not viewer.owners:
        return [Clause("owner IS NULL")]
    marks = ", ".join("?" * len(viewer.owners))
    return [Clause(f"(owner IS NULL OR owner IN ({marks}))", viewer.owners)]


def of_tenant(tenant: str | None) -> list[Clause]:
    return [] if tenant is None else [Clause("tenant = ?", (tenant,))]


def named(entity: str) -> Clause:
    """Facts whose stored or shown name is `entity`."""
    owner, logical = split_entity(entity)
    if owner is not None:
        return Clause("shown = ? AND owner = ?", (logical, owner))
    return Clause("shown = ?", (entity,))


def starting(prefix: str) -> Clause:
    """Facts whose stored or shown name starts with `prefix`."""
    if prefix.startswith(AGENT_PREFIX):
        return stored_under(prefix)
    return Clause("shown >= ? AND shown < ?", (prefix, prefix + LAST_CHARACTER))


def stored_under(prefix: str) -> Clause:
    """Facts whose stored name starts with `prefix`."""
    return Clause("entity >= ? AND entity < ?", (prefix, prefix + LAST_CHARACTER))


def all_of(clauses: Iterable[Clause]) -> Clause:
    """The clause that holds where every one of `clauses` does."""
    return _joined(" AND ", clauses)


def any_of(clauses: Iterable[Clause]) -> Clause:
    """The clause that holds where at least one of `clauses` does."""
    return _joined(" OR ", clauses)


def stale(now_us: int, policy: DecayPolicy) -> Clause:
    """Facts that are past their horizon, however often they were recalled (memory contract 1.4)."""
    return any_of(
        Clause("(horizon = ? AND coalesce(reverified_at, stored_at) < ?)", (horizon, now_us - us))
        for horizon, us in policy.thresholds_us
    )


def _joined(word: str, clauses: Iterable[Clause]) -> Clause:
    parts = tuple(clauses)
    return Clause(
        f"({word.join(part.sql for part in parts)})", tuple(value for part in parts for value in part.parameters)
    )
