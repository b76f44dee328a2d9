"""Documents as they are sent in: reading the body of an ingest, and parting it into what one commit takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from crux.domain.canonical import canonical_json
from crux.domain.documents import (
    LONGEST_NAME,
    MOST_DOCUMENT_BYTES,
    MOST_PASSAGE_BYTES,
    Document,
    Passage,
    content_hash,
    passages_of,
)
from crux.domain.tokens import utf8_size
from crux.errors import InvalidArgument

# What one commit takes of text, since other writes wait for it; a larger document goes alone.
COMMIT_BYTES: Final = 256 * 1024
MOST_ENTITIES: Final = 64
MOST_METADATA_BYTES: Final = 64 * 1024


def read_documents(given: object) -> tuple[Document, ...]:
    """The documents of an ingest, each `{id?, title?, uri?, metadata?, text}` or with `chunks: [{id?, text}]` for text.

    One without an id is named by its content. Raises `InvalidArgument` that says which document is wrong and how, also
    where two have one id.
    """
    if not isinstance(given, list) or not given:
        raise InvalidArgument("'documents' must be an array of at least one document", data={"param": "documents"})
    documents = tuple(_document(item, f"documents[{index}]") for index, item in enumerate(given))
    places: dict[str, int] = {}
    for index, document in enumerate(documents):
        if (other := places.setdefault(document.document_id, index)) != index:
            raise _refusal(f"documents[{index}]", f"the id of documents[{other}] too; give each its own")
    return documents


def commits(documents: Sequence[Document]) -> Iterator[tuple[Document, ...]]:
    """The documents in order, in runs of at most `COMMIT_BYTES` of text."""
    run: list[Document] = []
    size = 0
    for document in documents:
        length = document.size_bytes
        if run and size + length > COMMIT_BYTES:
            yield tuple(run)
            run, size = [], 0
        run.append(document)
        size += length
    if run:
        yield tuple(run)


def _document(given: object, path: str) -> Document:
    if not isinstance(given, dict):
        raise _refusal(path, "must be an object with 'text' or 'chunks'")
    if ("text" in given) == ("chunks" in given):
        raise _refusal(path, "must have either 'text' or 'chunks'")
    passages = tuple(_chunks(given["chunks"], path) if "chunks" in given else _cut(given["text"], path))
    if not passages:
        raise _refusal(path, "holds no text")
    if (size := sum(utf8_size(passage.text) for passage in passages)) > MOST_DOCUMENT_BYTES:
        raise _refusal(path, f"has {size} bytes of text and at most {MOST_DOCUMENT_BYTES} are kept; part it")
    title, uri = _name(given, "title", path), _name(given, "uri", path)
    metadata = given.get("metadata")
    entities = _entities(metadata, path)
    kept = None if metadata is None else msgspec.Raw(canonical_json(metadata))
    if kept is not None and len(bytes(kept)) > MOST_METADATA_BYTES:
        raise _refusal(f"{path}.metadata", f"must be at most {MOST_METADATA_BYTES} bytes")
    name = _name(given, "id", path) or f"d_{content_hash(passages, title, uri, kept).hex()[:32]}"
    return Document(name, passages, title, uri, kept, entities)


def _cut(text: object, path: str) -> Iterator[Passage]:
    if not isinstance(text, str):
        raise _refusal(f"{path}.text", "must be a string")
    if utf8_size(text) > MOST_DOCUMENT_BYTES:
        raise _refusal(path, f"has {utf8_size(text)} bytes of text and at most {MOST_DOCUMENT_BYTES} are kept; part it")
    return (Passage(part) for part in passages_of(text))


def _chunks(chunks: object, path: str) -> Iterator[Passage]:
    if not isinstance(chunks, list):
        raise _refusal(f"{path}.chunks", "must be an array of objects with 'text'")
    for index, chunk in enumerate(chunks):
        place = f"{path}.chunks[{index}]"
        if not isinstance(chunk, dict) or not isinstance(text := chunk.get("text"), str) or not text.strip():
            raise _refusal(place, "must be an object with a 'text' that is not blank")
        if utf8_size(text) > MOST_PASSAGE_BYTES:
            raise _refusal(place, f"must have at most {MOST_PASSAGE_BYTES} bytes of text; part it, or send 'text'")
        yield Passage(text, _name(chunk, "id", place))


def _name(given: Mapping[str, Any], member: str, path: str) -> str | None:
    value = given.get(member)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or utf8_size(value) > LONGEST_NAME:
        raise _refusal(f"{path}.{member}", f"must be a string that is not blank, of at most {LONGEST_NAME} bytes")
    return value


def _entities(metadata: object, path: str) -> tuple[str, ...]:
    """The names in the graph that `metadata.entities` links the document to, such as `service:billing`."""
    if metadata is None:
        return ()
    if not isinstance(metadata, dict):
        raise _refusal(f"{path}.metadata", "must be an object")
    entities = metadata.get("entities", [])
    if (
        not isinstance(entities, list)
        or len(entities) > MOST_ENTITIES
        or not all(isinstance(name, str) and utf8_size(name) <= LONGEST_NAME for name in entities)
    ):
        raise _refusal(f"{path}.metadata.entities", f"must be an array of at most {MOST_ENTITIES} names")
    return tuple(entities)


def _refusal(path: str, expected: str) -> InvalidArgument:
    return InvalidArgument(f"'{path}' {expected}", data={"param": path})
