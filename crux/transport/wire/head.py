"""The head of a request: a strict grammar first, then llhttp, then what it means (RFC 9112).

The grammar leaves no room for the readings that differ between implementations and make request smuggling possible:
bare line feeds, folded lines, blanks around names, control bytes. What passes it is parsed by llhttp (httptools).
"""

from __future__ import annotations

import re
from urllib.parse import unquote

import httptools
from attrs import frozen

TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
FIELD_LINE = TOKEN + rb":[\t \x21-\x7e\x80-\xff]*\r\n"
_HEAD = re.compile(rb"[A-Z-]+ [\x21-\x7e]+ HTTP/1\.[01]\r\n(?:" + FIELD_LINE + rb")*\r\n")
_ABSOLUTE_FORM = re.compile(rb"https?://([^/?#]+)([^#]*)", re.IGNORECASE)

END_OF_HEAD = b"\r\n\r\n"
CHUNKED = -1
_LENGTH_DIGITS = 19


class BadRequest(Exception):
    """The peer broke the protocol or a limit. It is answered with `status` and the connection closed."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


@frozen
class HeadLimits:
    """Bounds of a request's head: bytes in all, the blank line included, and number of fields."""

    bytes: int = 32 * 1024
    fields: int = 100


@frozen
class Head:
    """A request's head. `length` is the body's size in bytes, or `CHUNKED`; `fields` have lower-case names.

    `path` is percent-decoded; `raw_path` and `query` are as they were sent.
    """

    method: str
    version: str
    path: str
    raw_path: bytes
    query: bytes
    fields: list[tuple[bytes, bytes]]
    length: int
    keep_alive: bool
    expects_continue: bool


class Parsing:
    """One message under way: what llhttp calls back with, and the parser itself."""

    def __init__(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.target = b""
        self.fields: list[tuple[bytes, bytes]] = []
        self.complete = False
        self.chunk_began = False
        self._in_body = False
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> None:
        """Give llhttp more bytes. Raises `BadRequest` for what it refuses."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # an upgrade that nobody takes up leaves an ordinary request
        except httptools.HttpParserError as error:
            raise BadRequest(400, f"malformed HTTP: {error}") from None

    def take(self) -> bytes:
        """The part of the body that came since the last time."""
        parts, self._parts = self._parts, []
        return b"".join(parts)

    def on_url(self, target: bytes) -> None:
        self.target += target

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_body:  # a trailer's fields are not merged into the head (RFC 9110 section 6.5.1)
            self.fields.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        self._in_body = True

    def on_chunk_header(self) -> None:
        self.chunk_began = True

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        self.complete = True


def read_head(raw: bytes, limits: HeadLimits) -> tuple[Head, Parsing]:
    """The head in `raw`, which ends with its blank line, and the parser for the chunks that may follow.

    Raises `BadRequest`.
    """
    if _HEAD.fullmatch(raw) is None:
        raise BadRequest(400, "the head breaks the grammar of RFC 9112")
    parsing = Parsing()
    parsing.feed(raw)
    fields = parsing.fields
    if len(fields) > limits.fields:
        raise BadRequest(431, f"the head has more than {limits.fields} fields")
    parser = parsing.parser
    method = parser.get_method().decode("ascii")
    version = parser.get_http_version()
    if method == "CONNECT":
        raise BadRequest(501, "this is no proxy")
    host, raw_path, query = _split(parsing.target)
    _check_hosts(fields, version)
    if host is not None:
        fields = [(b"host", host), *(field for field in fields if field[0] != b"host")]
    text = raw_path.decode("ascii")
    head = Head(
        method=method,
        version=version,
        path=unquote(text) if "%" in text else text,
        raw_path=raw_path,
        query=query,
        fields=fields,
        length=_length(fields, version),
        keep_alive=parser.should_keep_alive(),
        expects_continue=_expects_continue(fields) and version == "1.1",
    )
    return head, parsing


def _values(fields: list[tuple[bytes, bytes]], wanted: bytes) -> list[bytes]:
    return [value for name, value in fields if name == wanted]


def _check_hosts(fields: list[tuple[bytes, bytes]], version: str) -> None:
    hosts = len(_values(fields, b"host"))
    if hosts > 1 or (not hosts and version == "1.1"):
        raise BadRequest(400, "a request has exactly one Host (RFC 9112 section 3.2)")


def _length(fields: list[tuple[bytes, bytes]], version: str) -> int:
    """The body's length; llhttp has refused two lengths, and a length beside a coding (RFC 9112 section 6.3)."""
    if codings := _values(fields, b"transfer-encoding"):
        if version == "1.0":
            raise BadRequest(400, "HTTP/1.0 has no Transfer-Encoding")
        if [coding.lower() for coding in codings] != [b"chunked"]:
            raise BadRequest(501, "the only transfer coding that is read is chunked")
        return CHUNKED
    lengths = _values(fields, b"content-length")
    if not lengths:
        return 0
    if len(lengths[0]) > _LENGTH_DIGITS:
        raise BadRequest(400, f"Content-Length has more than {_LENGTH_DIGITS} digits")
    return int(lengths[0])


def _expects_continue(fields: list[tuple[bytes, bytes]]) -> bool:
    expectations = [value.lower() for value in _values(fields, b"expect")]
    if expectations and expectations != [b"100-continue"]:
        raise BadRequest(417, "the only expectation that is met is 100-continue")
    return bool(expectations)


def _split(target: bytes) -> tuple[bytes | None, bytes, bytes]:
    """A target's host, path and query. An absolute one says the host, whatever the field says (RFC 9112 section
    3.2.2)."""
    host = None
    if not target.startswith(b"/") and target != b"*":
        absolute = _ABSOLUTE_FORM.fullmatch(target)
        if absolute is None:
            raise BadRequest(400, "the target is neither a path nor an http(s) URL")
        host, target = absolute[1], absolute[2]
        if not target.startswith(b"/"):
            target = b"/" + target
    if b"#" in target:
        raise BadRequest(400, "a target has no fragment")
    raw_path, _, query = target.partition(b"?")
    return host, raw_path, query
