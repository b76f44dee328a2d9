"""Entities and edges: typed records that agents keep, and labelled links between them (memory contract 11).

Each is a fact of the daemon's own. An entity's versions are the chain of its record; a delete is a version as well, so
that counting goes on after it. An edge has a second record under where it leads, so that both its ends find it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from attrs import frozen

from crux.domain.canonical import canonical_json
from crux.domain.facts import DEFAULT_TENANT, Draft, Fact
from crux.domain.instants import rfc3339
from crux.domain.messages import Message
from crux.domain.privacy import owned
from crux.domain.tokens import utf8_size
from crux.errors import InvalidArgument

ENTITY_PREFIX: Final = "__entity__::"
EDGE_PREFIX: Final = "__edge__::"
EDGE_TO_PREFIX: Final = "__edge_to__::"
LONGEST_NAME: Final = 512
MOST_PAYLOAD_BYTES: Final = 256 * 1024
# What one listing holds of payloads; the first record is always there.
LISTED_BYTES: Final = 1024 * 1024


class Kept(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a record holds beside its name; of an edge, its five parts as well."""

    payload: msgspec.Raw
    created_us: int
    deleted: bool
    actor: str
    edge: tuple[str, str, str, str, str] | None = None


class EntityRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One version of an entity, as it is shown."""

    kind: str
    id: str
    payload: msgspec.Raw
    created_at: str
    updated_at: str
    version: int
    deleted: bool
    actor: str


class EdgeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One edge, as it is shown."""

    edge_id: str
    from_kind: str
    from_id: str
    edge_kind: str
    to_kind: str
    to_id: str
    payload: msgspec.Raw
    created_at: str
    updated_at: str
    version: int
    deleted: bool
    actor: str


@frozen
class Node:
    """An entity's name: no two nodes share a stored one."""

    kind: str
    id: str

    def under(self, prefix: str) -> str:
        """The stored name of what is kept about the node under a prefix."""
        return owned(prefix, self.kind, self.id)


@frozen
class Edge:
    """The five parts that tell an edge from all others."""

    source: Node
    kind: str
    target: Node

    @property
    def edge_id(self) -> str:
        """The edge's name for people: `<from_kind>/<from_id>|<edge_kind>|<to_kind>/<to_id>`."""
        source, target = self.source, self.target
        return f"{source.kind}/{source.id}|{self.kind}|{target.kind}/{target.id}"

    @property
    def parts(self) -> tuple[str, str, str, str, str]:
        return self.source.kind, self.source.id, self.kind, self.target.kind, self.target.id

    @property
    def key(self) -> str:
        """The key of both its records: it sorts as `edge_id` does, and unlike that no two edges share it."""
        return f"{self.edge_id}\n{msgspec.json.encode(self.parts).decode()}"

    @classmethod
    def of(cls, parts: tuple[str, str, str, str, str]) -> Edge:
        """The edge with these five parts."""
        from_kind, from_id, kind, to_kind, to_id = parts
        return cls(Node(from_kind, from_id), kind, Node(to_kind, to_id))


@frozen
class PutEntity(Message[EntityRecord]):
    """Write the next version of an entity; `payload` is canonical JSON."""

    node: Node
    payload: msgspec.Raw
    actor: str


@frozen
class DeleteEntity(Message[EntityRecord | None]):
    """Write the version that says that an entity is deleted; None where it never was."""

    node: Node
    actor: str


@frozen
class PutEdge(Message[EdgeRecord]):
    """Write an edge, in the place of an earlier state of it."""

    edge: Edge
    payload: msgspec.Raw
    actor: str


@frozen
class DeleteEdge(Message[EdgeRecord | None]):
    """Mark an edge as deleted; None where it never was."""

    edge: Edge
    actor: str


@frozen
class EntityOf(Message[EntityRecord | None]):
    """The latest version of an entity, a deleted one as well."""

    node: Node


@frozen
class EntityVersions(Message[tuple[EntityRecord, ...]]):
    """Every version of an entity, the oldest first."""

    node: Node


@frozen
class EdgeOf(Message[EdgeRecord | None]):
    """One edge, a deleted one as well."""

    edge: Edge


