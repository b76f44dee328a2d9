"""Searching the index of terms: which postings are read, how hits are scored, and where they are from.

The scores are those of `domain/bm25.py`. SQLite walks the postings and gives each row a score of its own per term, from
which its idf is taken out and ours put in. What a query costs is bound by how many postings are walked: words that are
in too many passages do not find any, they only rank what the rarer words found.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from attrs import frozen

from crux.domain.analysis import Analyser, Word
from crux.domain.bm25 import engine_idf, fused, idf, weight
from crux.domain.graph import DOCUMENT, About, links, node_of
from crux.domain.retrieval import Chunk, Expand, Expanded, Handle, Hit, Retrieve, Retrieved, Segment, Source
from crux.domain.seals import seal, unseal
from crux.domain.search_plan import Plan, Term, plan
from crux.domain.substrate import Node
from crux.domain.tokens import BYTES_PER_TOKEN, of_bytes, utf8_size
from crux.storage.clauses import Clause
from crux.storage.index import PUBLIC_LIVE, fact_text, number_at, passage_text, place_of
from crux.storage.substrate import neighbours

# Of the hits that the rarer words found, this many more than asked for are ranked with the common words.
RERANKED = 20
RERANKED_CHARACTERS = 64 * 1024
# Edges that one search looks at.
MOST_EDGES = 1000
# What one answer may hold of text; the first is always there.
TEXT_BYTES = 8 * 1024 * 1024


def retrieve(message: Retrieve, connection: sqlite3.Connection, analyser: Analyser) -> Retrieved:
    """Search one tenant's index."""
    words = analyser.words(message.text)
    with _snapshot(connection):
        index = _index_of(message.tenant, connection)
        if index is None:
            return Retrieved(words=len(words), missing=_distinct(words), missed=len(words))
        asked = Counter(term for word in words for term in word.terms)
        terms = {text: index.term(text, count) for text, count in asked.items()}
        missing = [word for word in words if not _is_there(word, terms)]
        found = [term for term in terms.values() if term.frequency]
        result = Retrieved(
            words=len(words),
            missing=_distinct(missing),
            missed=len(missing),
            passages=index.passages,
        )
        if not found:
            return result
        chosen = plan(found, index.passages)
        ranked = index.rank(chosen, message.limit + (RERANKED if chosen.common else 0))
        total, below = index.count(chosen, message.min_score)
        if chosen.common:
            ranked = index.rerank(ranked, chosen.common, analyser)
        best = [(place, score) for place, score in ranked if score >= (message.min_score or 0.0)][: message.limit]
        best, is_fused = index.fuse(best)
        sources = index.sources([place for place, _ in best])
        return msgspec.structs.replace(
            result,
            hits=tuple(Hit(index.handle(place), score, *sources[place]) for place, score in best),
            total=total,
            below_floor=below,
            fused=is_fused,
            exhaustive=len(chosen.sought) == len(found) and chosen.most is None,
        )


def _is_there(word: Word, terms: Mapping[str, Term]) -> bool:
    """Whether the index holds a word: as a whole, or all its parts."""
    whole, *parts = word.terms
    return terms[whole].frequency > 0 or (bool(parts) and all(terms[part].frequency for part in parts))


def _distinct(words: Sequence[Word]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.text for word in words))


