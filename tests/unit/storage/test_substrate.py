"""Entities and edges against SQLite itself: versions, names that must not meet, listings and neighbours."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from crux.domain.commands import Entities
from crux.domain.decay import DecayPolicy
from crux.domain.privacy import ANONYMOUS, RAW_ADMIN
from crux.domain.substrate import (
    DeleteEdge,
    DeleteEntity,
    Edge,
    EdgeOf,
    EdgeRecord,
    EntityOf,
    EntityRecord,
    EntityVersions,
    ListEdges,
    ListEntities,
    Neighbours,
    Node,
    PutEdge,
    PutEntity,
    payload_of,
)
from crux.storage import substrate as substrate_module
from crux.storage.engine import SqliteEngine
from tests.unit.storage.test_memory import NOW, do, look

ODD = ("a", "a-b", "a|b", "a/b", "a::b", "a%3Ab", "%", "ü", "a\nb", '["x"]')


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    opened = await SqliteEngine.open(tmp_path, DecayPolicy())
    yield opened
    opened.close()


async def put(engine: SqliteEngine, kind: str, name: str, payload: object = None, now_us: int = NOW) -> EntityRecord:
    return await do(engine, PutEntity(Node(kind, name), payload_of(payload), "bob"), now_us)


async def link(engine: SqliteEngine, source: Node, target: Node, kind: str = "calls", now_us: int = NOW) -> EdgeRecord:
    return await do(engine, PutEdge(Edge(source, kind, target), payload_of(None), "bob"), now_us)


async def test_versions_go_on_counting_over_a_delete(engine: SqliteEngine) -> None:
    first = await put(engine, "repo", "crux", {"b": 1, "a": 2})
    assert first == EntityRecord(
        kind="repo",
        id="crux",
        payload=msgspec.Raw(b'{"a":2,"b":1}'),
        created_at="2027-01-15T08:00:00.000000Z",
        updated_at="2027-01-15T08:00:00.000000Z",
        version=1,
        deleted=False,
        actor="bob",
    )
    deleted = await do(engine, DeleteEntity(Node("repo", "crux"), "eve"), NOW + 1_000_000)
    assert deleted is not None
    assert (deleted.version, deleted.deleted, deleted.actor, deleted.payload) == (2, True, "eve", first.payload)
    assert (deleted.created_at, deleted.updated_at) == (first.created_at, "2027-01-15T08:00:01.000000Z")
    again = await do(engine, DeleteEntity(Node("repo", "crux"), "eve"))
    assert again is not None
    assert again.version == 3
    back = await put(engine, "repo", "crux", now_us=NOW + 2_000_000)
    assert (back.version, back.deleted, back.created_at) == (4, False, first.created_at)
    versions = look(engine, EntityVersions(Node("repo", "crux")))
    assert [(version.version, version.deleted) for version in versions] == [
        (1, False), (2, True), (3, True), (4, False),
    ]  # fmt: skip
    assert look(engine, EntityOf(Node("repo", "crux"))) == back


async def test_what_never_was_is_neither_found_nor_deleted(engine: SqliteEngine) -> None:
    assert look(engine, EntityOf(Node("repo", "x"))) is None
    assert look(engine, EntityVersions(Node("repo", "x"))) == ()
    assert await do(engine, DeleteEntity(Node("repo", "x"), "bob")) is None
    edge = Edge(Node("repo", "x"), "calls", Node("repo", "y"))
    assert look(engine, EdgeOf(edge)) is None
    assert await do(engine, DeleteEdge(edge, "bob")) is None


async def test_no_two_names_meet(engine: SqliteEngine) -> None:
    names = list(itertools.product(ODD, ODD))
    for kind, name in names:
        assert (await put(engine, kind, name)).version == 1
    assert len(look(engine, ListEntities(None, 1000, True)).records) == len(names)
    for kind, name in names:
        record = look(engine, EntityOf(Node(kind, name)))
        assert record is not None
        assert (record.kind, record.id) == (kind, name)
    for source, target in itertools.product(ODD, ODD):
        edge = await link(engine, Node("k", source), Node("k", target), kind=source)
        assert (edge.version, edge.from_id, edge.edge_kind, edge.to_id) == (1, source, source, target)
    assert len(look(engine, ListEdges(limit=1000)).records) == len(names)


async def test_entities_are_listed_by_kind_and_id_and_the_rest_counted(engine: SqliteEngine) -> None:
    for kind, name in (("b", "2"), ("b", "1"), ("a", "9"), ("b", "3")):
        await put(engine, kind, name)
    await do(engine, DeleteEntity(Node("b", "1"), "bob"))
    listed = look(engine, ListEntities(None, 2, False))
    assert ([(r.kind, r.id) for r in listed.records], listed.left_out) == ([("a", "9"), ("b", "2")], 1)
    assert [r.id for r in look(engine, ListEntities("b", 9, True)).records] == ["1", "2", "3"]
    assert look(engine, ListEntities("z", 9, True)).records == ()
    assert look(engine, ListEntities(None, 0, False)).left_out == 3


async def test_a_listing_holds_so_much_and_the_first_in_any_case(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        await put(engine, "k", name, {"x": "y" * 1000})
    monkeypatch.setattr(substrate_module, "LISTED_BYTES", 2300)
    assert (len(look(engine, ListEntities(None, 9, False)).records)) == 2
    monkeypatch.setattr(substrate_module, "LISTED_BYTES", 10)
    listed = look(engine, ListEntities(None, 9, False))
    assert (len(listed.records), listed.left_out) == (1, 2)


async def test_an_edge_is_one_record_that_is_replaced(engine: SqliteEngine) -> None:
    first = await link(engine, Node("a", "1"), Node("b", "2"))
    assert first.edge_id == "a/1|calls|b/2"
    second = await link(engine, Node("a", "1"), Node("b", "2"), now_us=NOW + 1_000_000)
    assert (second.version, second.created_at) == (2, first.created_at)
    edge = Edge(Node("a", "1"), "calls", Node("b", "2"))
    deleted = await do(engine, DeleteEdge(edge, "eve"))
    assert deleted is not None
    assert (deleted.version, deleted.deleted, deleted.actor) == (3, True, "eve")
    assert look(engine, EdgeOf(edge)) == deleted
    assert look(engine, ListEdges(limit=9)).records == ()
    assert look(engine, ListEdges(limit=9, include_deleted=True)).records == (deleted,)


async def test_edges_are_listed_by_any_of_their_parts_in_the_order_of_their_ids(engine: SqliteEngine) -> None:
    one, two, three = Node("s", "a"), Node("s", "a-b"), Node("t", "a")
    for source, target, kind in (
        (one, two, "calls"),
        (two, three, "calls"),
        (one, three, "owns"),
        (three, one, "calls"),
    ):
        await link(engine, source, target, kind)

    def ids(**parts: Any) -> list[str]:
        return [record.edge_id for record in look(engine, ListEdges(limit=9, **parts)).records]

    assert ids() == sorted(ids())
    assert len(ids()) == 4
    assert ids(from_kind="s", from_id="a") == ["s/a|calls|s/a-b", "s/a|owns|t/a"]
    assert ids(to_kind="t", to_id="a") == ["s/a-b|calls|t/a", "s/a|owns|t/a"]
    assert ids(edge_kind="owns") == ["s/a|owns|t/a"]
    assert ids(from_id="a") == ["s/a|calls|s/a-b", "s/a|owns|t/a", "t/a|calls|s/a"]
    assert ids(from_kind="s", from_id="a", to_kind="t", to_id="a", edge_kind="calls") == []
    limited = look(engine, ListEdges(limit=1))
    assert (len(limited.records), limited.left_out) == (1, 3)


async def test_neighbours_are_found_from_both_ends_while_their_edge_lives(engine: SqliteEngine) -> None:
    one, two, three = Node("s", "1"), Node("s", "2"), Node("s", "3")
    await link(engine, one, two)
    await link(engine, three, one)
    await link(engine, two, three)
    await do(engine, DeleteEdge(Edge(two, "calls", three), "bob"))
    assert set(look(engine, Neighbours((one,), 9))) == {(one, two), (three, one)}
    assert look(engine, Neighbours((two,), 9)) == ((one, two),)
    assert len(look(engine, Neighbours((one, two, three), 1))) == 1
    assert look(engine, Neighbours((Node("s", "4"),), 9)) == ()


async def test_records_are_no_facts_that_anybody_sees(engine: SqliteEngine) -> None:
    await put(engine, "k", "a")
    await link(engine, Node("k", "a"), Node("k", "b"))
    assert look(engine, Entities(ANONYMOUS)) == ()
    assert len(look(engine, Entities(RAW_ADMIN))) == 3
