"""Requests out of bytes: the receiving half of an HTTP/1 connection, without I/O.

A head ends where its blank line ends and a body where its framing says, so one request at a time is taken from the
bytes that came; what is pipelined behind it waits.
"""

from __future__ import annotations

from crux.transport.wire.chunks import ChunkedBody
from crux.transport.wire.head import CHUNKED, END_OF_HEAD, Head, HeadLimits, check_unfinished, read_head

# A connection keeps the head that it read last; longer ones are not worth the memory.
LONGEST_KEPT_HEAD = 4 * 1024


class RequestReader:
    """Takes bytes as they come and gives back one request after the other.

    `feed`, then `next_head` until it gives one; then `next_body` until it says that no more is to come; and again.
    Each raises `BadRequest`, after which nothing more can be read. How the bytes are cut makes no difference.
    """

    __slots__ = ("_buffer", "_chunks", "_last", "_left", "_limits", "_searched")

    def __init__(self, limits: HeadLimits) -> None:
        self._limits = limits
        self._buffer = b""
        self._searched = 0
        self._left = 0
        self._chunks: ChunkedBody | None = None
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
        if not len(END_OF_HEAD) <= end <= self._limits.bytes:
            check_unfinished(buffer, self._searched, self._limits)
            self._searched = max(0, len(buffer) - len(END_OF_HEAD) + 1)
            return None
        raw, self._buffer = buffer[:end], buffer[end:]
        self._searched = 0
        if self._last is not None and self._last[0] == raw:
            head = self._last[1]
        else:
            head = read_head(raw, self._limits)
            self._last = (raw, head) if end <= LONGEST_KEPT_HEAD else None
        if head.length == CHUNKED:
            self._chunks = ChunkedBody(self._limits)
        else:
            self._left = head.length
        return head

    def next_body(self) -> tuple[bytes, bool]:
        """The part of the body that has come, and whether more is to come. `(b"", True)`: feed more first."""
        chunks = self._chunks
        if chunks is None:
            part, self._buffer = self._buffer[: self._left], self._buffer[self._left :]
            self._left -= len(part)
            return part, self._left > 0
        part, used = chunks.read(self._buffer)
        self._buffer = self._buffer[used:]
        if chunks.ended:
            self._chunks = None
        return part, not chunks.ended

    def skip_body(self) -> bool:
        """Throw away what has come of a body that nobody read; whether that was all of it."""
        part, more = self.next_body()
        while more and part:
            part, more = self.next_body()
        return not more

    def forget(self) -> None:
        """Let go of what only speeds up the next request: a connection that streams may have none."""
        self._last = None
