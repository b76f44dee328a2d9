"""Which terms of a query find hits, and which only rank them: what a search costs is bound by the postings it walks."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

# Terms that one search looks for: of more, those that say most.
MOST_TERMS = 64
# Postings that one search walks: some 20 ms.
MOST_POSTINGS = 20_000
# A word in more than this share of the passages says too little to be looked for beside others.
COMMON_SHARE = 0.25


@frozen
class Term:
    """One term of a query: how often it is asked for, and in how many passages it is."""

    text: str
    asked: int
    frequency: int = 0
    idf: float = 0.0

    @property
    def phrase(self) -> str:
        """The term as FTS5 reads it: nothing in it means anything but itself."""
        return '"' + self.text.replace('"', '""') + '"'


@frozen
class Plan:
    """How a query is answered.

    `sought` terms find hits; `most` bounds how many, the newest, where even one term has too many. `narrowing` terms
    tell which of these are likely the best, and all `common` ones, which have those among them, rank the best.
    """

    sought: tuple[Term, ...]
    narrowing: tuple[Term, ...] = ()
    common: tuple[Term, ...] = ()
    most: int | None = None

    @property
    def postings(self) -> int:
        """How many postings finding walks."""
        return self.most or sum(term.frequency for term in self.sought)


def plan(terms: Sequence[Term], passages: int) -> Plan:
    """Choose what to walk of the postings of `terms`, none of which is in no passage: as many as `MOST_POSTINGS`, those
    of the rarest terms first."""
    telling = sorted(terms, key=lambda term: term.asked * term.idf, reverse=True)[:MOST_TERMS]
    sought: list[Term] = []
    left: list[Term] = []
    walked = 0
    for term in sorted(telling, key=lambda term: term.frequency):
        walked += term.frequency
        (sought if walked <= MOST_POSTINGS else left).append(term)
    if not sought:
        return Plan((left[0],), common=tuple(left[1:]), most=MOST_POSTINGS)
    narrowing = tuple(term for term in left if term.frequency <= COMMON_SHARE * passages)
    return Plan(tuple(sought), narrowing, tuple(left))
