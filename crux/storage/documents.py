"""Documents as rows: what the writes that are about them do inside their transaction."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from crux.domain.documents import Ingested, RemoveDocument, StoreDocuments, passage_text
from crux.domain.retrieval import Segment
from crux.domain.tokens import of_text
from crux.storage.index import insertion, place_of
from crux.storage.transaction import Transaction

_COLUMNS = "id, name, content_hash, first, behind, title"

Row = tuple[Any, ...]


def _store(store: StoreDocuments, transaction: Transaction, now_us: int) -> tuple[Ingested, ...]:
    tenant = transaction.indices.tenant(store.tenant)
    names = [prepared.document.document_id for prepared in store.documents]
    known = _found(tenant, names, transaction)
    due = {
        name: prepared
        for name, prepared in zip(names, store.documents, strict=True)
        if (row := known.get(name)) is None or row[2] != prepared.content_hash.hex()
    }
    for name in due.keys() & known.keys():
        _remove_found(known[name], tenant, transaction)
    (last,) = transaction.run("SELECT coalesce(max(id), 0) FROM documents").fetchone()
    (number,) = transaction.run("SELECT next_passage FROM retrieval").fetchone()
    documents: list[Row] = []
    passages: list[Row] = []
    for row_id, prepared in enumerate(due.values(), start=last + 1):
        document = prepared.document
        documents.append(
            (
                row_id,
                tenant,
                document.document_id,
                prepared.content_hash.hex(),
                now_us,
                number,
                number + len(document.passages),
                document.title,
                document.uri,
                None if document.metadata is None else bytes(document.metadata).decode(),
                msgspec.json.encode(document.entities).decode() if document.entities else None,
            )
        )
        for passage, terms in zip(document.passages, prepared.terms, strict=True):
            passages.append((number, row_id, passage.name, of_text(passage.text), passage.text))
            transaction.indices.change_terms(tenant, place_of(Segment.DOCUMENTS, number), terms, added=True)
            number += 1
    if documents:
        transaction.run(*insertion("documents", documents))
        transaction.run(*insertion("passages", passages))
    transaction.run("UPDATE retrieval SET next_passage = ?", (number,))
    return tuple(
        Ingested(name, _status(name in due, name in known), len(prepared.document.passages))
        for name, prepared in zip(names, store.documents, strict=True)
    )


def _status(stored: bool, known: bool) -> str:
    if not stored:
        return "unchanged"
    return "updated" if known else "stored"


def _found(tenant: int, names: Sequence[str], transaction: Transaction) -> dict[str, Row]:
    """The rows of those documents that there are, by name."""
    rows = transaction.run(
        f"SELECT {_COLUMNS} FROM documents WHERE tenant = ? AND name IN (SELECT value FROM json_each(?))",
        (tenant, msgspec.json.encode(names).decode()),
    )
    return {row[1]: row for row in rows}


def _remove(remove: RemoveDocument, transaction: Transaction, now_us: int) -> bool:
    tenant = transaction.run("SELECT id FROM tenants WHERE name = ?", (remove.tenant,)).fetchone()
    found = _found(tenant[0], [remove.document_id], transaction) if tenant else {}
    for row in found.values():
        _remove_found(row, tenant[0], transaction)
    return bool(found)


def _remove_found(found: Row, tenant: int, transaction: Transaction) -> None:
    """Remove a document, given its row, and its passages."""
    row_id, _, _, first, behind, title = found
    span = (first, behind)
    for number, text in transaction.run("SELECT id, text FROM passages WHERE id >= ? AND id < ?", span).fetchall():
        whole = passage_text(text, title if number == first else None)
        transaction.indices.change_text(tenant, place_of(Segment.DOCUMENTS, number), whole, added=False)
    transaction.run("DELETE FROM passages WHERE id >= ? AND id < ?", span)
    transaction.run("DELETE FROM documents WHERE id = ?", (row_id,))


DOCUMENT_WRITES: Mapping[type, Callable[[Any, Transaction, int], object]] = {
    StoreDocuments: _store,
    RemoveDocument: _remove,
}
