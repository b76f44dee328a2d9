"""Which terms find and which only rank."""

from hypothesis import given
from hypothesis import strategies as st

from crux.domain.bm25 import idf
from crux.domain.search_plan import COMMON_SHARE, MOST_POSTINGS, MOST_TERMS, Plan, Term, plan

PASSAGES = 10 * MOST_POSTINGS


def term(name: str, frequency: int, asked: int = 1) -> Term:
    return Term(name, asked, frequency, idf(PASSAGES, frequency))


def test_what_fits_finds_and_the_rest_ranks() -> None:
    rare, fits = term("rare", 1), term("fits", MOST_POSTINGS - 1)
    one_more = term("more", MOST_POSTINGS)
    everywhere = term("everywhere", int(COMMON_SHARE * PASSAGES) + 1)
    assert plan([fits, rare], PASSAGES) == Plan((rare, fits))
    assert plan([everywhere, one_more, fits, rare], PASSAGES) == Plan((rare, fits), (one_more,), (one_more, everywhere))


def test_where_every_term_has_too_many_the_rarest_finds_the_latest() -> None:
    first, second = term("a", MOST_POSTINGS + 1), term("b", MOST_POSTINGS + 2)
    assert plan([second, first], PASSAGES) == Plan((first,), (), (second,), MOST_POSTINGS)
    assert plan([term("a", MOST_POSTINGS)], PASSAGES).most is None


@given(st.lists(st.tuples(st.integers(1, PASSAGES), st.integers(1, 3)), min_size=1, max_size=100))
def test_a_plan_walks_a_bounded_number_and_has_each_term_once(given_terms: list[tuple[int, int]]) -> None:
    terms = [term(str(number), *figures) for number, figures in enumerate(given_terms)]
    chosen = plan(terms, PASSAGES)
    assert chosen.sought
    if chosen.most is None:
        assert sum(found.frequency for found in chosen.sought) <= MOST_POSTINGS
    assert len(chosen.sought) + len(chosen.common) == min(len(terms), MOST_TERMS)
    assert not set(chosen.sought) & set(chosen.common)
    assert set(chosen.narrowing) <= set(chosen.common)


def test_a_phrase_quotes_whatever_is_in_a_term() -> None:
    assert Term('a"b', 1).phrase == '"a""b"'
