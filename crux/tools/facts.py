"""The fact tools: store, find, delete, list, and look back (memory contract, section 4)."""

from collections.abc import Sequence

import msgspec
from attrs import frozen

from crux.domain.commands import Chain, CountRecalls, Delete, Entities, Found, Put, Search
from crux.domain.decay import Horizon, age_hours, effective_confidence, freshness
from crux.domain.facts import Fact, draft_fact, shown_to
from crux.domain.instants import parse_rfc3339, rfc3339
from crux.domain.recall import CrcFacts, LegacyFacts, Recalled, crc_answer, legacy_answer
from crux.domain.traces import Effect
from crux.domain.words import query_words
from crux.errors import InvalidArgument
from crux.tools.contract import is_plain
from crux.tools.envelopes import with_envelope
from crux.tools.registry import Call, tool
from crux.tools.results import WithMeta
from crux.tools.schema import arg, shortened

MOST_FACTS = 1000
MOST_RETIRED = 256
INSTANT = "an RFC 3339 instant such as 2026-11-30T18:59:22Z"


@frozen
class StoreArguments:
    entity: str = arg("What the fact is about, such as service:billing")
    key: str = arg("Which property of it")
    value: str = arg("The value, as text")
    source_receipt: str | None = arg("Receipt that backs the fact", default=None)
    confidence: float = arg("How sure you are, from 0 to 1", default=1.0, within=(0.0, 1.0))
    private: bool = arg("Keep it to yourself; needs an agent token", default=False)
    horizon_class: Horizon | None = arg(
        "How fast it goes stale: volatile a day, medium 35 days, stable a year, none never", default=None
    )
    freshness_horizon: str | None = arg("The same in words, such as '3 weeks'; horizon_class wins", default=None)
    supersedes: tuple[str, ...] = arg(
        "Ids of other facts that this one replaces, at most 256", default=(), declare_default=False
    )


class FactStored(msgspec.Struct, frozen=True):
    fact_id: str
    entity: str
    key: str
    version: int
    superseded_fact_ids: tuple[str, ...]


@tool(
    "store_fact",
    plane="facts",
    result=FactStored,
    effect=Effect.FACT_WRITE,
    affinity="memory",
    floor_rank=5,
    examples=[{"entity": "service:billing", "key": "owner", "value": "platform team", "horizon_class": "medium"}],
)
async def store_fact(args: StoreArguments, call: Call) -> FactStored:
    """Store one fact, durably. An earlier value of the same entity and key becomes history, so store again to correct;
    to retire facts of other entities name them in supersedes. Returns the fact's id and version."""
    if len(args.supersedes) > MOST_RETIRED:
        raise InvalidArgument(
            f"'supersedes' must be at most {MOST_RETIRED} ids, got {len(args.supersedes)}", data={"param": "supersedes"}
        )
    draft = draft_fact(
        entity=args.entity,
        key=args.key,
        value=args.value,
        viewer=call.viewer,
        rules=call.services.privacy,
        confidence=args.confidence,
        source_receipt=args.source_receipt,
        horizon=args.horizon_class,
        freshness_horizon=args.freshness_horizon,
        private=args.private,
        actor=call.agent,
    )
    stored = await call.services.facts.ask(Put(draft, call.viewer, args.supersedes))
    replaced = (stored.fact.supersedes,) if stored.fact.supersedes else ()
    return FactStored(
        stored.fact.fact_id, args.entity, args.key, stored.fact.version, tuple(dict.fromkeys(replaced + stored.retired))
    )


@frozen
class QueryArguments:
    query: str | None = arg("Words to look for in entity, key and value; any one of them is enough", default=None)
    entity: str | None = arg("Only facts of exactly this entity", default=None)
    top_k: int = arg("Most facts returned, up to 1000", default=10, at_least=1, clamp=MOST_FACTS)
    token_budget: int | None = arg(
        "Most tokens of facts returned; without it only top_k bounds the answer", default=None, at_least=0
    )
    include_superseded: bool = arg("Return replaced facts as well, with what replaced them", default=False)
    as_of: str | None = arg("RFC 3339 time; only facts that were valid then", default=None)
    min_effective_confidence: float | None = arg(
        "Leave out facts whose confidence, halved when stale, is below this", default=None, within=(0.0, 1.0)
    )
    contract: str | None = arg("legacy gives the plain rows without CRC-v1", default=None, hidden=True)


