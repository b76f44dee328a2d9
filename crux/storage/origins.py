"""Where the rows of an index are from: passages of documents, and public live facts."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import msgspec
from attrs import frozen

from crux.domain.documents import passage_text
from crux.domain.graph import DOCUMENT, About, node_of
from crux.domain.retrieval import Handle, Segment, Source
from crux.domain.seals import seal, unseal
from crux.domain.substrate import Node
from crux.domain.tokens import of_bytes, utf8_size
from crux.storage.index import PUBLIC_LIVE, fact_text, place_of

_DOCUMENTS, _FACTS, _SEGMENTS = int(Segment.DOCUMENTS), int(Segment.FACTS), len(Segment)
_AMONG = "IN (SELECT value FROM json_each(?))"


@frozen
class Origin:
    """What a row is of: what its text costs to read, in tokens, where it is from, and what it is about."""

    tokens: int
    source: Source
    about: About


@frozen
class Origins:
    """The rows of one tenant's index, in the snapshot that a search sees."""

    connection: sqlite3.Connection
    tenant: int
    seal_key: bytes

    def handle(self, place: int) -> Handle:
        """What a row is asked for by."""
        number, segment = divmod(place, _SEGMENTS)
        return Handle(segment, seal(number, self.seal_key))

    def place(self, handle: Handle) -> int | None:
        """The row that a handle stands for, None for one that is no handle of ours."""
        number = unseal(handle.doc, self.seal_key)
        return None if number is None or handle.segment >= _SEGMENTS else number * _SEGMENTS + handle.segment

    def of(self, places: Collection[int]) -> dict[int, Origin]:
        """What each of these rows is of; those that are not there are left out."""
        found: dict[int, Origin] = {}
        columns = "tokens, documents.name, title, uri, entities"
        for place, tokens, document, title, uri, entities in self._passages(columns, places):
            names = () if entities is None else msgspec.json.decode(entities, type=tuple[str, ...])
            named = tuple(node for name in names if (node := node_of(name)) is not None)
            source = Source(document=document, title=title, uri=uri)
            found[place] = Origin(tokens, source, About(Node(DOCUMENT, document), named))
        columns = "fact_id, shown, key, length(CAST(value AS BLOB))"
        for place, fact_id, entity, key, size in self._facts(columns, places):
            tokens = of_bytes(utf8_size(fact_text(entity, key, "")) + size)
            source = Source(fact_id=fact_id, entity=entity, key=key)
            found[place] = Origin(tokens, source, About(node_of(entity)))
        return found

    def text(self, place: int) -> str:
        """The text of one row, to be read."""
        for _, text in self._passages("text", [place]):
            return str(text)
        return self.indexed([place])[place]

    def indexed(self, places: Collection[int]) -> dict[int, str]:
        """The text of each row, as it was indexed."""
        found: dict[int, str] = {}
        for place, text, title in self._passages("text, iif(passages.id = first, title, NULL)", places):
            found[place] = passage_text(text, title)
        for place, *names in self._facts("shown, key, value", places):
            found[place] = fact_text(*names)
        return found

    def _passages(self, columns: str, places: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        """Columns of the tenant's passages among `places`, after the place."""
        if numbers := _numbers(_DOCUMENTS, places):
            for number, *row in self.connection.execute(
                f"SELECT passages.id, {columns} FROM passages JOIN documents ON documents.id = document "
                f"WHERE passages.id {_AMONG} AND tenant = ?",
                (numbers, self.tenant),
            ):
                yield (place_of(Segment.DOCUMENTS, number), *row)

    def _facts(self, columns: str, places: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        """Columns of the tenant's public live facts among `places`, after the place."""
        if numbers := _numbers(_FACTS, places):
            for number, *row in self.connection.execute(
                f"SELECT seq, {columns} FROM facts WHERE seq {_AMONG} AND {PUBLIC_LIVE} "
                "AND tenant = (SELECT name FROM tenants WHERE id = ?)",
                (numbers, self.tenant),
            ):
                yield (place_of(Segment.FACTS, number), *row)


def _numbers(segment: int, places: Iterable[int]) -> str | None:
    """The numbers of a segment as a JSON array, None for none."""
    numbers = [place // _SEGMENTS for place in places if place % _SEGMENTS == segment]
    return str(numbers) if numbers else None
