"""A chunked body (RFC 9112 section 7.1): its framing lines are held to the grammar, which llhttp reads more generously,
and then llhttp takes it apart.
"""

from __future__ import annotations

import re
from enum import Enum, auto

import httptools

from crux.transport.wire.head import FIELD_LINE, TOKEN, BadRequest, HeadLimits, feed

LONGEST_FRAMING_LINE = 1024
_QUOTED = rb'"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*"'
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})(?:;%b(?:=(?:%b|%b))?)*\r\n" % (TOKEN, TOKEN, _QUOTED))
_TRAILER_LINE = re.compile(rb"(?:%b|\r\n)" % FIELD_LINE)
# llhttp is given this in place of the request's own head: one that asks for an upgrade has no body, to llhttp.
_ANY_HEAD = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"


class _Next(Enum):
    """What the next bytes are."""

    SIZE = auto()
    DATA = auto()
    TRAILER = auto()
    NOTHING = auto()


class ChunkedBody:
    """Decodes one body. A trailer's fields are checked and dropped (RFC 9110 section 6.5.1)."""

    __slots__ = ("_left", "_limits", "_next", "_parser", "_parts", "on_body")

    def __init__(self, limits: HeadLimits) -> None:
        self._limits = limits
        self._next = _Next.SIZE
        self._left = 0
        self._parts: list[bytes] = []
        self.on_body = self._parts.append  # called by llhttp
        self._parser = httptools.HttpRequestParser(self)
        feed(self._parser, _ANY_HEAD)

    @property
    def ended(self) -> bool:
        """Whether the last chunk and the trailer have come."""
        return self._next is _Next.NOTHING

    def read(self, data: bytes) -> tuple[bytes, int]:
        """What `data` holds of the body, and how many bytes of it were used: an unfinished line is to be given again.

        Raises `BadRequest`, after which there is no more to read.
        """
        used = 0
        while used < len(data) and not self.ended:
            if self._next is _Next.DATA:
                piece = data[used : used + self._left]
                self._left -= len(piece)
                if not self._left:
                    self._next = _Next.SIZE
            else:
                piece = self._framing_line(data, used)
                if not piece:
                    break
            feed(self._parser, piece)
            used += len(piece)
        body = b"".join(self._parts)
        self._parts.clear()
        return body, used

    def _framing_line(self, data: bytes, start: int) -> bytes:
        """The line that begins at `start`, once it is whole; else nothing."""
        line = data[start : data.find(b"\n", start, start + LONGEST_FRAMING_LINE) + 1]
        if not line:
            if len(data) - start >= LONGEST_FRAMING_LINE:
                raise BadRequest(400, f"a line of a chunked body has more than {LONGEST_FRAMING_LINE} bytes")
        elif self._next is _Next.SIZE:
            self._take_size(line)
        else:
            self._take_trailer(line)
        return line

    def _take_size(self, line: bytes) -> None:
        found = _SIZE_LINE.fullmatch(line)
        if found is None:
            raise BadRequest(400, "a chunk's size line breaks the grammar of RFC 9112")
        size = int(found[1], 16)
        if size:
            self._next = _Next.DATA
            self._left = size + len(b"\r\n")  # which llhttp checks
        else:
            self._next = _Next.TRAILER
            self._left = self._limits.bytes

    def _take_trailer(self, line: bytes) -> None:
        if _TRAILER_LINE.fullmatch(line) is None:
            raise BadRequest(400, "a trailer line breaks the grammar of RFC 9112")
        self._left -= len(line)
        if self._left < 0:
            raise BadRequest(431, f"the trailer has more than {self._limits.bytes} bytes")
        if line == b"\r\n":
            self._next = _Next.NOTHING
