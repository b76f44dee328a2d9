"""Cutting texts into passages, and telling contents apart."""

import msgspec
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.documents import PASSAGE_BYTES, Document, Passage, passages_of
from crux.domain.tokens import utf8_size


@pytest.mark.parametrize(
    ("text", "passages"),
    [
        ("", []),
        (" \n\n \n", []),
        ("one", ["one"]),
        ("first\r\nline\r\n\r\nsecond", ["first\nline", "second"]),
        ("aaaa bb\n\ncccc dd\n\neeee", ["aaaa bb", "cccc dd", "eeee"]),
        ("aa bb\ncc dd ee ff", ["aa bb", "cc dd ee ff"]),
        ("One is. Two be. Three.", ["One is.", "Two be.", "Three."]),
        ("日本。中国。", ["日本。", "中国。"]),
        ("aaaaaaaaaaaaaa", ["aaaaaaaaaaaa", "aa"]),
        ("ééééééé", ["éééééé", "é"]),
    ],
)
def test_a_text_is_cut_at_the_best_bound_that_a_passage_holds(text: str, passages: list[str]) -> None:
    assert passages_of(text, 12) == passages


@given(st.text(max_size=400), st.integers(4, 60))
def test_nothing_but_white_space_is_lost_and_no_passage_is_too_long_or_blank(text: str, most_bytes: int) -> None:
    passages = passages_of(text, most_bytes)
    assert "".join("".join(passages).split()) == "".join(text.split())
    assert all(passage.strip() and utf8_size(passage) <= most_bytes for passage in passages)


def test_a_text_of_exactly_a_passage_is_one() -> None:
    assert len(passages_of("x" * PASSAGE_BYTES)) == 1
    assert len(passages_of("x" * (PASSAGE_BYTES + 1))) == 2


DOCUMENT = Document("a", (Passage("text", "one"),), "title", "file:///a", msgspec.Raw(b'{"k":1}'))


@pytest.mark.parametrize(
    "other",
    [
        evolve(DOCUMENT, passages=(Passage("text"),)),
        evolve(DOCUMENT, passages=(Passage("other", "one"),)),
        evolve(DOCUMENT, title=None),
        evolve(DOCUMENT, uri=None),
        evolve(DOCUMENT, metadata=None),
        evolve(DOCUMENT, metadata=msgspec.Raw(b'{"k":2}')),
    ],
)
def test_any_difference_is_another_content(other: Document) -> None:
    assert other.content_hash != DOCUMENT.content_hash


def test_a_name_is_no_content() -> None:
    assert evolve(DOCUMENT, document_id="b").content_hash == DOCUMENT.content_hash
