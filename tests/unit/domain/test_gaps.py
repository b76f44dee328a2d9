"""Which searches leave a gap, and what of it is kept."""

import pytest

from crux.domain.facts import next_version
from crux.domain.gaps import LOW_COVERAGE, MOST_KEY_BYTES, MOST_WORDS, NoteGap, draft_of, gap_of, matching, queries_of
from crux.domain.privacy import reserved_prefix
from crux.domain.retrieval import Retrieved


@pytest.mark.parametrize(
    ("found", "leaves_one"),
    [
        (Retrieved(words=4, missing=("a", "b", "c"), missed=3, passages=1), True),
        (Retrieved(words=4, missing=("a", "b"), missed=2, passages=1), False),
        (Retrieved(words=4, missing=("a", "b", "c"), missed=3, passages=0), False),
        (Retrieved(words=0, passages=1), False),
    ],
    ids=["below", "at the bound", "nothing is held at all", "no words"],
)
def test_a_search_that_covers_too_little_leaves_a_gap(found: Retrieved, leaves_one: bool) -> None:
    assert (gap_of(found, "default", 1) is not None) == leaves_one
    assert LOW_COVERAGE == 0.5


def test_a_gap_holds_some_of_the_missing_words_and_nothing_else_of_the_query() -> None:
    words = tuple(f"word{n}" for n in range(MOST_WORDS + 1))
    gap = gap_of(Retrieved(words=9, missing=words, missed=9, passages=1), "default", 1)
    assert gap is not None
    assert gap.words == words[:MOST_WORDS]


def test_the_same_words_in_any_order_and_case_are_one_gap() -> None:
    assert NoteGap("t", ("B", "a"), 1).key == NoteGap("t", ("a", "b"), 2).key == "a b"
    assert len(NoteGap("t", ("ü" * 300,), 1).key.encode()) == MOST_KEY_BYTES


def test_a_gap_is_a_record_of_the_daemon_s_own() -> None:
    draft = draft_of(NoteGap("acme", ("Zebra",), 1_800_000_000_000_000), 3)
    assert reserved_prefix(draft.entity) is not None
    assert (draft.tenant, draft.private, draft.key) == ("acme", True, "zebra")
    assert draft.value == '{"missing":["Zebra"],"queries":3,"last_asked":"2027-01-15T08:00:00.000000Z"}'
    assert queries_of(next_version(draft, None, fact_id="f", now_us=1)) == 3


def test_gaps_are_told_the_latest_first_as_far_as_they_hold_a_word() -> None:
    drafts = [draft_of(NoteGap("t", (word,), 1), 1) for word in ("zebra", "lion", "zebu")]
    facts = [next_version(draft, None, fact_id=f"f{n}", now_us=n) for n, draft in enumerate(drafts)]
    assert [fact.key for fact in matching(facts, (), 2)] == ["zebu", "lion"]
    assert [fact.key for fact in matching(facts, ("zeb",), 9)] == ["zebu", "zebra"]
    assert matching(facts, ("yak",), 9) == []
