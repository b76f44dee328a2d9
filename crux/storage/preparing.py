"""Documents made ready to be kept, beside the thread that writes: it has to wait for nothing but the disk."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from crux.domain.analysis import BULK_CHUNKS, Analyser
from crux.domain.documents import Document, Prepared, prepare
from crux.domain.ingest import read_documents


class Preparer:
    """Reads and analyses documents in a thread of its own, one call at a time."""

    def __init__(self) -> None:
        self._analyser = Analyser(BULK_CHUNKS)
        self._limiter = trio.CapacityLimiter(1)

    async def read(self, given: object) -> tuple[Document, ...]:
        """The documents that a body holds; raises `InvalidArgument` as `read_documents` does."""
        return await trio.to_thread.run_sync(read_documents, given, limiter=self._limiter)

    async def prepare(self, documents: Sequence[Document]) -> tuple[Prepared, ...]:
        """The documents with their hashes and terms."""
        return await trio.to_thread.run_sync(self._prepare, documents, limiter=self._limiter)

    def _prepare(self, documents: Sequence[Document]) -> tuple[Prepared, ...]:
        return tuple(prepare(document, self._analyser) for document in documents)
