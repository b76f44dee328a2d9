"""Facts as rows: the one place that knows the order of the columns."""

from collections.abc import Sequence
from typing import Any

from crux.domain.decay import Horizon
from crux.domain.facts import Fact
from crux.domain.privacy import DAEMON, split_entity

# In the order of `Fact`'s fields, so that a row is a fact's arguments; the last three need their own types.
COLUMNS = (
    "fact_id, tenant, entity, key, value, version, stored_at, tokens, confidence, source_receipt, supersedes, "
    "superseded_by, actor, reverified_at, valid_from, valid_to, horizon, private, deleted"
)
# The same with '' for the value, which may be large and is not read.
WITHOUT_VALUE = COLUMNS.replace(" value,", " '',")

Row = Sequence[Any]

_HORIZONS = {horizon.value: horizon for horizon in Horizon}


def fact_of(row: Row) -> Fact:
    """The fact in a row of `COLUMNS`."""
    *plain, horizon, private, deleted = row
    arguments: list[Any] = [*plain, _HORIZONS[horizon], bool(private), bool(deleted)]
    return Fact(*arguments)


def row_of(fact: Fact) -> tuple[object, ...]:
    """A fact as a row of `COLUMNS`."""
    return (
        fact.fact_id,
        fact.tenant,
        fact.entity,
        fact.key,
        fact.value,
        fact.version,
        fact.stored_at_us,
        fact.tokens,
        fact.confidence,
        fact.source_receipt,
        fact.supersedes,
        fact.superseded_by,
        fact.actor,
        fact.reverified_at_us,
        fact.valid_from_us,
        fact.valid_to_us,
        fact.horizon.value,
        fact.private,
        fact.deleted,
    )


def owner_and_shown(fact: Fact) -> tuple[str | None, str]:
    """The `owner` and `shown` columns of a fact: NULL is public, '' the daemon's own."""
    owner, logical = split_entity(fact.entity)
    if owner is not None:
        return owner, logical
    return (DAEMON if fact.private else None), fact.entity


def search_text(shown: str, key: str, value: str) -> str:
    """What a search looks through. Words never hold white space, so none can match across the line breaks."""
    return f"{shown}\n{key}\n{value}".lower()
