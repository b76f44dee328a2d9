"""Bytes out of responses: the sending half of an HTTP/1 connection, without I/O (RFC 9112)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from functools import lru_cache
from http import HTTPStatus

Fields = Iterable[tuple[bytes, bytes]]

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
# Fields that are the server's to say. An application's are left out; that it wants to close is heeded.
_OURS = frozenset({b"connection", b"date", b"server", b"transfer-encoding"})
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

# Fields whose value belongs to one session. Kept, it would outlive that, and pin the memory that it was made in.
_PASSING = frozenset({b"mcp-session-id"})
KEPT_FIELDS = 1024
LONGEST_KEPT_VALUE = 128


class Misuse(RuntimeError):
    """The application broke ASGI or HTTP: a bug, and the connection is closed."""


class Framing(Enum):
    """How the peer knows where the body ends."""

    LENGTH = auto()
    CHUNKED = auto()
    CLOSE = auto()
    NO_BODY = auto()


class State(Enum):
    """How far a response is. Before `SENDING` no byte of it has been given out, also after a `Misuse`."""

    WAITING = auto()
    STARTED = auto()
    SENDING = auto()
    DONE = auto()


class _Kind(Enum):
    """What a field means to the server."""

    PLAIN = auto()
    LENGTH = auto()
    CLOSE = auto()


@lru_cache(KEPT_FIELDS)  # applications send the same few fields again and again
def _field(name: bytes, value: bytes) -> tuple[_Kind, bytes]:
    """A field as a line, empty where it is the server's to send. Raises `Misuse` for one that would break the head."""
    line = b"%b: %b\r\n" % (name, value)
    if line.count(b"\n") != 1 or line.count(b"\r") != 1 or b"\0" in line:
        raise Misuse("a header field holds a line break or a NUL")
    lowered = name.lower()
    if lowered in _OURS:
        closes = lowered == b"connection" and b"close" in value.lower()
        return _Kind.CLOSE if closes else _Kind.PLAIN, b""
    if lowered == b"content-length":
        if not value.isdigit():
            raise Misuse("a Content-Length is a number")
        return _Kind.LENGTH, line
    return _Kind.PLAIN, line


class ResponseWriter:
    """One response: `start`, then `body` until the last part; each gives the bytes to send.

    The head is held back until the first part of the body is there, so that a small answer is one send. `keep_alive`
    says afterwards whether the connection can be used again.
    """

    __slots__ = ("_framing", "_head", "_is_head", "_left", "_version", "keep_alive", "state")

    def __init__(self, method: str, version: str, *, keep_alive: bool) -> None:
        self._is_head = method == "HEAD"
        self._version = version
        self.keep_alive = keep_alive
        self.state = State.WAITING
        self._framing = Framing.LENGTH
        self._left = 0
        self._head = b""

    def start(self, status: int, fields: Fields, stamp: bytes) -> None:
        """Take the head. `stamp` are field lines that every response has (`Date`, `Server`)."""
        if self.state is not State.WAITING:
            raise Misuse("a response starts once")
        if not 200 <= status <= 599:
            raise Misuse("a response has a final status: 200 to 599")
        lines = []
        length = None
        for name, value in fields:
            kept = len(value) <= LONGEST_KEPT_VALUE and name not in _PASSING
            kind, line = _field(name, value) if kept else _field.__wrapped__(name, value)
            if kind is _Kind.LENGTH:
                if length is not None:
                    raise Misuse("a response has one Content-Length")
                length = int(value)
                if status == 204:
                    continue  # RFC 9110 section 8.6
            elif kind is _Kind.CLOSE:
                self.keep_alive = False
            lines.append(line)
        text = b"".join(lines)
        self._head = (_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status) + stamp + text
        self._frame(status, length)
        self.state = State.STARTED

    def body(self, part: bytes, *, more: bool) -> bytes:
        """The bytes to send for a part of the body; with the first one, the head."""
        if self.state is State.STARTED:
            head = self._finish_head(part, more)
        elif self.state is State.SENDING:
            head = b""
        else:
            raise Misuse("a body is sent between the start and its end")
        data = self._encode(part, more)
        self._head = b""
        self.state = State.SENDING if more else State.DONE
        return head + data

    def abort(self) -> bytes:
        """What ends an unfinished stream properly, where its framing has such a thing."""
        ended = LAST_CHUNK if self.state is State.SENDING and self._framing is Framing.CHUNKED else b""
        self.keep_alive = False
        self.state = State.DONE
        return ended

    def _frame(self, status: int, length: int | None) -> None:
        if status in (204, 304):
            self._framing = Framing.NO_BODY
        elif length is None:
            self._framing = Framing.CHUNKED  # unless the first part is the last, or the peer knows no chunks
        else:
            self._left = length

    def _finish_head(self, part: bytes, more: bool) -> bytes:
        """Add what depends on the first part: how the body is framed, and what becomes of the connection."""
        framing = b""
        if self._framing is Framing.CHUNKED:
            if not more:
                self._framing = Framing.LENGTH
                self._left = len(part)
                if part or not self._is_head:  # an answer to HEAD may have been left empty
                    framing = b"content-length: %d\r\n" % len(part)
            elif self._version == "1.0":
                self._framing = Framing.CLOSE
                self.keep_alive = False
            else:
                framing = b"transfer-encoding: chunked\r\n"
        if self._is_head:
            self._framing = Framing.NO_BODY
        connection = b""
        if not self.keep_alive:
            connection = b"connection: close\r\n"
        elif self._version == "1.0":
            connection = b"connection: keep-alive\r\n"
        return b"%b%b%b\r\n" % (self._head, framing, connection)

    def _encode(self, part: bytes, more: bool) -> bytes:
        if self._framing is Framing.LENGTH:
            left = self._left - len(part)
            if left < 0 or (left and not more):
                self.keep_alive = False
                raise Misuse("the body is not as long as its Content-Length says")
            self._left = left
            return part
        if self._framing is Framing.CHUNKED:
            chunk = b"%x\r\n%b\r\n" % (len(part), part) if part else b""
            return chunk if more else chunk + LAST_CHUNK
        return part if self._framing is Framing.CLOSE else b""
