"""Random HTTP/1 requests: by the grammar, nearly by it, and mutated."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from fuzz import tables
from fuzz.tables import Table


class Requests:
    """An endless supply for one seed. `odds` is how likely each part of a request leaves the grammar."""

    def __init__(self, seed: int, corpus: Sequence[bytes], odds: float = 0.02) -> None:
        rng = Random(seed)  # noqa: S311 - nothing here is a secret
        self._random = rng.random
        self._corpus = corpus
        self._odds = odds

    def next(self) -> bytes:
        """One connection's worth of bytes: one request or more, mutated once or more in a third of all cases."""
        kind = self._random()
        data = self._request()
        while self._random() < 0.3:
            data += self._request()
        if kind < 0.1 and self._corpus:
            data = self._splice(data, self._pick(self._corpus))
        while kind < 0.35:
            data = self._mutate(data)
            kind = self._random()
        return data

    def _pick(self, table: Sequence[bytes]) -> bytes:
        return table[int(self._random() * len(table))]

    def _below(self, bound: int) -> int:
        return int(self._random() * bound)

    def _either(self, table: Table, odd: Table) -> bytes:
        return self._pick(odd if self._random() < self._odds else table)

    def _request(self) -> bytes:
        start = (
            self._either(tables.METHODS, tables.ODD_METHODS),
            self._either(tables.TARGETS, tables.ODD_TARGETS),
            self._either(tables.VERSIONS, tables.ODD_VERSIONS),
        )
        lines = [b" ".join(start), self._either(tables.HOSTS, tables.ODD_HOSTS)]
        while self._random() < 0.6:
            lines.append(self._either(tables.FIELDS, tables.ODD_FIELDS))
        field, body = self._framed()
        if field:
            lines.insert(1 + self._below(len(lines)), field)
        return b"%b\r\n\r\n%b" % (b"\r\n".join(lines), body)

    def _framed(self) -> tuple[bytes, bytes]:
        """A field that frames a body, and the body."""
        framing = self._random()
        if framing < 0.35:
            return b"", b""
        if framing < 0.65:
            body = self._pick(tables.BODIES)
            length = self._either(tables.LENGTHS, tables.ODD_LENGTHS)
            return b"Content-Length: " + _filled(length, len(body)), body
        coding = self._either(tables.CODINGS, tables.ODD_CODINGS)
        return b"Transfer-Encoding: " + coding, self._chunks()

    def _chunks(self) -> bytes:
        pieces = []
        while self._random() < 0.6:
            body = self._pick(tables.BODIES)
            size = len(body)
            if self._random() < self._odds:
                size = max(0, size + self._below(5) - 2)
            pieces += [
                _filled(self._either(tables.SIZES, tables.ODD_SIZES), size),
                self._either(tables.LINE_ENDS, tables.ODD_LINE_ENDS),
                body,
                self._either(tables.LINE_ENDS, tables.ODD_LINE_ENDS),
            ]
        pieces += [
            _filled(self._either(tables.SIZES, tables.ODD_SIZES), 0),
            self._either(tables.LINE_ENDS, tables.ODD_LINE_ENDS),
            self._either(tables.TRAILERS, tables.ODD_TRAILERS),
        ]
        return b"".join(pieces)

    def _mutate(self, data: bytes) -> bytes:
        at = self._below(len(data) + 1)
        before, byte, after = data[:at], data[at : at + 1], data[at + 1 :]
        match self._below(7):
            case 0:  # insert
                return before + self._pick(tables.INSERTS) + byte + after
            case 1:  # change
                return before + bytes((self._below(256),)) + after
            case 2:  # delete
                return before + after[self._below(4) :]
            case 3:  # duplicate
                return data[: at + self._below(9)] + byte + after
            case 4:  # swap
                return before + after[:1] + byte + after[1:]
            case 5:
                return before + byte.swapcase() + after
            case _:
                return self._move_line(data)

    def _move_line(self, data: bytes) -> bytes:
        """One line goes elsewhere, or stands there too."""
        lines = data.split(b"\r\n")
        line = self._below(len(lines))
        moved = lines[line] if self._random() < 0.5 else lines.pop(line)
        lines.insert(self._below(len(lines) + 1), moved)
        return b"\r\n".join(lines)

    def _splice(self, data: bytes, other: bytes) -> bytes:
        return data[: self._below(len(data))] + other[self._below(len(other)) :]


def _filled(form: bytes, number: int) -> bytes:
    return form % ((number,) * form.count(b"%"))
