"""Typed records that agents share: create, read, list, delete, look back (memory contract 11)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from attrs import frozen

from crux.domain.callers import ANONYMOUS_NAME
from crux.domain.kinds import KINDS, Kind, check_payload
from crux.domain.substrate import (
    DeleteEntity,
    EntityOf,
    EntityRecord,
    EntityVersions,
    ListEntities,
    Node,
    PutEntity,
    check_name,
    payload_of,
)
from crux.errors import NotFound
from crux.tools.registry import Call, tool
from crux.tools.schema import arg

MOST_LISTED = 10_000


@frozen
class UpsertArguments:
    kind: str = arg("What it is, such as capability; kind_list names the registered ones")
    id: str = arg("Its id within the kind")
    payload: Mapping[str, object] = arg("Its content, checked against the schema of a registered kind")


class EntityShown(msgspec.Struct, frozen=True):
    entity: EntityRecord | None


@tool(
    "entity_upsert",
    plane="substrate",
    result=EntityShown,
    examples=[{"kind": "capability", "id": "CACHE", "payload": {"name": "Cache"}}],
)
async def entity_upsert(args: UpsertArguments, call: Call) -> EntityShown:
    """Create or replace a typed record that every caller sees. Take it for things with a shape of their own, and
    store_fact for single values. Returns the record with its version; earlier ones stay in entity_history."""
    node = node_named(args.kind, args.id)
    check_payload(args.kind, args.payload)
    put = PutEntity(node, payload_of(args.payload), call.agent or ANONYMOUS_NAME)
    return EntityShown(await call.services.facts.ask(put))


@frozen
class GetArguments:
    kind: str = arg("What it is")
    id: str = arg("Its id within the kind")
    include_deleted: bool = arg("Give a deleted one as well", default=False)


@tool("entity_get", plane="substrate", result=EntityShown, examples=[{"kind": "capability", "id": "CACHE"}])
async def entity_get(args: GetArguments, call: Call) -> EntityShown:
    """Read one typed record by its kind and id, in its latest version. Returns entity: null where there is none, or it
    is deleted."""
    found = await call.services.recall.ask(EntityOf(node_named(args.kind, args.id)))
    return EntityShown(None if found is None or (found.deleted and not args.include_deleted) else found)


@frozen
class ListArguments:
    kind: str | None = arg("Only this kind", default=None)
    limit: int | None = arg("Most records returned, up to 10000", default=None, at_least=0, clamp=MOST_LISTED)
    include_deleted: bool = arg("List deleted ones as well", default=False)


class EntitiesListed(msgspec.Struct, frozen=True):
    entities: tuple[EntityRecord, ...]
    count: int
    left_out: int


@tool("entity_list", plane="substrate", result=EntitiesListed, examples=[{"kind": "capability", "limit": 50}])
async def entity_list(args: ListArguments, call: Call) -> EntitiesListed:
    """List typed records by kind and id, with their content. list_entities is about facts, not these. Returns the
    records, and how many more there are than the limit or one answer holds."""
    limit = MOST_LISTED if args.limit is None else args.limit
    found = await call.services.recall.ask(ListEntities(args.kind, limit, args.include_deleted))
    return EntitiesListed(found.records, len(found.records), found.left_out)


@frozen
class NodeArguments:
    kind: str = arg("What it is")
    id: str = arg("Its id within the kind")


class EntityDeleted(msgspec.Struct, frozen=True):
    entity: EntityRecord


@tool("entity_delete", plane="substrate", result=EntityDeleted, examples=[{"kind": "capability", "id": "CACHE"}])
async def entity_delete(args: NodeArguments, call: Call) -> EntityDeleted:
    """Mark a typed record as deleted; its history stays, its edges too, and an upsert brings it back. Returns the
    record with deleted: true."""
    node = node_named(args.kind, args.id)
    deleted = await call.services.facts.ask(DeleteEntity(node, call.agent or ANONYMOUS_NAME))
    if deleted is None:
        raise no_such("entity", f"{args.kind}/{args.id}")
    return EntityDeleted(deleted)


class EntityHistory(msgspec.Struct, frozen=True):
    versions: tuple[EntityRecord, ...]
    count: int


@tool("entity_history", plane="substrate", result=EntityHistory, examples=[{"kind": "capability", "id": "CACHE"}])
async def entity_history(args: NodeArguments, call: Call) -> EntityHistory:
    """Show every version of a typed record, the oldest first, one for each upsert and delete, with who made it. Returns
    count: 0 for one that never was."""
    versions = await call.services.recall.ask(EntityVersions(node_named(args.kind, args.id)))
    return EntityHistory(versions, len(versions))


@frozen
class NoArguments:
    """A tool that takes none."""


class KindListed(msgspec.Struct, frozen=True):
    kind: str
    description: str
    allowed_outgoing_edges: tuple[str, ...]
    allowed_incoming_edges: tuple[str, ...]


class KindsListed(msgspec.Struct, frozen=True):
    kinds: tuple[KindListed, ...]
    count: int


@tool("kind_list", plane="substrate", result=KindsListed)
async def kind_list(args: NoArguments, call: Call) -> KindsListed:
    """List the registered kinds of typed records, with the edges that make sense between them. Others may be used all
    the same; only registered ones are checked."""
    kinds = tuple(
        KindListed(kind.kind, kind.description, kind.allowed_outgoing_edges, kind.allowed_incoming_edges)
        for kind in sorted(KINDS.values(), key=lambda kind: kind.kind)
    )
    return KindsListed(kinds, len(kinds))


@frozen
class KindArguments:
    kind: str = arg("Name of the kind")


class Registration(msgspec.Struct, frozen=True):
    kind: str
    json_schema: Mapping[str, object]
    allowed_outgoing_edges: tuple[str, ...]
    allowed_incoming_edges: tuple[str, ...]
    description: str


class KindShown(msgspec.Struct, frozen=True):
    registration: Registration | None


@tool("kind_get", plane="substrate", result=KindShown, examples=[{"kind": "capability"}])
async def kind_get(args: KindArguments, call: Call) -> KindShown:
    """Show what a registered kind asks of its records: the JSON Schema that entity_upsert checks. Returns registration:
    null for a kind that is not registered, which may be used unchecked."""
    return KindShown(registration_of(KINDS.get(args.kind)))


def registration_of(kind: Kind | None) -> Registration | None:
    """A kind as it is shown."""
    if kind is None:
        return None
    return Registration(
        kind.kind, kind.json_schema, kind.allowed_outgoing_edges, kind.allowed_incoming_edges, kind.description
    )


def node_named(kind: str, id: str, prefix: str = "") -> Node:  # noqa: A002 - the word of the contract
    """The node of these names; raises `InvalidArgument` for a name that none can have."""
    return Node(check_name(f"{prefix}kind", kind), check_name(f"{prefix}id", id))


def no_such(what: str, name: str) -> NotFound:
    """The refusal of a change to what never was (Decision 17)."""
    return NotFound(f"404: no {what} {name[:200]}", data={"status": NotFound.status})
