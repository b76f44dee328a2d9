"""Handles of hits, good and bad, and the texts that they stand for."""

import pytest

from crux.domain.expansion import crc_expansion, plain_expansion, read_handles, unread
from crux.domain.retrieval import Chunk, Expanded, Handle, Source, parse_handle


@pytest.mark.parametrize("text", ["", "1", "1:2:3", "x", "::"])
def test_what_does_not_have_two_parts_is_no_handle(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{text}$"):
        parse_handle(text)


@pytest.mark.parametrize("text", ["a:b", ":", "-1:2", "1: 2", "1:²", "1:" + "9" * 19, "٣:1"])
def test_two_parts_that_are_no_numbers_of_ours_are_a_handle_of_nothing(text: str) -> None:
    assert parse_handle(text) is None


@pytest.mark.parametrize("handle", [Handle(0, 0), Handle(1, 17), Handle(0, 10**18 - 1)])
def test_a_handle_is_read_as_it_is_written(handle: Handle) -> None:
    assert parse_handle(str(handle)) == handle


def test_each_bad_handle_is_named_and_the_good_ones_are_read_once() -> None:
    handles, errors = read_handles(["0:1", "x", "0:1", "a:b", "1:2"])
    assert handles == {"0:1": Handle(0, 1), "1:2": Handle(1, 2)}
    assert [(error.result_id, error.error_kind) for error in errors] == [("x", "invalid_format"), ("a:b", "evicted")]
    expanded = Expanded((), frozenset({Handle(0, 1)}), frozenset({Handle(1, 2)}))
    assert [(error.result_id, error.error_kind) for error in unread(expanded, handles)] == [
        ("0:1", "evicted"),
        ("1:2", "result_too_large"),
    ]


def test_texts_are_told_with_what_they_cost_and_are_of() -> None:
    chunk = Chunk(Handle(0, 1), "text", 1, Source(document="a", title="t"))
    crc, plain = crc_expansion([chunk], []), plain_expansion([chunk], [])
    assert (crc.results[0].content, crc.results[0].document, crc.results[0].title) == ("text", "a", "t")
    assert (crc.meta.tokens_loaded, crc.cost_estimate.full, crc.pointers[0].score) == (1, 1, None)
    assert (plain.chunks[0].content, plain.tokens_loaded, plain.errors) == ("text", 1, ())
