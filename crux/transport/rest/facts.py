"""Facts over HTTP (HTTP API contract 4.2): the same rules as the fact tools, in the shape that scripts read.

No route here shows a deleted fact, and none writes or deletes what belongs to the daemon, an administrator's neither
(Decision 22).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from attrs import frozen

from crux.domain.commands import Chain, Delete, Export, FactById, Put, Search, Transact
from crux.domain.decay import Horizon
from crux.domain.facts import DEFAULT_TENANT, Draft, Fact, draft_fact, shown_to
from crux.domain.instants import parse_rfc3339, rfc3339
from crux.domain.privacy import Viewer, reserved_prefix
from crux.domain.words import query_words
from crux.errors import Forbidden, InvalidArgument, NotFound
from crux.tools.schema import arg, parameters_of, parser_of, shortened
from crux.transport.rest.queries import clamped, instant, whole_number
from crux.transport.rest.route import READ, WRITE_FACTS, HttpCall, Reply, json_reply, route

MOST_IN_BULK = 1000
MOST_FOUND = 100
MOST_EXPORTED = 10_000

_CURSOR = re.compile(r"[0-9]{1,18}", re.ASCII)


@frozen
class FactBody:
    """A fact as a caller sends it; members beyond these are not looked at."""

    entity: str = arg("What the fact is about")
    key: str = arg("Which property of it")
    value: str = arg("The value, as text")
    source_receipt: str | None = arg("Receipt that backs the fact", default=None)
    confidence: float = arg("How sure the writer is", default=1.0, within=(0.0, 1.0))
    private: bool = arg("Has to be false: agents keep private facts over MCP", default=False)
    horizon_class: Horizon | None = arg("How fast it goes stale", default=None)


_fact_body = parser_of(FactBody, parameters_of(FactBody))


class ShownFact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A fact as its reader sees it: `entity` is the shown name. Members that say nothing are left out."""

    fact_id: str
    tenant_hash: str
    entity: str
    key: str
    value: str
    source_receipt: str | None
    confidence: float
    stored_at: str
    tokens: int
    deleted: bool
    version: int
    supersedes: str | None = None
    private: bool
    horizon_class: Horizon
    reverified_at: str | None = None
    superseded_by: str | None = None
    actor: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    access_count: int = 0
    last_accessed_at: str | None = None


@route("PUT", "/v1/facts", WRITE_FACTS)
async def put_fact(call: HttpCall) -> Reply:
    """Store one fact; an earlier value of the same entity and key becomes history."""
    viewer = call.principal.viewer_for_write
    draft = _draft(await call.json(), call, viewer)
    stored = await call.ask(call.api.services.facts, Put(draft, viewer))
    return json_reply(_shown(stored.fact, viewer), 201)


@route("PUT", "/v1/facts/bulk", WRITE_FACTS)
async def put_facts(call: HttpCall) -> Reply:
    """Store an array of facts, all of them or none."""
    items = await call.json()
    if not isinstance(items, list) or len(items) > MOST_IN_BULK:
        raise InvalidArgument(f"the body must be an array of at most {MOST_IN_BULK} facts, got {_described(items)}")
    viewer = call.principal.viewer_for_write
    puts = tuple(Put(_draft_at(index, item, call, viewer), viewer) for index, item in enumerate(items))
    replies = await call.ask(call.api.services.facts, Transact(puts))
    return json_reply({"facts": _all_shown((stored.fact for stored in replies), viewer)}, 201)


@route("GET", "/v1/facts", READ)
async def find_facts(call: HttpCall) -> Reply:
    """Find live facts by words, entity or both, by confidence and then the newest first."""
    query, viewer = call.query, call.principal.viewer_for_read
    token_budget = whole_number(query, "token_budget")
    search = Search(
        viewer=viewer,
        now_us=call.api.services.clock.now_us(),
        words=query_words(query.get("query")),
        entity=query.get("entity") or None,
        entity_prefix=query.get("entity_prefix") or None,
        top_k=clamped(query, "top_k", default=10, low=1, high=MOST_FOUND),
        as_of_us=instant(query, "as_of"),
        decayed=False,
    )
    found = await call.ask(call.api.services.recall, search)
    facts = _within(found.facts, token_budget)
    return json_reply({"facts": _all_shown(facts, viewer), "total_tokens": sum(fact.tokens for fact in facts)})


@route("GET", "/v1/facts/export", READ)
async def export_facts(call: HttpCall) -> Reply:
    """Read all public facts page by page, in the order they were stored. A `since` that is no instant is ignored.

    Private facts never leave the node this way (memory contract 1.3), so a page may be shorter than `limit`.
    """
    viewer = call.principal.viewer_for_read
    export = Export(
        viewer=viewer,
        since_us=_since_us(call.query.get("since", "")),
        cursor=_cursor(call.query.get("cursor", "")),
        limit=clamped(call.query, "limit", default=1000, low=1, high=MOST_EXPORTED),
    )
    page = await call.ask(call.api.services.recall, export)
    return json_reply(
        {
            "facts": _all_shown((fact for fact in page.facts if not (fact.private or fact.deleted)), viewer),
            "next_cursor": None if page.next_cursor is None else str(page.next_cursor),
            "has_more": page.next_cursor is not None,
            "exported_at": rfc3339(call.api.services.clock.now_us()),
        }
    )


