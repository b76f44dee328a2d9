"""The full-text indices as the writer keeps them: what a batch changes in them is written once, before it commits.

Each savepoint makes FTS5 write out what it holds in memory as a segment of its own, and so does each step back in the
order of rows. Changes are therefore gathered, undone with the command that made them, and written in order at the end.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
from attrs import frozen

from crux.domain.analysis import ANALYSIS, Analyser
from crux.domain.documents import MOST_TENANTS, passage_text
from crux.domain.retrieval import Segment
from crux.errors import InvalidArgument

# Terms are separated by spaces and may hold any other character.
_TOKENIZER = "ascii tokenchars '!\"\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~'''"
_CHUNK = 2000
ROWS_ONE_BY_ONE = 32

# Which facts everybody may find.
PUBLIC_LIVE = "owner IS NULL AND deleted = 0 AND superseded_by IS NULL"


def place_of(segment: Segment, number: int) -> int:
    """The row of an index that a passage or a fact has: both kinds are in one order."""
    return number * len(Segment) + segment


@frozen
class Change:
    """One row that comes into an index or goes out of it; `text` is what stands there for it.

    `tenant` is whose index of terms it is about, None for the parts of facts (`facts_text`).
    """

    tenant: int | None
    row: int
    text: str
    added: bool


class Indices:
    """The indices in the transaction of the writer's connection."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._run = connection.execute
        self._run_many = connection.executemany
        self._changes: list[Change] = []
        self._analyser = Analyser()

    def mark(self) -> int:
        """Where the changes stand, for `rewind`."""
        return len(self._changes)

    def rewind(self, mark: int) -> None:
        """Forget the changes made since `mark`."""
        del self._changes[mark:]

    def tenant(self, name: str) -> int:
        """The number of a tenant, which gets an index where it has none.

        Raises `InvalidArgument` where there are `MOST_TENANTS` of others.
        """
        found = self._run("SELECT id FROM tenants WHERE name = ?", (name,)).fetchone()
        if found:
            return int(found[0])
        (count,) = self._run("SELECT count(*) FROM tenants").fetchone()
        if count >= MOST_TENANTS:
            raise InvalidArgument(f"there are {count} tenants and no more are taken", data={"param": "tenant_id"})
        number = self._run("INSERT INTO tenants (name) VALUES (?)", (name,)).lastrowid or 0
        self._run(_create(number))
        return number

    def change_text(self, tenant: int, place: int, text: str, *, added: bool) -> None:
        """Make a text findable by its terms, or no longer. What goes has to be the very text that came."""
        self.change_terms(tenant, place, self._analyser.terms(text), added=added)

    def change_terms(self, tenant: int, place: int, terms: str, *, added: bool) -> None:
        """The same for a text whose terms are known."""
        self._changes.append(Change(tenant, place, terms, added))

    def change_parts(self, row: int, text: str, *, added: bool) -> None:
        """Make a fact findable by parts of its words, or no longer."""
        self._changes.append(Change(None, row, text, added))

    def write(self) -> None:
        """Write all changes, in the order of rows; what came and went meanwhile never was."""
        added: dict[tuple[int | None, int], Change] = {}
        removed: list[Change] = []
        for change in self._changes:
            if change.added:
                added[change.tenant, change.row] = change
            elif added.pop((change.tenant, change.row), None) is None:
                removed.append(change)
        self._changes.clear()
        for tenant, changes in _by_tenant(removed).items():
            if tenant is None:
                self._run_many("DELETE FROM facts_text WHERE rowid = ?", [(change.row,) for change in changes])
            else:
                self._insert(
                    f"index_{tenant} (index_{tenant}, rowid, terms)", [("delete", *row) for row in _rows(changes)]
                )
                self._count(tenant, changes, -1)
        for tenant, changes in _by_tenant(added.values()).items():
            if tenant is None:
                self._insert("facts_text (rowid, text)", _rows(changes))
            else:
                self._insert(f"index_{tenant} (rowid, terms)", _rows(changes))
                self._count(tenant, changes, 1)

    def _insert(self, into: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Insert rows into an index: many in one step, few one by one, since FTS5 ends such a step with a segment."""
        if len(rows) > ROWS_ONE_BY_ONE:
            self._run(*insertion(into, rows))
        else:
            self._run_many(f"INSERT INTO {into} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    def _count(self, tenant: int, changes: Sequence[Change], sign: int) -> None:
        terms = sum(change.text.count(" ") + 1 for change in changes)
        self._run(
            "UPDATE tenants SET passages = passages + ?, terms = terms + ? WHERE id = ?",
            (sign * len(changes), sign * terms, tenant),
        )


def _by_tenant(changes: Iterable[Change]) -> dict[int | None, list[Change]]:
    """The changes of each index, in the order of rows."""
    groups: dict[int | None, list[Change]] = {}
    for change in sorted(changes, key=lambda change: change.row):
        groups.setdefault(change.tenant, []).append(change)
    return groups


def insertion(into: str, rows: Sequence[tuple[object, ...]]) -> tuple[str, tuple[str]]:
    """The statement that inserts rows of JSON values, and its parameter.

    It is one step of SQLite's for all of them, in which Python's other threads go on; with `executemany`, the writer
    would have to get the interpreter back for every row.
    """
    values = ", ".join(f"json_extract(value, '$[{place}]')" for place in range(len(rows[0])))
    return f"INSERT INTO {into} SELECT {values} FROM json_each(?)", (msgspec.json.encode(rows).decode(),)


def _rows(changes: Sequence[Change]) -> list[tuple[object, ...]]:
    return [(change.row, change.text) for change in changes]


def bring_up_to_date(connection: sqlite3.Connection) -> None:
    """Make the indices of terms again where another analysis made them. Breaking off costs only the work done."""
    run = connection.execute
    (version,) = run("SELECT analysis FROM retrieval").fetchone()
    if version == ANALYSIS:
        return
    indices = Indices(connection)
    with _transaction(connection):
        run("UPDATE retrieval SET analysis = NULL")
        run("UPDATE tenants SET passages = 0, terms = 0")
        for name in [tenant for (tenant,) in run("SELECT DISTINCT tenant FROM facts")]:
            indices.tenant(name)
        for (number,) in run("SELECT id FROM tenants").fetchall():
            run(f"DROP TABLE IF EXISTS index_{number}")
            run(_create(number))
    for texts in (_texts_of_passages, _texts_of_facts):
        last = -1
        while found := texts(connection, last):
            with _transaction(connection):
                for tenant, number, text in found:
                    indices.change_text(tenant, place_of(_SEGMENTS[texts], number), text, added=True)
                    last = number
                indices.write()
    with _transaction(connection):
        run("UPDATE retrieval SET analysis = ?", (ANALYSIS,))


def _texts_of_passages(connection: sqlite3.Connection, behind: int) -> list[tuple[int, int, str]]:
    """The next tenants, numbers and texts of passages."""
    rows = connection.execute(
        "SELECT tenant, passages.id, text, iif(passages.id = first, title, NULL) FROM passages "
        f"JOIN documents ON documents.id = document WHERE passages.id > ? ORDER BY passages.id LIMIT {_CHUNK}",
        (behind,),
    )
    return [(tenant, number, passage_text(text, title)) for tenant, number, text, title in rows]


def _texts_of_facts(connection: sqlite3.Connection, behind: int) -> list[tuple[int, int, str]]:
    """The next tenants, numbers and texts of public live facts."""
    rows = connection.execute(
        "SELECT tenants.id, seq, shown, key, value FROM facts JOIN tenants ON name = tenant "
        f"WHERE seq > ? AND {PUBLIC_LIVE} ORDER BY seq LIMIT {_CHUNK}",
        (behind,),
    )
    return [(tenant, seq, fact_text(*names)) for tenant, seq, *names in rows]


_SEGMENTS = {_texts_of_passages: Segment.DOCUMENTS, _texts_of_facts: Segment.FACTS}


def fact_text(entity: str, key: str, value: str) -> str:
    """What of a fact is looked through and read."""
    return f"{entity} {key} = {value}"


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _create(tenant: int) -> str:
    return f"CREATE VIRTUAL TABLE index_{tenant} USING fts5 (terms, content = '', tokenize = \"{_TOKENIZER}\")"
