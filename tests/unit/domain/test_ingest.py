"""Documents as they are sent in: what is taken, what is refused, and what one commit gets of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.documents import LONGEST_NAME, MOST_DOCUMENT_BYTES, MOST_PASSAGE_BYTES, Document, Passage
from crux.domain.ingest import COMMIT_BYTES, MOST_ENTITIES, MOST_METADATA_BYTES, commits, read_documents
from crux.errors import InvalidArgument


def one(**members: Any) -> Document:
    (document,) = read_documents([members])
    return document


def test_a_text_is_cut_and_chunks_are_kept_as_they_are() -> None:
    assert one(id="a", text="x\n\ny").passages == (Passage("x\n\ny"),)
    chunks = [{"id": "c1", "text": " x "}, {"text": "y"}]
    assert one(id="a", chunks=chunks).passages == (Passage(" x ", "c1"), Passage("y"))


def test_a_document_without_an_id_is_named_by_its_content() -> None:
    assert one(text="x").document_id == one(text="x").document_id
    assert one(text="x").document_id != one(text="x", title="t").document_id
    assert one(text="x").document_id.startswith("d_")


def test_metadata_is_kept_in_one_form_and_names_the_entities() -> None:
    document = one(text="x", metadata={"b": 1, "a": [2], "entities": ["service:billing"]})
    assert bytes(document.metadata or b"") == b'{"a":[2],"b":1,"entities":["service:billing"]}'
    assert document.entities == ("service:billing",)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "'documents' must be an array"),
        ([], "at least one document"),
        (["x"], r"'documents\[0\]' must be an object"),
        ([{}], "either 'text' or 'chunks'"),
        ([{"text": "x", "chunks": []}], "either 'text' or 'chunks'"),
        ([{"text": 1}], r"'documents\[0\].text' must be a string"),
        ([{"text": " \n"}], "holds no text"),
        ([{"chunks": []}], "holds no text"),
        ([{"chunks": {}}], r"chunks' must be an array"),
        ([{"chunks": [{"text": " "}]}], r"chunks\[0\]' must be an object with a 'text' that is not blank"),
        ([{"chunks": [{"text": "x", "id": 7}]}], r"chunks\[0\].id' must be a string"),
        ([{"text": "x", "id": " "}], r"documents\[0\].id' must be a string that is not blank"),
        ([{"text": "x", "title": 1}], r"documents\[0\].title'"),
        ([{"text": "x", "uri": []}], r"documents\[0\].uri'"),
        ([{"text": "x", "metadata": []}], r"metadata' must be an object"),
        ([{"text": "x", "metadata": {"entities": "a"}}], "metadata.entities' must be an array"),
        ([{"text": "x", "id": "a"}, {"text": "y", "id": "a"}], r"documents\[1\]' the id of documents\[0\] too"),
    ],
)
def test_a_wrong_document_is_named_and_refused(given: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        read_documents(given)


@pytest.mark.parametrize(
    ("fits", "too_much"),
    [
        ({"text": "x" * MOST_DOCUMENT_BYTES}, {"text": "x" * (MOST_DOCUMENT_BYTES + 1)}),
        ({"chunks": [{"text": "x" * MOST_PASSAGE_BYTES}]}, {"chunks": [{"text": "x" * (MOST_PASSAGE_BYTES + 1)}]}),
        ({"text": "x", "id": "n" * LONGEST_NAME}, {"text": "x", "id": "n" * (LONGEST_NAME + 1)}),
        (
            {"text": "x", "metadata": {"entities": ["e"] * MOST_ENTITIES}},
            {"text": "x", "metadata": {"entities": ["e"] * (MOST_ENTITIES + 1)}},
        ),
        (
            {"text": "x", "metadata": {"k": "v" * (MOST_METADATA_BYTES - 8)}},
            {"text": "x", "metadata": {"k": "v" * (MOST_METADATA_BYTES - 7)}},
        ),
    ],
    ids=["text", "chunk", "id", "entities", "metadata"],
)
def test_every_limit_is_where_it_says(fits: dict[str, Any], too_much: dict[str, Any]) -> None:
    assert one(**fits).passages
    with pytest.raises(InvalidArgument, match="at most"):
        one(**too_much)


def test_chunks_that_are_too_much_together_are_refused() -> None:
    chunks = [{"text": "x" * MOST_PASSAGE_BYTES}] * (MOST_DOCUMENT_BYTES // MOST_PASSAGE_BYTES)
    assert len(one(chunks=chunks).passages) == len(chunks)
    with pytest.raises(InvalidArgument, match="part it"):
        one(chunks=[*chunks, {"text": "x"}])


@given(st.lists(st.integers(1, 2 * COMMIT_BYTES), min_size=1, max_size=12))
def test_commits_keep_the_order_and_their_size(sizes: list[int]) -> None:
    documents = [Document(f"d{n}", (Passage("x" * size),)) for n, size in enumerate(sizes)]
    runs = list(commits(documents))
    assert [document for run in runs for document in run] == documents
    for run in runs:
        assert len(run) == 1 or sum(document.size_bytes for document in run) <= COMMIT_BYTES