@frozen
class Listed:
    """Records in order of their names, and how many more match."""

    records: tuple[Any, ...]
    left_out: int


@frozen
class ListEntities(Message[Listed]):
    """The latest versions of entities, by kind and id."""

    kind: str | None
    limit: int
    include_deleted: bool


@frozen(kw_only=True)
class ListEdges(Message[Listed]):
    """Edges by their ids; each part that is given has to be the edge's."""

    from_kind: str | None = None
    from_id: str | None = None
    to_kind: str | None = None
    to_id: str | None = None
    edge_kind: str | None = None
    limit: int
    include_deleted: bool = False


def check_name(param: str, name: str) -> str:
    """The name; raises `InvalidArgument` for one that is blank or too long."""
    if not name.strip() or utf8_size(name) > LONGEST_NAME:
        raise InvalidArgument(
            f"'{param}' must not be blank and have at most {LONGEST_NAME} bytes, got {utf8_size(name)}",
            data={"param": param},
        )
    return name


def payload_of(payload: object) -> msgspec.Raw:
    """A payload as it is kept; raises `InvalidArgument` for one that is too large."""
    kept = canonical_json(payload)
    if len(kept) > MOST_PAYLOAD_BYTES:
        raise InvalidArgument(
            f"'payload' must be at most {MOST_PAYLOAD_BYTES} bytes of JSON, got {len(kept)}; "
            "park large content with artefact_put",
            data={"param": "payload"},
        )
    return msgspec.Raw(kept)


def entity_draft(node: Node, kept: Kept) -> Draft:
    """An entity's record as it is stored."""
    return _draft(f"{ENTITY_PREFIX}{node.kind}", node.id, kept)


def edge_drafts(edge: Edge, kept: Kept) -> tuple[Draft, Draft]:
    """An edge's two records: under where it comes from, and under where it leads."""
    return (
        _draft(edge.source.under(EDGE_PREFIX), edge.key, kept),
        _draft(edge.target.under(EDGE_TO_PREFIX), edge.key, kept),
    )


def _draft(entity: str, key: str, kept: Kept) -> Draft:
    value = msgspec.json.encode(kept).decode()
    return Draft(entity=entity, key=key, value=value, tenant=DEFAULT_TENANT, private=True)


def kept_in(fact: Fact) -> Kept:
    """What a stored record holds."""
    return msgspec.json.decode(fact.value, type=Kept)


def entity_of(fact: Fact) -> EntityRecord:
    """The entity in a stored record."""
    kept = kept_in(fact)
    return EntityRecord(
        kind=fact.entity.removeprefix(ENTITY_PREFIX),
        id=fact.key,
        payload=kept.payload,
        created_at=rfc3339(kept.created_us),
        updated_at=rfc3339(fact.stored_at_us),
        version=fact.version,
        deleted=kept.deleted,
        actor=kept.actor,
    )


def edge_of(fact: Fact) -> EdgeRecord:
    """The edge in one of its stored records."""
    kept = kept_in(fact)
    from_kind, from_id, kind, to_kind, to_id = kept.edge or ("", "", "", "", "")
    return EdgeRecord(
        edge_id=fact.key.partition("\n")[0],
        from_kind=from_kind,
        from_id=from_id,
        edge_kind=kind,
        to_kind=to_kind,
        to_id=to_id,
        payload=kept.payload,
        created_at=rfc3339(kept.created_us),
        updated_at=rfc3339(fact.stored_at_us),
        version=fact.version,
        deleted=kept.deleted,
        actor=kept.actor,
    )


def next_kept(
    before: Fact | None,
    payload: msgspec.Raw,
    actor: str,
    now_us: int,
    *,
    deleted: bool = False,
    edge: Edge | None = None,
) -> Kept:
    """What the next version of a record holds, `before` being the last one."""
    created_us = now_us if before is None else kept_in(before).created_us
    return Kept(payload, created_us, deleted, actor, None if edge is None else edge.parts)


@frozen
class Neighbours(Message[tuple[tuple[Node, Node], ...]]):
    """Pairs of nodes that live edges link, of which at least one is among `nodes`; `limit` of them at most."""

    nodes: tuple[Node, ...]
    limit: int
