"""Searching the index of terms: which postings are read, how hits are scored, and where they are from.

The scores are those of `domain/bm25.py`. SQLite walks the postings and gives each row a score of its own per term, from
which its idf is taken out and ours put in. What a query costs is bound by how many postings are walked: words that are
in too many passages do not find any, they only rank what the rarer words found.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from attrs import frozen

from crux.domain.analysis import Analyser, Word
from crux.domain.bm25 import engine_idf, fused, idf, weight
from crux.domain.graph import links
from crux.domain.retrieval import Chunk, Expand, Expanded, Handle, Hit, Retrieve, Retrieved, Segment
from crux.domain.search_plan import Plan, Term, plan
from crux.domain.tokens import BYTES_PER_TOKEN
from crux.storage.clauses import Clause
from crux.storage.origins import Origin, Origins
from crux.storage.substrate import neighbours

# Of the hits that the rarer words found, this many more than asked for are ranked with the common words.
RERANKED = 20
RERANKED_CHARACTERS = 64 * 1024
# Edges that one search looks at.
MOST_EDGES = 1000
# What one answer may hold of text; the first is always there.
TEXT_BYTES = 8 * 1024 * 1024


class Costly(Exception):
    """A search would walk more postings than it may."""


def retrieve(
    message: Retrieve, connection: sqlite3.Connection, analyser: Analyser, most_postings: int | None = None
) -> Retrieved:
    """Search one tenant's index; raises `Costly` where that would walk more than `most_postings` (None: any number)."""
    words = analyser.words(message.text)
    index = _index_of(message.tenant, connection)
    if index is None:
        return Retrieved(words=len(words), missing=_distinct(words), missed=len(words))
    asked = Counter(term for word in words for term in word.terms)
    terms = {text: index.term(text, count, most_postings) for text, count in asked.items()}
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
    if most_postings is not None and (chosen.common or chosen.postings > most_postings):
        raise Costly
    ranked = index.rank(chosen, message.limit + (RERANKED if chosen.common else 0))
    total, below = index.count(chosen, message.min_score)
    if chosen.common:
        ranked = index.rerank(ranked, chosen.common, analyser)
    best = [(place, score) for place, score in ranked if score >= (message.min_score or 0.0)][: message.limit]
    found_at = index.origins.of([place for place, _ in best])
    ordered, is_fused = index.fuse(best, found_at)
    return msgspec.structs.replace(
        result,
        hits=tuple(_hit(place, score, index.origins, found_at[place]) for place, score in ordered),
        total=total,
        below_floor=below,
        fused=is_fused,
        exhaustive=len(chosen.sought) == len(found) and chosen.most is None,
    )


def _hit(place: int, score: float, origins: Origins, origin: Origin) -> Hit:
    return Hit(origins.handle(place), score, origin.tokens, origin.source)


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
    origins: Origins

    @property
    def table(self) -> str:
        return f"index_{self.number}"

    def term(self, text: str, asked: int, most: int | None) -> Term:
        """A term with its figures in this index; raises `Costly` where it has more than `most` postings."""
        term = Term(text, asked)
        matching = f"FROM {self.table} WHERE {self.table} MATCH ?"
        if most is None:
            sql = f"SELECT count(*) {matching}"
        else:
            sql = f"SELECT count(*) FROM (SELECT 1 {matching} LIMIT {most + 1})"
        (frequency,) = self.connection.execute(sql, (term.phrase,)).fetchone()
        if most is not None and frequency > most:
            raise Costly
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
        texts = self.origins.indexed([place for place, _ in ranked])
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

    def fuse(
        self, hits: Sequence[tuple[int, float]], found: Mapping[int, Origin]
    ) -> tuple[Sequence[tuple[int, float]], bool]:
        """The hits in the order that they have when links between them count; whether there are any links."""
        abouts = [found[place].about for place, _ in hits]
        nodes = tuple(dict.fromkeys(node for about in abouts for node in about.nodes))
        linked = links(abouts, neighbours(nodes, MOST_EDGES, self.connection))
        if not any(linked):
            return hits, False
        scores = fused([score for _, score in hits], linked)
        order = sorted(range(len(hits)), key=lambda place: -scores[place])  # stable: ties stay as they are
        return [(hits[place][0], scores[place]) for place in order], True


def _any(terms: Iterable[Term]) -> str:
    """What FTS5 reads as any of these."""
    return " OR ".join(term.phrase for term in terms)


def expand(
    message: Expand, connection: sqlite3.Connection, analyser: Analyser, most_postings: int | None = None
) -> Expanded:
    """Read the texts of hits, as many as there is room for."""
    index = _index_of(message.tenant, connection)
    if index is None:
        return Expanded((), frozenset(message.handles), frozenset())
    origins = index.origins
    places = {handle: place for handle in message.handles if (place := origins.place(handle)) is not None}
    found = origins.of(places.values())
    chunks: list[Chunk] = []
    too_much: set[Handle] = set()
    size = 0
    for handle, place in places.items():
        if place not in found:
            continue
        tokens, source = found[place].tokens, found[place].source
        cost = tokens * BYTES_PER_TOKEN
        if chunks and size + cost > TEXT_BYTES:
            too_much.add(handle)
            continue
        size += cost
        chunks.append(Chunk(handle, origins.text(place), tokens, source))
    there = {handle for handle, place in places.items() if place in found}
    return Expanded(tuple(chunks), frozenset(message.handles) - there, frozenset(too_much))


def _index_of(tenant: str, connection: sqlite3.Connection) -> Index | None:
    row = connection.execute(
        "SELECT tenants.id, passages, terms, seal_key FROM tenants, retrieval WHERE name = ?", (tenant,)
    ).fetchone()
    if row is None or not row[1]:
        return None
    number, passages, terms, seal_key = row
    return Index(connection, number, passages, terms / passages, Origins(connection, number, seal_key))


# Each is called inside a transaction, so that all its reads see the same commit.
RETRIEVALS: Mapping[type, Callable[[Any, sqlite3.Connection, Analyser, int | None], object]] = {
    Retrieve: retrieve,
    Expand: expand,
}
