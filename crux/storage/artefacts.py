"""Artefacts as rows (memory contract 10)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from crux.domain.artefacts import (
    SECOND_US,
    UNLISTED,
    Artefact,
    ListArtefacts,
    PutArtefact,
    Read,
    ReadArtefact,
    SweepArtefacts,
    artefact_id,
    check_room,
)
from crux.domain.decay import DecayPolicy
from crux.storage.clauses import Clause, all_of
from crux.storage.transaction import Transaction

_COLUMNS = "artefact_id, mime_type, tool_origin, size_bytes, created_at, expires_at"


def _unexpired(now_us: int) -> Clause:
    return Clause("(expires_at IS NULL OR expires_at > ?)", (now_us,))


def _put(write: PutArtefact, transaction: Transaction, now_us: int) -> Artefact:
    artefact = Artefact(
        artefact_id(write.content),
        write.mime_type,
        write.tool_origin,
        len(write.content),
        now_us,
        None if write.ttl_s is None else now_us + write.ttl_s * SECOND_US,
    )
    transaction.run("DELETE FROM artefacts WHERE owner = ? AND artefact_id = ?", (write.owner, artefact.artefact_id))
    live = all_of([Clause("owner = ?", (write.owner,)), _unexpired(now_us)])
    owned, owned_bytes = transaction.run(
        f"SELECT count(*), coalesce(sum(size_bytes), 0) FROM artefacts WHERE {live.sql}", live.parameters
    ).fetchone()
    check_room(owned, owned_bytes, artefact.size_bytes)
    transaction.run(
        f"INSERT INTO artefacts (owner, {_COLUMNS}, content) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            write.owner,
            artefact.artefact_id,
            artefact.mime_type,
            artefact.tool_origin,
            artefact.size_bytes,
            artefact.created_us,
            artefact.expires_us,
            write.content,
        ),
    )
    return artefact


def _sweep(sweep: SweepArtefacts, transaction: Transaction, now_us: int) -> int:
    return transaction.run(
        "DELETE FROM artefacts WHERE id IN (SELECT id FROM artefacts WHERE expires_at <= ? LIMIT ?)",
        (now_us, sweep.limit),
    ).rowcount


def _read(read: ReadArtefact, connection: sqlite3.Connection, policy: DecayPolicy) -> Read | None:
    which = all_of([Clause("owner = ? AND artefact_id = ?", (read.owner, read.artefact_id)), _unexpired(read.now_us)])
    row = connection.execute(
        f"SELECT {_COLUMNS}, content FROM artefacts WHERE {which.sql}", which.parameters
    ).fetchone()
    return None if row is None else Read(Artefact(*row[:-1]), row[-1])


def _list(read: ListArtefacts, connection: sqlite3.Connection, policy: DecayPolicy) -> tuple[Artefact, ...]:
    clauses = [Clause("owner = ?", (read.owner,)), _unexpired(read.now_us)]
    clauses += [Clause("substr(mime_type, 1, ?) <> ?", (len(prefix), prefix)) for prefix in UNLISTED]
    if read.scope is not None:
        clauses.append(Clause("(instr(mime_type, ?) > 0 OR tool_origin = ?)", (read.scope, read.scope)))
    which = all_of(clauses)
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM artefacts WHERE {which.sql} ORDER BY created_at DESC, id DESC LIMIT ?",
        (*which.parameters, read.limit),
    )
    return tuple(Artefact(*row) for row in rows)


ARTEFACT_READS: Mapping[type, Callable[[Any, sqlite3.Connection, DecayPolicy], object]] = {
    ReadArtefact: _read,
    ListArtefacts: _list,
}
ARTEFACT_WRITES: Mapping[type, Callable[[Any, Transaction, int], object]] = {
    PutArtefact: _put,
    SweepArtefacts: _sweep,
}
