"""Typed records and the links between them over HTTP: what the substrate tools do (HTTP API contract, section 5)."""

from __future__ import annotations

from crux.domain.callers import ANONYMOUS_NAME
from crux.domain.kinds import KINDS, check_payload
from crux.domain.substrate import (
    DeleteEdge,
    DeleteEntity,
    Edge,
    EntityOf,
    EntityVersions,
    ListEdges,
    ListEntities,
    PutEdge,
    PutEntity,
    check_name,
    payload_of,
)
from crux.errors import InvalidArgument, NotFound
from crux.tools.entities import MOST_LISTED, node_named, registration_of
from crux.tools.schema import shortened
from crux.transport.rest.queries import clamped, flag
from crux.transport.rest.route import READ, WRITE_SUBSTRATE, HttpCall, Reply, json_reply, route

_PARTS = ("from_kind", "from_id", "edge_kind", "to_kind", "to_id")


@route("GET", "/v1/entities", READ)
async def list_entities(call: HttpCall) -> Reply:
    """List typed records, of one `kind` or all."""
    listing = ListEntities(
        call.query.get("kind") or None, _limit(call), include_deleted=flag(call.query, "include_deleted")
    )
    found = await call.ask(call.api.services.recall, listing)
    return json_reply({"entities": found.records, "count": len(found.records), "left_out": found.left_out})


@route("GET", "/v1/entities/<kind>/<id>", READ)
async def get_entity(call: HttpCall, kind: str, id: str) -> Reply:  # noqa: A002 - the word of the contract
    """Read one typed record."""
    found = await call.ask(call.api.services.recall, EntityOf(node_named(kind, id)))
    if found is None or (found.deleted and not flag(call.query, "include_deleted")):
        raise _no_entity(kind, id)
    return json_reply({"entity": found})


@route("PUT", "/v1/entities/<kind>/<id>", WRITE_SUBSTRATE)
async def put_entity(call: HttpCall, kind: str, id: str) -> Reply:  # noqa: A002
    """Create or replace a typed record; the body is its payload."""
    payload = await call.json_object()
    node = node_named(kind, id)
    check_payload(kind, payload)
    put = PutEntity(node, payload_of(payload), _actor(call))
    return json_reply({"entity": await call.ask(call.api.services.facts, put)})


@route("DELETE", "/v1/entities/<kind>/<id>", WRITE_SUBSTRATE)
async def delete_entity(call: HttpCall, kind: str, id: str) -> Reply:  # noqa: A002
    """Mark a typed record as deleted."""
    deleted = await call.ask(call.api.services.facts, DeleteEntity(node_named(kind, id), _actor(call)))
    if deleted is None:
        raise _no_entity(kind, id)
    return json_reply({"entity": deleted})


@route("GET", "/v1/entities/<kind>/<id>/history", READ)
async def entity_history(call: HttpCall, kind: str, id: str) -> Reply:  # noqa: A002
    """Read every version of a typed record, the oldest first."""
    versions = await call.ask(call.api.services.recall, EntityVersions(node_named(kind, id)))
    return json_reply({"versions": versions, "count": len(versions)})


@route("GET", "/v1/edges", READ)
async def list_edges(call: HttpCall) -> Reply:
    """List links by any of their parts."""
    parts = {name: call.query.get(name) or None for name in _PARTS}
    listing = ListEdges(**parts, limit=_limit(call), include_deleted=flag(call.query, "include_deleted"))
    found = await call.ask(call.api.services.recall, listing)
    return json_reply({"edges": found.records, "count": len(found.records), "left_out": found.left_out})


@route("PUT", "/v1/edges", WRITE_SUBSTRATE)
async def put_edge(call: HttpCall) -> Reply:
    """Create or replace a link; the body has its five parts, and a payload if it likes."""
    body = await call.json_object()
    put = PutEdge(_edge(body), payload_of(body.get("payload")), _actor(call))
    return json_reply({"edge": await call.ask(call.api.services.facts, put)})


@route("DELETE", "/v1/edges", WRITE_SUBSTRATE)
async def delete_edge(call: HttpCall) -> Reply:
    """Mark a link as deleted; its five parts stand in the body or behind the question mark."""
    edge = _edge(await call.json_object() or dict(call.query))
    deleted = await call.ask(call.api.services.facts, DeleteEdge(edge, _actor(call)))
    if deleted is None:
        raise NotFound(f"no edge {shortened(edge.edge_id)}")
    return json_reply({"edge": deleted})


@route("GET", "/v1/kinds", READ)
async def list_kinds(call: HttpCall) -> Reply:
    """List the registered kinds."""
    kinds = [
        {
            "kind": kind.kind,
            "description": kind.description,
            "allowed_outgoing_edges": kind.allowed_outgoing_edges,
            "allowed_incoming_edges": kind.allowed_incoming_edges,
        }
        for _, kind in sorted(KINDS.items())
    ]
    return json_reply({"kinds": kinds, "count": len(kinds)})


@route("GET", "/v1/kinds/<kind>", READ)
async def get_kind(call: HttpCall, kind: str) -> Reply:
    """Show what a registered kind asks of its records."""
    registration = registration_of(KINDS.get(kind))
    if registration is None:
        raise NotFound(f"no kind {shortened(kind)} is registered")
    return json_reply({"registration": registration})


ROUTES = (
    list_entities,
    get_entity,
    put_entity,
    delete_entity,
    entity_history,
    list_edges,
    put_edge,
    delete_edge,
    list_kinds,
    get_kind,
)


def _actor(call: HttpCall) -> str:
    return call.principal.passport or ANONYMOUS_NAME


def _limit(call: HttpCall) -> int:
    return clamped(call.query, "limit", default=MOST_LISTED, low=0, high=MOST_LISTED)


def _edge(given: dict[str, object]) -> Edge:
    """The edge that these members name; raises `InvalidArgument` where one is missing."""
    for name in _PARTS:
        if not isinstance(given.get(name), str):
            raise InvalidArgument(f"'{name}' is required: a string", data={"param": name, "required": True})
    from_kind, from_id, kind, to_kind, to_id = (str(given[name]) for name in _PARTS)
    return Edge(
        node_named(from_kind, from_id, "from_"), check_name("edge_kind", kind), node_named(to_kind, to_id, "to_")
    )


def _no_entity(kind: str, id: str) -> NotFound:  # noqa: A002
    return NotFound(f"no entity {shortened(f'{kind}/{id}')}")
