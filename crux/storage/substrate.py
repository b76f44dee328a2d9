"""Entities and edges, as SQL over the records that they are (memory contract 11)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from crux.domain.commands import Put
from crux.domain.decay import DecayPolicy
from crux.domain.facts import DEFAULT_TENANT, Fact
from crux.domain.privacy import DAEMON
from crux.domain.substrate import (
    EDGE_PREFIX,
    EDGE_TO_PREFIX,
    ENTITY_PREFIX,
    LISTED_BYTES,
    DeleteEdge,
    DeleteEntity,
    Edge,
    EdgeOf,
    EdgeRecord,
    EntityOf,
    EntityRecord,
    EntityVersions,
    Kept,
    Listed,
    ListEdges,
    ListEntities,
    Neighbours,
    Node,
    PutEdge,
    PutEntity,
    edge_drafts,
    edge_of,
    entity_draft,
    entity_of,
    kept_in,
    next_kept,
)
from crux.domain.tokens import BYTES_PER_TOKEN
from crux.storage.clauses import LAST_CHARACTER, Clause, all_of
from crux.storage.rows import COLUMNS, fact_of
from crux.storage.transaction import Transaction, head_of
from crux.storage.versions import put

_RECORD = Clause("tenant = ? AND owner = ? AND deleted = 0 AND superseded_by IS NULL", (DEFAULT_TENANT, DAEMON))
_LIVE = Clause("json_extract(value, '$.deleted') = 0")


def _put_entity(write: PutEntity, transaction: Transaction, now_us: int) -> EntityRecord:
    before = _entity_head(write.node, transaction.connection)
    kept = next_kept(before, write.payload, write.actor, now_us)
    return entity_of(put(Put(entity_draft(write.node, kept)), transaction, now_us).fact)


def _delete_entity(write: DeleteEntity, transaction: Transaction, now_us: int) -> EntityRecord | None:
    before = _entity_head(write.node, transaction.connection)
    if before is None:
        return None
    kept = next_kept(before, kept_in(before).payload, write.actor, now_us, deleted=True)
    return entity_of(put(Put(entity_draft(write.node, kept)), transaction, now_us).fact)


def _put_edge(write: PutEdge, transaction: Transaction, now_us: int) -> EdgeRecord:
    before = _edge_head(write.edge, transaction.connection)
    return _keep_edge(
        write.edge, next_kept(before, write.payload, write.actor, now_us, edge=write.edge), transaction, now_us
    )


def _delete_edge(write: DeleteEdge, transaction: Transaction, now_us: int) -> EdgeRecord | None:
    before = _edge_head(write.edge, transaction.connection)
    if before is None:
        return None
    payload = kept_in(before).payload
    kept = next_kept(before, payload, write.actor, now_us, deleted=True, edge=write.edge)
    return _keep_edge(write.edge, kept, transaction, now_us)


def _keep_edge(edge: Edge, kept: Kept, transaction: Transaction, now_us: int) -> EdgeRecord:
    """Write both records of an edge."""
    outgoing, incoming = edge_drafts(edge, kept)
    put(Put(incoming, keep_history=False), transaction, now_us)
    return edge_of(put(Put(outgoing, keep_history=False), transaction, now_us).fact)


def _entity_head(node: Node, connection: sqlite3.Connection) -> Fact | None:
    return head_of(connection, DEFAULT_TENANT, f"{ENTITY_PREFIX}{node.kind}", node.id)


def _edge_head(edge: Edge, connection: sqlite3.Connection) -> Fact | None:
    return head_of(connection, DEFAULT_TENANT, edge.source.under(EDGE_PREFIX), edge.key)


def _entity(read: EntityOf, connection: sqlite3.Connection, policy: DecayPolicy) -> EntityRecord | None:
    found = _entity_head(read.node, connection)
    return None if found is None else entity_of(found)


def _versions(read: EntityVersions, connection: sqlite3.Connection, policy: DecayPolicy) -> tuple[EntityRecord, ...]:
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM facts WHERE shown = ? AND key = ? AND tenant = ? AND owner = ? ORDER BY seq",
        (f"{ENTITY_PREFIX}{read.node.kind}", read.node.id, DEFAULT_TENANT, DAEMON),
    )
    return tuple(entity_of(fact_of(row)) for row in rows)


def _edge(read: EdgeOf, connection: sqlite3.Connection, policy: DecayPolicy) -> EdgeRecord | None:
    found = _edge_head(read.edge, connection)
    return None if found is None else edge_of(found)


def _entities(read: ListEntities, connection: sqlite3.Connection, policy: DecayPolicy) -> Listed:
    which = _under(ENTITY_PREFIX) if read.kind is None else _exactly(f"{ENTITY_PREFIX}{read.kind}")
    clauses = [which, _RECORD] if read.include_deleted else [which, _RECORD, _LIVE]
    return _listed(connection, all_of(clauses), "shown, key", read.limit, entity_of)


def _edges(read: ListEdges, connection: sqlite3.Connection, policy: DecayPolicy) -> Listed:
    clauses = [_ends(read), _RECORD] if read.include_deleted else [_ends(read), _RECORD, _LIVE]
    parts = (read.from_kind, read.from_id, read.edge_kind, read.to_kind, read.to_id)
    clauses += [
        Clause(f"json_extract(value, '$.edge[{place}]') = ?", (part,))
        for place, part in enumerate(parts)
        if part is not None
    ]
    return _listed(connection, all_of(clauses), "key", read.limit, edge_of)


def _ends(read: ListEdges) -> Clause:
    """The records to look through: those of one end where it is known, else all that edges have where they begin."""
    if read.from_kind is not None and read.from_id is not None:
        return _exactly(Node(read.from_kind, read.from_id).under(EDGE_PREFIX))
    if read.to_kind is not None and read.to_id is not None:
        return _exactly(Node(read.to_kind, read.to_id).under(EDGE_TO_PREFIX))
    return _under(EDGE_PREFIX)


def _exactly(entity: str) -> Clause:
    return Clause("shown = ?", (entity,))


def _under(prefix: str) -> Clause:
    return Clause("shown >= ? AND shown < ?", (prefix, prefix + LAST_CHARACTER))


def _listed(
    connection: sqlite3.Connection, where: Clause, order: str, limit: int, record_of: Callable[[Fact], object]
) -> Listed:
    """The first records, as many as the limit and the size of an answer allow."""
    (total,) = connection.execute(f"SELECT count(*) FROM facts WHERE {where.sql}", where.parameters).fetchone()
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM facts WHERE {where.sql} ORDER BY {order} LIMIT ?", (*where.parameters, limit)
    )
    records: list[object] = []
    size = 0
    for row in rows:
        fact = fact_of(row)
        size += fact.tokens * BYTES_PER_TOKEN
        if records and size > LISTED_BYTES:
            break
        records.append(record_of(fact))
    return Listed(tuple(records), total - len(records))


def neighbours(nodes: Sequence[Node], limit: int, connection: sqlite3.Connection) -> tuple[tuple[Node, Node], ...]:
    """Pairs of nodes that live edges link, of which at least one is among `nodes`."""
    under = _under(EDGE_PREFIX)
    if not connection.execute(f"SELECT 1 FROM facts WHERE {under.sql} LIMIT 1", under.parameters).fetchone():
        return ()  # most stores have no edges, and every search asks
    names = [node.under(prefix) for prefix in (EDGE_PREFIX, EDGE_TO_PREFIX) for node in nodes]
    among = Clause("shown IN (SELECT value FROM json_each(?))", (msgspec.json.encode(names).decode(),))
    where = all_of([among, _RECORD, _LIVE])
    rows = connection.execute(f"SELECT {COLUMNS} FROM facts WHERE {where.sql} LIMIT ?", (*where.parameters, limit))
    edges = (Edge.of(kept.edge) for row in rows if (kept := kept_in(fact_of(row))).edge is not None)
    return tuple(dict.fromkeys((edge.source, edge.target) for edge in edges))


def _neighbours(read: Neighbours, connection: sqlite3.Connection, policy: DecayPolicy) -> tuple[tuple[Node, Node], ...]:
    return neighbours(read.nodes, read.limit, connection)


SUBSTRATE_READS: Mapping[type, Callable[[Any, sqlite3.Connection, DecayPolicy], object]] = {
    EntityOf: _entity,
    EntityVersions: _versions,
    EdgeOf: _edge,
    ListEntities: _entities,
    ListEdges: _edges,
    Neighbours: _neighbours,
}
SUBSTRATE_WRITES: Mapping[type, Callable[[Any, Transaction, int], object]] = {
    PutEntity: _put_entity,
    DeleteEntity: _delete_entity,
    PutEdge: _put_edge,
    DeleteEdge: _delete_edge,
}