@frozen
class Index:
    """One tenant's index, in the snapshot that a search sees."""

    connection: sqlite3.Connection
    number: int
    passages: int
    mean_length: float
    seal_key: bytes

    def handle(self, place: int) -> Handle:
        """What a place is asked for by."""
        segment, number = number_at(place)
        return Handle(segment, seal(number, self.seal_key))

    def place(self, handle: Handle) -> int | None:
        """The place that a handle stands for, None for one that is no handle of ours."""
        number = unseal(handle.doc, self.seal_key)
        if number is None or handle.segment not in tuple(Segment):
            return None
        return place_of(Segment(handle.segment), number)

    @property
    def table(self) -> str:
        return f"index_{self.number}"

    def term(self, text: str, asked: int) -> Term:
        """A term with its figures in this index."""
        term = Term(text, asked)
        (frequency,) = self.connection.execute(
            f"SELECT count(*) FROM {self.table} WHERE {self.table} MATCH ?", (term.phrase,)
        ).fetchone()
        return Term(text, asked, frequency, idf(self.passages, frequency))

    def rank(self, chosen: Plan, limit: int) -> list[tuple[int, float]]:
        """The places and scores of the best.

        They are in the order that they have when a narrowing term is there once, in a passage of mean length; their
        scores are without it, since `rerank` adds the true one.
        """
        scored = self._scored(chosen)
        return self.connection.execute(
            f"SELECT place, score FROM {scored.sql} ORDER BY score + guess DESC, place % {len(Segment)}, place LIMIT ?",
            (*scored.parameters, limit),
        ).fetchall()

    def count(self, chosen: Plan, floor: float | None) -> tuple[int, int]:
        """How many there are in all, and how many of these have a score under the floor."""
        if floor is not None:
            scored = self._scored(chosen)
            total, below = self.connection.execute(
                f"SELECT count(*), count(*) FILTER (WHERE score + guess < ?) FROM {scored.sql}",
                (floor, *scored.parameters),
            ).fetchone()
            return total, below
        if len(chosen.sought) == 1:
            return min(chosen.sought[0].frequency, chosen.most or self.passages), 0
        sql = f"SELECT count(*) FROM {self.table} WHERE {self.table} MATCH ?"
        (total,) = self.connection.execute(sql, (_any(chosen.sought),)).fetchone()
        return total, 0

    def _scored(self, chosen: Plan) -> Clause:
        """The places that a plan finds, each with its score for the sought terms and a guess for the narrowing ones."""
        arms: list[Clause] = []
        latest = "" if chosen.most is None else f" ORDER BY rowid DESC LIMIT {chosen.most}"
        matching = f"FROM {self.table} WHERE {self.table} MATCH ?"
        for term in chosen.sought:
            factor = -term.asked * term.idf / engine_idf(self.passages, term.frequency)
            sql = f"SELECT * FROM (SELECT rowid AS place, rank * ? AS score, 0.0 AS guess {matching}{latest})"
            arms.append(Clause(sql, (factor, term.phrase)))
        for term in chosen.narrowing:
            both = f"({_any(chosen.sought)}) AND {term.phrase}"
            arms.append(Clause(f"SELECT rowid, 0.0, ? {matching}", (term.asked * term.idf, both)))
        union = " UNION ALL ".join(arm.sql for arm in arms)
        return Clause(
            f"(SELECT place, sum(score) AS score, sum(guess) AS guess FROM ({union}) GROUP BY place)",
            tuple(value for arm in arms for value in arm.parameters),
        )

    def rerank(
        self, ranked: Sequence[tuple[int, float]], common: Sequence[Term], analyser: Analyser
    ) -> list[tuple[int, float]]:
        """What was found by rarer terms, in the order that it has when the common ones count as well."""
        texts = self.texts([place for place, _ in ranked])
        scored = [
            (place, score + self._earned(common, analyser.terms(texts[place][:RERANKED_CHARACTERS])))
            for place, score in ranked
        ]
        return sorted(scored, key=lambda hit: (-hit[1], hit[0] % len(Segment), hit[0]))

    def _earned(self, common: Sequence[Term], terms: str) -> float:
        """The score of a passage, given its terms, for `common` ones."""
        counts = Counter(terms.split())
        length = counts.total()
        padded = f" {terms} "
        return sum(
            term.asked * term.idf * weight(frequency, length, self.mean_length)
            for term in common
            if (frequency := padded.count(f" {term.text} ") if " " in term.text else counts[term.text])
        )

    def fuse(self, hits: Sequence[tuple[int, float]]) -> tuple[list[tuple[int, float]], bool]:
        """The hits in the order that they have when links between them count; whether there are any links."""
        about = self._about([place for place, _ in hits])
        abouts = [about.get(place, About(None)) for place, _ in hits]
        nodes = tuple(dict.fromkeys(node for hit in abouts for node in hit.nodes))
        linked = links(abouts, neighbours(nodes, MOST_EDGES, self.connection))
        if not any(linked):
            return list(hits), False
        scores = fused([score for _, score in hits], linked)
        order = sorted(range(len(hits)), key=lambda place: -scores[place])  # stable: ties stay as they are
        return [(hits[place][0], scores[place]) for place in order], True

    def _about(self, places: Sequence[int]) -> dict[int, About]:
        """What each place is about."""
        found: dict[int, About] = {}
        for place, document, entities in self._passages("documents.name, entities", places):
            names = () if entities is None else msgspec.json.decode(entities, type=tuple[str, ...])
            named = tuple(node for name in names if (node := node_of(name)) is not None)
            found[place] = About(Node(DOCUMENT, document), named)
        for place, entity in self._facts("shown", places):
            found[place] = About(node_of(entity))
        return found

    def text(self, place: int) -> str:
        """The text of one place, to be read."""
        for _, text in self._passages("text", [place]):
            return str(text)
        return self.texts([place])[place]

    def texts(self, places: Sequence[int]) -> dict[int, str]:
        """What is indexed of each place."""
        found: dict[int, str] = {}
        for place, text, title in self._passages("text, iif(passages.id = first, title, NULL)", places):
            found[place] = passage_text(text, title)
        for place, *names in self._facts("shown, key, value", places):
            found[place] = fact_text(*names)
        return found

    def sources(self, places: Collection[int]) -> dict[int, tuple[int, Source]]:
        """What the text of each place costs to read, in tokens, and where it is from."""
        found: dict[int, tuple[int, Source]] = {}
        for place, tokens, document, title, uri in self._passages("tokens, documents.name, title, uri", places):
            found[place] = tokens, Source(document=document, title=title, uri=uri)
        for place, fact_id, entity, key, size in self._facts(
            "fact_id, shown, key, length(CAST(value AS BLOB))", places
        ):
            tokens = of_bytes(utf8_size(fact_text(entity, key, "")) + size)
            found[place] = tokens, Source(fact_id=fact_id, entity=entity, key=key)
        return found

    def _passages(self, columns: str, places: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        """Columns of the tenant's passages among `places`, after the place."""
        numbers = _numbers(Segment.DOCUMENTS, places)
        for number, *row in self.connection.execute(
            f"SELECT passages.id, {columns} FROM passages JOIN documents ON documents.id = document "
            f"WHERE passages.id IN ({', '.join('?' * len(numbers))}) AND tenant = ?",
            (*numbers, self.number),
        ):
            yield (place_of(Segment.DOCUMENTS, number), *row)

    def _facts(self, columns: str, places: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        """Columns of the tenant's public live facts among `places`, after the place."""
        numbers = _numbers(Segment.FACTS, places)
        for number, *row in self.connection.execute(
            f"SELECT seq, {columns} FROM facts WHERE seq IN ({', '.join('?' * len(numbers))}) "
            f"AND {PUBLIC_LIVE} AND tenant = (SELECT name FROM tenants WHERE id = ?)",
            (*numbers, self.number),
        ):
            yield (place_of(Segment.FACTS, number), *row)


def _any(terms: Iterable[Term]) -> str:
    """What FTS5 reads as any of these."""
    return " OR ".join(term.phrase for term in terms)


def _numbers(segment: Segment, places: Iterable[int]) -> list[int]:
    return [number for kind, number in map(number_at, places) if kind is segment]


def expand(message: Expand, connection: sqlite3.Connection, analyser: Analyser) -> Expanded:
    """Read the texts of hits, as many as there is room for."""
    with _snapshot(connection):
        index = _index_of(message.tenant, connection)
        if index is None:
            return Expanded((), frozenset(message.handles), frozenset())
        places = {handle: place for handle in message.handles if (place := index.place(handle)) is not None}
        sources = index.sources(places.values())
        chunks: list[Chunk] = []
        too_much: set[Handle] = set()
        size = 0
        for handle, place in places.items():
            if place not in sources:
                continue
            tokens, source = sources[place]
            cost = tokens * BYTES_PER_TOKEN
            if chunks and size + cost > TEXT_BYTES:
                too_much.add(handle)
                continue
            size += cost
            chunks.append(Chunk(handle, index.text(place), tokens, source))
        there = {handle for handle, place in places.items() if place in sources}
        return Expanded(tuple(chunks), frozenset(message.handles) - there, frozenset(too_much))


def _index_of(tenant: str, connection: sqlite3.Connection) -> Index | None:
    row = connection.execute(
        "SELECT tenants.id, passages, terms, seal_key FROM tenants, retrieval WHERE name = ?", (tenant,)
    ).fetchone()
    if row is None or not row[1]:
        return None
    number, passages, terms, seal_key = row
    return Index(connection, number, passages, terms / passages, seal_key)


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """All reads inside see the same commit."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")


RETRIEVALS: Mapping[type, Callable[[Any, sqlite3.Connection, Analyser], object]] = {Retrieve: retrieve, Expand: expand}
