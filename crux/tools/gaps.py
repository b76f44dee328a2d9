"""`get_gaps`: what agents looked for and nothing is known of (memory contract 4)."""

import msgspec
from attrs import frozen

from crux.domain.commands import Records
from crux.domain.facts import DEFAULT_TENANT
from crux.domain.gaps import entity_of, matching
from crux.domain.instants import rfc3339
from crux.domain.tokens import of_text
from crux.domain.words import query_words
from crux.tools.registry import Call, tool
from crux.tools.schema import arg

MOST_SHOWN = 50


@frozen
class GapsArguments:
    query: str | None = arg("Only gaps with at least one of these words", default=None)


class GapShown(msgspec.Struct, frozen=True):
    entity: str
    key: str
    value: str
    stored_at: str


class GapsFound(msgspec.Struct, frozen=True):
    gaps: tuple[GapShown, ...]
    total_tokens: int


@tool(
    "get_gaps",
    plane="observability",
    result=GapsFound,
    affinity="retrieval",
    examples=[{"query": "billing"}],
)
async def get_gaps(args: GapsArguments, call: Call) -> GapsFound:
    """List what searches looked for and the index lacks, the latest first: the missing words and how often they were
    asked for. Take it to find out what is worth ingesting or writing down."""
    records = await call.services.recall.ask(Records(entity_of(DEFAULT_TENANT)))
    found = matching(records, query_words(args.query), MOST_SHOWN)
    return GapsFound(
        tuple(GapShown(gap.entity, gap.key, gap.value, rfc3339(gap.stored_at_us)) for gap in found),
        sum(of_text(gap.value) for gap in found),
    )
