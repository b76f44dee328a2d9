"""The score of a passage for a query: BM25 (memory contract 2.2)."""

import math
from collections.abc import Sequence
from typing import Final

K1: Final = 1.2
B: Final = 0.75


def idf(passages: int, frequency: int) -> float:
    """What a term says that is in `frequency` of `passages` passages: more, the rarer it is; always above 0."""
    return math.log((passages - frequency + 0.5) / (frequency + 0.5) + 1.0)


def weight(frequency: float, length: float, mean_length: float) -> float:
    """How much of a term's `idf` a passage earns that has it `frequency` times among its `length` terms: 0 to `K1` + 1,
    and 1 for once in a passage of `mean_length`."""
    return frequency * (K1 + 1.0) / (frequency + K1 * (1.0 - B + B * length / mean_length))


def engine_idf(passages: int, frequency: int) -> float:
    """The idf that SQLite's `rank` has in it, to be taken out again (https://sqlite.org/fts5.html#the_bm25_function)."""
    value = math.log((passages - frequency + 0.5) / (frequency + 0.5))
    return value if value > 0.0 else 1e-6


def fused(scores: Sequence[float], links: Sequence[Sequence[int]]) -> list[float]:
    """Scores from 0 to 1 for hits that are linked to each other; `links[i]` are the places of the hits that hit i is
    linked to.

    A hit keeps 0.7 of its own score, as a share of the best, and gets 0.3 of the best score among those it is linked to
    (memory contract 2.3, with links where that has vectors).
    """
    best = max(scores, default=0.0) or 1.0
    return [
        0.7 * own / best + 0.3 * max((scores[place] for place in linked), default=0.0) / best
        for own, linked in zip(scores, links, strict=True)
    ]