@tool(
    "query_facts",
    plane="facts",
    result=CrcFacts,
    effect=Effect.FACT_READ,
    affinity="memory",
    floor_rank=6,
    crc_kind="fact",
    envelope=True,
    examples=[{"entity": "service:billing", "top_k": 5, "token_budget": 1000}],
)
async def query_facts(args: QueryArguments, call: Call) -> CrcFacts | LegacyFacts | WithMeta:
    """Find stored facts by words, by entity, or both, the most trustworthy first. Take it before you act or ask: what
    you need may be known. Returns rows with value, age and freshness; pass token_budget to keep them small."""
    now_us = call.services.clock.now_us()
    found = await call.services.recall.ask(
        Search(
            viewer=call.viewer,
            now_us=now_us,
            words=query_words(args.query),
            entity=args.entity,
            top_k=args.top_k,
            include_superseded=args.include_superseded,
            as_of_us=None if args.as_of is None else instant_us("as_of", args.as_of),
            min_effective_confidence=args.min_effective_confidence,
        )
    )
    answer = _answer(args, found, [_recalled(fact, call, now_us) for fact in found.facts], call.services.console_url)
    if len(answer.rows) < len(found.facts):
        call.services.truncated("query_facts", "token_budget")
    if call.services.salience:
        call.services.recall.tell(CountRecalls(tuple(row.fact_id for row in answer.rows), now_us))
    shown = len(answer.rows) if isinstance(answer, LegacyFacts) else len(answer.pointers)
    return with_envelope(answer, found.facts[:shown], call, now_us)


def _answer(args: QueryArguments, found: Found, rows: Sequence[Recalled], console_url: str) -> CrcFacts | LegacyFacts:
    if is_plain(args.contract):
        return legacy_answer(rows, token_budget=args.token_budget, filtered_below_threshold=found.below_floor)
    return crc_answer(
        rows,
        found.total,
        query=args.query,
        entity=args.entity,
        token_budget=args.token_budget,
        filtered_below_threshold=found.below_floor,
        console_url=console_url,
    )


def _recalled(fact: Fact, call: Call, now_us: int) -> Recalled:
    state = freshness(fact.horizon, fact.anchor_us, now_us, call.services.decay, fact.salience)
    return Recalled(
        fact_id=fact.fact_id,
        entity=shown_to(call.viewer, fact) or fact.entity,
        key=fact.key,
        value=fact.value,
        confidence=fact.confidence,
        effective_confidence=effective_confidence(fact.confidence, state),
        horizon_class=fact.horizon,
        freshness=state,
        age_hours=age_hours(fact.anchor_us, now_us),
        superseded_by=fact.superseded_by,
        actor=fact.actor,
    )


def instant_us(name: str, text: str) -> int:
    """The instant that the argument `name` has as its text; raises `InvalidArgument` where that is none."""
    try:
        return parse_rfc3339(text)
    except ValueError:
        raise InvalidArgument(
            f"'{name}' must be {INSTANT}, got {shortened(text)}", data={"param": name, "expected": INSTANT}
        ) from None


@frozen
class DeleteArguments:
    fact_id: str = arg("Id of the fact, as store_fact and query_facts give it")


class FactDeleted(msgspec.Struct, frozen=True):
    deleted: bool
    fact_id: str


@tool(
    "delete_fact",
    plane="facts",
    result=FactDeleted,
    effect=Effect.FORGET,
    affinity="memory",
    examples=[{"fact_id": "f_example"}],
)
async def delete_fact(args: DeleteArguments, call: Call) -> FactDeleted:
    """Mark one fact as deleted: no search finds it, history still shows it, and an earlier version does not come back.
    To correct a value, store it again instead. Returns deleted: false when there is no such fact for you."""
    deleted = await call.services.facts.ask(Delete(args.fact_id, call.viewer))
    return FactDeleted(deleted.found, args.fact_id)


@frozen
class NoArguments:
    """A tool that takes none."""


class EntitiesListed(msgspec.Struct, frozen=True):
    entities: tuple[str, ...]


@tool("list_entities", plane="facts", result=EntitiesListed, affinity="memory")
async def list_entities(args: NoArguments, call: Call) -> EntitiesListed:
    """List the names, sorted, of all entities that have a fact you can see. Take it to find out what there is to ask
    query_facts about."""
    return EntitiesListed(await call.services.recall.ask(Entities(call.viewer)))


@frozen
class HistoryArguments:
    entity: str = arg("What the fact is about")
    key: str = arg("Which property of it")


class Version(msgspec.Struct, frozen=True):
    fact_id: str
    value: str
    version: int
    supersedes: str | None
    confidence: float
    stored_at: str
    deleted: bool
    actor: str | None


class History(msgspec.Struct, frozen=True):
    versions: tuple[Version, ...]


@tool(
    "fact_history",
    plane="facts",
    result=History,
    effect=Effect.FACT_READ,
    affinity="memory",
    examples=[{"entity": "service:billing", "key": "owner"}],
)
async def fact_history(args: HistoryArguments, call: Call) -> History:
    """Show every version of one entity and key, oldest first, replaced and deleted ones included. query_facts shows
    only what holds now."""
    chain = await call.services.recall.ask(Chain(args.entity, args.key, call.viewer))
    return History(
        tuple(
            Version(
                fact.fact_id,
                fact.value,
                fact.version,
                fact.supersedes,
                fact.confidence,
                rfc3339(fact.stored_at_us),
                fact.deleted,
                fact.actor,
            )
            for fact in chain
        )
    )
