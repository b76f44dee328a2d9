"""Documents: texts that are kept to be searched, cut into passages (memory contract 2, HTTP API contract 4.10)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain, repeat

import msgspec
from attrs import frozen
from blake3 import blake3

from crux.domain.analysis import Analyser
from crux.domain.canonical import canonical_json
from crux.domain.messages import Message
from crux.domain.tokens import utf8_size

# What a passage of a text aims at, so that one is read at little cost and still says something.
PASSAGE_BYTES = 1500
# What a whole document may hold: its passages are written in one transaction, and other writes wait for that.
MOST_DOCUMENT_BYTES = 4 * 1024 * 1024
MOST_PASSAGE_BYTES = 64 * 1024
LONGEST_NAME = 1024
MOST_TENANTS = 1000

# Where a text is cut, the best places first: between paragraphs, lines, sentences, words.
_BOUNDS = tuple(map(re.compile, (r"\n[^\S\n]*\n", r"\n", r"[.!?…]\s|[。！？]", r"\s")))


@frozen
class Passage:
    """A part of a document: what a search finds and an agent reads. `name` is its writer's, where there is one."""

    text: str
    name: str | None = None


@frozen
class Document:
    """A text with its name, unique in its tenant. `entities` are `kind:id` names that it is linked to in the graph."""

    document_id: str
    passages: tuple[Passage, ...]
    title: str | None = None
    uri: str | None = None
    metadata: msgspec.Raw | None = None
    entities: tuple[str, ...] = ()

    @property
    def size_bytes(self) -> int:
        """Bytes of text."""
        return sum(utf8_size(passage.text) for passage in self.passages)

    @property
    def content_hash(self) -> bytes:
        """What tells one content from another, 32 bytes: BLAKE3 of all but the id."""
        return content_hash(self.passages, self.title, self.uri, self.metadata)


def content_hash(
    passages: Sequence[Passage], title: str | None, uri: str | None, metadata: msgspec.Raw | None
) -> bytes:
    """BLAKE3 of the canonical JSON of a document's parts, 32 bytes."""
    parts = [[passage.name, passage.text] for passage in passages]
    known = None if metadata is None else msgspec.json.decode(metadata)
    return blake3(canonical_json([title, uri, known, parts])).digest()


def passages_of(text: str, most_bytes: int = PASSAGE_BYTES) -> list[str]:
    """`text` in parts of at most `most_bytes`, each cut at the last of the best bounds that it holds; none is blank."""
    text = text.replace("\r\n", "\n")
    parts, start = [], 0
    while start < len(text):
        part = _fitting(text[start : start + most_bytes], most_bytes)
        if start + len(part) < len(text):
            part = part[: _cut_at(part)]
        start += len(part)
        parts.append(part.strip("\n").rstrip())
    return [part for part in parts if part]


def _fitting(text: str, most_bytes: int) -> str:
    """The longest start of `text` that has at most `most_bytes`."""
    return text if utf8_size(text) <= most_bytes else text.encode()[:most_bytes].decode(errors="ignore")


def _cut_at(text: str) -> int:
    """The place after the last of the best bounds in `text`; its end where it has none."""
    for bound in _BOUNDS:
        if ends := [match.end() for match in bound.finditer(text)]:
            return ends[-1]
    return len(text)


class Ingested(msgspec.Struct, frozen=True):
    """What became of one document: `stored` first, `updated` in place of another content, or `unchanged`."""

    id: str
    status: str
    passages: int


@frozen
class Prepared:
    """A document ready to be kept: with its content's hash, and the terms of each passage."""

    document: Document
    content_hash: bytes
    terms: tuple[str, ...]


def prepare(document: Document, analyser: Analyser) -> Prepared:
    """The document with what keeping it needs."""
    titles = chain([document.title], repeat(None))
    terms = tuple(
        analyser.terms(passage_text(passage.text, title))
        for passage, title in zip(document.passages, titles, strict=False)
    )
    return Prepared(document, document.content_hash, terms)


def passage_text(text: str, title: str | None) -> str:
    """What is indexed of a passage; `title` is its document's, where it is the first."""
    return text if title is None else f"{title}\n{text}"


@frozen
class StoreDocuments(Message[tuple[Ingested, ...]]):
    """Keep documents, all of them or none, each in the place of what has its name, if that differs."""

    tenant: str
    documents: tuple[Prepared, ...]


@frozen
class RemoveDocument(Message[bool]):
    """Remove a document and its passages for good; whether there was one."""

    tenant: str
    document_id: str