@route("GET", "/v1/facts/entity/<text:entity>", READ)
async def facts_of_entity(call: HttpCall, entity: str) -> Reply:
    """Read every version of every key of one entity, oldest first, replaced ones included."""
    viewer = call.principal.viewer_for_read
    chain = await call.ask(call.api.services.recall, Chain(entity, None, viewer))
    return json_reply({"facts": _all_shown((fact for fact in chain if not fact.deleted), viewer)})


@route("GET", "/v1/facts/<fact_id>", READ)
async def get_fact(call: HttpCall, fact_id: str) -> Reply:
    """Read one fact."""
    viewer = call.principal.viewer_for_read
    fact = await call.ask(call.api.services.recall, FactById(fact_id))
    if fact is None or fact.deleted or fact.tenant != DEFAULT_TENANT or shown_to(viewer, fact) is None:
        raise _no_fact(fact_id)
    return json_reply(_shown(fact, viewer))


@route("DELETE", "/v1/facts/<fact_id>", WRITE_FACTS)
async def delete_fact(call: HttpCall, fact_id: str) -> Reply:
    """Mark one fact as deleted; an earlier version does not come back."""
    deleted = await call.ask(call.api.services.facts, Delete(fact_id, call.principal.viewer_for_write))
    if not deleted.found:
        raise _no_fact(fact_id)
    return json_reply({"deleted": True})


ROUTES = (put_fact, put_facts, find_facts, export_facts, facts_of_entity, get_fact, delete_fact)


def _draft(given: object, call: HttpCall, viewer: Viewer) -> Draft:
    """The fact that the body asks to store, after every check that needs no look into the store."""
    if not isinstance(given, dict):
        raise InvalidArgument(f"a fact must be an object, got {shortened(given)}")
    body = _fact_body(given)
    if body.private:
        raise InvalidArgument(
            "'private' must be false: private facts are stored over MCP, with an agent's token",
            data={"param": "private"},
        )
    if (prefix := reserved_prefix(body.entity)) is not None:
        raise Forbidden(
            f"entity '{body.entity}' is reserved: names starting with '{prefix}' belong to the daemon or an agent",
            data={"code": "RESERVED_ENTITY_PREFIX", "entity": body.entity, "reserved_prefix": prefix},
        )
    return draft_fact(
        entity=body.entity,
        key=body.key,
        value=body.value,
        viewer=viewer,
        rules=call.api.services.privacy,
        confidence=body.confidence,
        source_receipt=body.source_receipt,
        horizon=body.horizon_class,
        actor=call.principal.passport,
    )


def _draft_at(index: int, given: object, call: HttpCall, viewer: Viewer) -> Draft:
    try:
        return _draft(given, call, viewer)
    except (InvalidArgument, Forbidden) as error:
        raise type(error)(f"item {index}: {error.message}", data={**(error.data or {}), "index": index}) from None


def _within(facts: tuple[Fact, ...], token_budget: int | None) -> tuple[Fact, ...]:
    """The first fact, and those after it until one does not fit into the budget (Decision 32)."""
    if token_budget is None:
        return facts
    spent = 0
    for count, fact in enumerate(facts):
        spent += fact.tokens
        if spent > token_budget and count:
            return facts[:count]
    return facts


def _shown(fact: Fact, viewer: Viewer) -> ShownFact:
    return ShownFact(
        fact_id=fact.fact_id,
        tenant_hash=fact.tenant,
        # None only for what the viewer itself just wrote and may not read, such as `decisions::`: it knows that name.
        entity=shown_to(viewer, fact) or fact.entity,
        key=fact.key,
        value=fact.value,
        source_receipt=fact.source_receipt,
        confidence=fact.confidence,
        stored_at=rfc3339(fact.stored_at_us),
        tokens=fact.tokens,
        deleted=fact.deleted,
        version=fact.version,
        supersedes=fact.supersedes,
        private=fact.private,
        horizon_class=fact.horizon,
        reverified_at=_instant(fact.reverified_at_us),
        superseded_by=fact.superseded_by,
        actor=fact.actor,
        valid_from=_instant(fact.valid_from_us),
        valid_to=_instant(fact.valid_to_us),
        access_count=0 if fact.recalls is None else fact.recalls.count,
        last_accessed_at=None if fact.recalls is None else rfc3339(fact.recalls.last_us),
    )


def _all_shown(facts: Iterable[Fact], viewer: Viewer) -> list[ShownFact]:
    return [_shown(fact, viewer) for fact in facts]


def _instant(us: int | None) -> str | None:
    return None if us is None else rfc3339(us)


def _since_us(text: str) -> int | None:
    try:
        return parse_rfc3339(text)
    except ValueError:
        return None


def _cursor(text: str) -> int:
    if not text:
        return 0
    if _CURSOR.fullmatch(text) is None:
        raise InvalidArgument(
            f"'cursor' must be the next_cursor of an earlier page, got {shortened(text)}", data={"param": "cursor"}
        )
    return int(text)


def _no_fact(fact_id: str) -> NotFound:
    return NotFound(f"no fact {shortened(fact_id)}, or it is not yours to see")


def _described(items: object) -> str:
    return f"{len(items)} of them" if isinstance(items, list) else shortened(items)
