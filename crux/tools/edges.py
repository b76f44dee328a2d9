"""Labelled links between typed records (memory contract 11)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from attrs import frozen

from crux.domain.callers import ANONYMOUS_NAME
from crux.domain.substrate import DeleteEdge, Edge, EdgeOf, EdgeRecord, ListEdges, PutEdge, check_name, payload_of
from crux.tools.entities import MOST_LISTED, no_such, node_named
from crux.tools.registry import Call, tool
from crux.tools.schema import arg

_EXAMPLE = {
    "from_kind": "capability",
    "from_id": "CACHE",
    "edge_kind": "depends_on",
    "to_kind": "capability",
    "to_id": "STORE",
}


@frozen
class EdgeArguments:
    from_kind: str = arg("Kind of where it comes from")
    from_id: str = arg("Id of where it comes from")
    edge_kind: str = arg("What it says, such as depends_on")
    to_kind: str = arg("Kind of where it leads")
    to_id: str = arg("Id of where it leads")


@frozen
class UpsertEdgeArguments(EdgeArguments):
    payload: Mapping[str, object] | None = arg("More about the link", default=None)


class EdgeShown(msgspec.Struct, frozen=True):
    edge: EdgeRecord | None


@tool("edge_upsert", plane="substrate", result=EdgeShown, examples=[_EXAMPLE])
async def edge_upsert(args: UpsertEdgeArguments, call: Call) -> EdgeShown:
    """Create or replace a labelled link from one typed record to another; neither has to exist. Searches rank hits
    higher that such links connect. Returns the edge with its version."""
    put = PutEdge(_edge(args), payload_of(args.payload), call.agent or ANONYMOUS_NAME)
    return EdgeShown(await call.services.facts.ask(put))


@tool("edge_get", plane="substrate", result=EdgeShown, examples=[_EXAMPLE])
async def edge_get(args: EdgeArguments, call: Call) -> EdgeShown:
    """Read one link by its five parts. Returns edge: null where there is none, or it is deleted; edge_list finds links
    by some of their parts."""
    found = await call.services.recall.ask(EdgeOf(_edge(args)))
    return EdgeShown(None if found is None or found.deleted else found)


@frozen
class ListEdgesArguments:
    from_kind: str | None = arg("Only from this kind", default=None)
    from_id: str | None = arg("Only from this id", default=None)
    to_kind: str | None = arg("Only to this kind", default=None)
    to_id: str | None = arg("Only to this id", default=None)
    edge_kind: str | None = arg("Only links that say this", default=None)
    limit: int | None = arg("Most links returned, up to 10000", default=None, at_least=0, clamp=MOST_LISTED)
    include_deleted: bool = arg("List deleted ones as well", default=False)


class EdgesListed(msgspec.Struct, frozen=True):
    edges: tuple[EdgeRecord, ...]
    count: int
    left_out: int


@tool("edge_list", plane="substrate", result=EdgesListed, examples=[{"edge_kind": "depends_on", "limit": 20}])
async def edge_list(args: ListEdgesArguments, call: Call) -> EdgesListed:
    """List links by any of their parts, all of which have to fit: what a record rests on, or what rests on it. Returns
    the edges by id, and how many more there are than the limit or one answer holds."""
    found = await call.services.recall.ask(
        ListEdges(
            from_kind=args.from_kind,
            from_id=args.from_id,
            to_kind=args.to_kind,
            to_id=args.to_id,
            edge_kind=args.edge_kind,
            limit=MOST_LISTED if args.limit is None else args.limit,
            include_deleted=args.include_deleted,
        )
    )
    return EdgesListed(found.records, len(found.records), found.left_out)


class EdgeDeleted(msgspec.Struct, frozen=True):
    edge: EdgeRecord


@tool("edge_delete", plane="substrate", result=EdgeDeleted, examples=[_EXAMPLE])
async def edge_delete(args: EdgeArguments, call: Call) -> EdgeDeleted:
    """Mark a link as deleted; an upsert brings it back, and the records at its ends stay as they are. Returns the edge
    with deleted: true."""
    edge = _edge(args)
    deleted = await call.services.facts.ask(DeleteEdge(edge, call.agent or ANONYMOUS_NAME))
    if deleted is None:
        raise no_such("edge", edge.edge_id)
    return EdgeDeleted(deleted)


def _edge(args: EdgeArguments) -> Edge:
    return Edge(
        node_named(args.from_kind, args.from_id, "from_"),
        check_name("edge_kind", args.edge_kind),
        node_named(args.to_kind, args.to_id, "to_"),
    )
