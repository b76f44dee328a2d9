"""Requests out of bytes: the receiving half of an HTTP/1 connection, without I/O.

A head ends where its blank line ends and a body where its framing says, so one request at a time is taken from the
bytes that came; what is pipelined behind it waits.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from crux.transport.wire.head import (
    CHUNKED,
    END_OF_HEAD,
    FIELD_LINE,
    BadRequest,
    Head,
    HeadLimits,
    Parsing,
    read_head,
)

_TRAILER_LINE = re.compile(rb"(?:" + FIELD_LINE + rb"|\r\n)")
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;[\t\x20-\x7e]*)?\r\n")
LONGEST_FRAMING_LINE = 1024


class Phase(Enum):
    """What the next bytes are."""

    HEAD = auto()
    BODY = auto()
    CHUNKS = auto()
    TRAILER = auto()


class RequestReader:
    """Takes bytes as they come and gives back one request after the other.

    `feed`, then `next_head` until it gives one; then `next_body` until it says that no more is to come; and again.
    Each raises `BadRequest`, after which nothing more can be read.
    """

    __slots__ = ("_buffer", "_last", "_left", "_limits", "_line", "_parsing", "_searched", "phase")

    def __init__(self, limits: HeadLimits) -> None:
        self.phase = Phase.HEAD
        self._limits = limits
        self._buffer = b""
        self._searched = 0
        self._left = 0
        self._parsing: Parsing | None = None
        self._line = b""
        # A client sends the same head again and again: what it says is worked out once.
        self._last: tuple[bytes, Head] | None = None

    @property
    def waiting(self) -> int:
        """How many bytes have come and not been taken."""
        return len(self._buffer)

    def feed(self, data: bytes) -> None:
        """Add what the peer sent."""
        self._buffer = self._buffer + data if self._buffer else data

    def next_head(self) -> Head | None:
        """The next request's head, once it is whole; only after the body before it has been taken."""
        buffer = self._buffer
        end = buffer.find(END_OF_HEAD, self._searched) + len(END_OF_HEAD)
        if end < len(END_OF_HEAD):
            self._check_unfinished(buffer)
            return None
        if end > self._limits.bytes:
            raise self._too_long("head")
        raw, self._buffer = buffer[:end], buffer[end:]
        self._searched = 0
        if self._last is not None and self._last[0] == raw:
            head = self._last[1]
        else:
            head, parsing = read_head(raw, self._limits)
            if head.length == CHUNKED:
                self._parsing = parsing
            else:
                self._last = (raw, head)
        if head.length:
            self.phase = Phase.CHUNKS if head.length == CHUNKED else Phase.BODY
            self._left = head.length
        return head

    def next_body(self) -> tuple[bytes, bool]:
        """The part of the body that has come, and whether more is to come. `(b"", True)`: feed more first."""
        if self.phase is Phase.HEAD:
            return b"", False
        if self.phase is not Phase.BODY:
            return self._next_chunks()
        part, self._buffer = self._buffer[: self._left], self._buffer[self._left :]
        self._left -= len(part)
        if not self._left:
            self.phase = Phase.HEAD
        return part, self._left > 0

    def skip_body(self) -> bool:
        """Throw away what has come of a body that nobody read; whether that was all of it."""
        part, more = self.next_body()
        while more and part:
            part, more = self.next_body()
        return not more

    def forget(self) -> None:
        """Let go of what only speeds up the next request: a connection that streams may have none."""
        self._last = None

    def _check_unfinished(self, buffer: bytes) -> None:
        """Refuse early what can never become a head, or has grown too long."""
        if len(buffer) > self._limits.bytes:
            raise self._too_long("head")
        if buffer.count(b"\n") != buffer.count(b"\r\n") or buffer.startswith(b"\r\n"):
            raise BadRequest(400, "lines of a head end with CR LF, and none is empty")
        self._searched = max(0, len(buffer) - len(END_OF_HEAD) + 1)

    def _next_chunks(self) -> tuple[bytes, bool]:
        """Feed the parser line by line, so that it stops exactly where the message ends."""
        parsing = self._parsing
        assert parsing is not None
        data, self._buffer = self._buffer, b""
        start = 0
        while start < len(data):
            end = data.find(b"\n", start) + 1 or len(data)
            piece = data[start:end]
            start = end
            parsing.chunk_began = False
            parsing.feed(piece)
            self._check_framing(piece, parsing.chunk_began)
            if parsing.complete:
                self.phase = Phase.HEAD
                self._parsing = None
                self._line = b""
                self._buffer = data[start:]
                return parsing.take(), False
        return parsing.take(), True

    def _check_framing(self, piece: bytes, chunk_began: bool) -> None:
        """Hold the framing lines of a chunked body to the grammar, which llhttp reads more generously."""
        # Of a line of data nothing is needed; a framing line is needed whole, and those are short.
        self._line = (self._line + piece)[: LONGEST_FRAMING_LINE + 1]
        if chunk_began:
            line = _CHUNK_LINE.fullmatch(self._line)
            if line is None:
                raise BadRequest(400, "a chunk's size line breaks the grammar of RFC 9112, or is too long")
            if not int(line[1], 16):
                self.phase = Phase.TRAILER
                self._left = self._limits.bytes
        elif self.phase is Phase.TRAILER:
            self._left -= len(piece)
            if self._left < 0:
                raise self._too_long("trailer")
            if piece.endswith(b"\n") and _TRAILER_LINE.fullmatch(self._line) is None:
                raise BadRequest(400, "a trailer line breaks the grammar of RFC 9112, or is too long")
        if piece.endswith(b"\n"):
            self._line = b""

    def _too_long(self, what: str) -> BadRequest:
        return BadRequest(431, f"the {what} has more than {self._limits.bytes} bytes")
