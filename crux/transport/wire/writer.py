"""Bytes out of responses: the sending half of an HTTP/1 connection, without I/O (RFC 9112)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto
from http import HTTPStatus

Fields = Iterable[tuple[bytes, bytes]]

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


class Misuse(RuntimeError):
    """The application broke ASGI or HTTP: a bug, and the connection is closed."""


class Framing(Enum):
    """How the peer knows where the body ends."""

    LENGTH = auto()
    CHUNKED = auto()
    CLOSE = auto()
    NO_BODY = auto()


class State(Enum):
    """How far a response is."""

    WAITING = auto()
    STARTED = auto()
    SENDING = auto()
    DONE = auto()


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
        self._head: list[bytes] = []

    def start(self, status: int, fields: Fields, stamp: bytes) -> None:
        """Take the head. `stamp` are field lines that every response has (`Date`, `Server`)."""
        if self.state is not State.WAITING:
            raise Misuse("a response starts once")
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status, stamp]
        length = None
        for name, value in fields:
            lines.append(b"%b: %b\r\n" % (name, value))
            lowered = name.lower()
            if lowered == b"content-length":
                length = int(value)
            elif lowered == b"connection" and value.lower() == b"close":
                self.keep_alive = False
            elif lowered == b"transfer-encoding":
                raise Misuse("the server chooses the transfer coding")
        self._head = lines
        self._frame(status, length)
        self.state = State.STARTED

    def body(self, part: bytes, *, more: bool) -> bytes:
        """The bytes to send for a part of the body; with the first one, the head."""
        if self.state is State.STARTED:
            return self._first(part, more)
        if self.state is not State.SENDING:
            raise Misuse("a body is sent between the start and its end")
        return self._encode(part, more)

    def abort(self) -> bytes:
        """What ends an unfinished stream properly, where its framing has such a thing."""
        ended = LAST_CHUNK if self.state is State.SENDING and self._framing is Framing.CHUNKED else b""
        self.keep_alive = False
        self.state = State.DONE
        return ended

    def _frame(self, status: int, length: int | None) -> None:
        if status < 200 or status in (204, 304):
            self._framing = Framing.NO_BODY
        elif length is not None:
            self._left = length
            self._framing = Framing.NO_BODY if self._is_head else Framing.LENGTH
        else:
            self._left = -1  # known when the first part is: it may be the last
            self._framing = Framing.NO_BODY if self._is_head else Framing.CHUNKED

    def _first(self, part: bytes, more: bool) -> bytes:
        head = self._head
        if self._left < 0:
            if not more:
                head.append(b"content-length: %d\r\n" % len(part))
                self._left = len(part)
                if self._framing is Framing.CHUNKED:
                    self._framing = Framing.LENGTH
            elif self._framing is Framing.CHUNKED and self._version == "1.0":
                self._framing = Framing.CLOSE
                self.keep_alive = False
            elif self._framing is Framing.CHUNKED:
                head.append(b"transfer-encoding: chunked\r\n")
        if not self.keep_alive:
            head.append(b"connection: close\r\n")
        elif self._version == "1.0":
            head.append(b"connection: keep-alive\r\n")
        head.append(b"\r\n")
        lines = b"".join(head)
        ends = len(head) - 1 + head[1].count(b"\n")  # the stamp is several lines
        if lines.count(b"\n") != ends or lines.count(b"\r") != ends:
            raise Misuse("a header field holds a line break")
        self.state = State.SENDING
        self._head = []
        return lines + self._encode(part, more)

    def _encode(self, part: bytes, more: bool) -> bytes:
        if not more:
            self.state = State.DONE
        match self._framing:
            case Framing.LENGTH:
                self._left -= len(part)
                if self._left < 0 or (self._left and not more):
                    self.keep_alive = False
                    raise Misuse("the body is not as long as its Content-Length says")
                return part
            case Framing.CHUNKED:
                chunk = b"%x\r\n%b\r\n" % (len(part), part) if part else b""
                return chunk if more else chunk + LAST_CHUNK
            case Framing.CLOSE:
                return part
            case Framing.NO_BODY:
                return b""
