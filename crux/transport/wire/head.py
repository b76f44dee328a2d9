"""The head of a request: a strict grammar first, then llhttp, then what it means (RFC 9112).

The grammar leaves no room for the readings that differ between implementations and make request smuggling possible:
bare line feeds, folded lines, blanks around names, control bytes. What passes it is parsed by llhttp (httptools).
"""

from __future__ import annotations

import re
from urllib.parse import unquote

import httptools
from attrs import frozen

Fields = tuple[tuple[bytes, bytes], ...]

TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
FIELD_LINE = TOKEN + rb":[\t \x21-\x7e\x80-\xff]*\r\n"
_METHOD = rb"[A-Z-]{1,20}"
_HEAD = re.compile(rb"(%b) ([\x21-\x7e]+) HTTP/([0-9]\.[0-9])\r\n(?:%b)*\r\n" % (_METHOD, FIELD_LINE))
_BEGINNING = re.compile(rb"%b(?: |\Z)" % _METHOD)
_NOT_IN_A_HEAD = re.compile(rb"[^\t\r\n\x20-\x7e\x80-\xff]|\r[^\n]|(?<!\r)\n")
_ABSOLUTE_FORM = re.compile(rb"https?://(?=[^:/?#])([^/?#]+)([^#]*)", re.IGNORECASE)
_AUTHORITY = re.compile(rb"(?:\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._~!$&'()*+,;=%-]*)(?::[0-9]*)?")

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
    fields: Fields
    length: int
    keep_alive: bool
    expects_continue: bool


class _Fields:
    """What llhttp calls back with."""

    def __init__(self) -> None:
        self.found: list[tuple[bytes, bytes]] = []

    def on_header(self, name: bytes, value: bytes) -> None:
        self.found.append((name.lower(), value.strip(b" \t")))


def feed(parser: httptools.HttpRequestParser, data: bytes) -> None:
    """Give llhttp bytes. Raises `BadRequest` for what it refuses."""
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        pass  # an upgrade that nobody takes up leaves an ordinary request
    except httptools.HttpParserInvalidMethodError:
        raise BadRequest(501, "the method is not one that is known") from None
    except httptools.HttpParserError as error:
        raise BadRequest(400, f"malformed HTTP: {error}") from None


def check_unfinished(begun: bytes, searched: int, limits: HeadLimits) -> None:
    """Refuse early, as soon as a head that has only begun can never become one, or has grown too long.

    The refusal is the one that the whole head would meet, so that it makes no difference how the bytes are cut. Those
    before `searched` have been looked at. Raises `BadRequest`.
    """
    if begun and (_BEGINNING.match(begun) is None or _NOT_IN_A_HEAD.search(begun, searched, limits.bytes)):
        raise BadRequest(400, "this is no HTTP/1 request, or its head holds bytes that none may hold")
    if len(begun) > limits.bytes:
        raise BadRequest(431, f"the head has more than {limits.bytes} bytes")


def read_head(raw: bytes, limits: HeadLimits) -> Head:
    """The head in `raw`, which ends with its blank line. Raises `BadRequest`."""
    line = _HEAD.fullmatch(raw)
    if line is None:
        raise BadRequest(400, "the head breaks the grammar of RFC 9112")
    method, target, version = line[1].decode("ascii"), line[2], line[3].decode("ascii")
    if version not in ("1.0", "1.1"):
        raise BadRequest(505, "the versions that are spoken are HTTP/1.0 and HTTP/1.1")
    fields = _read_fields(raw, limits)
    if method == "CONNECT":
        raise BadRequest(501, "this is no proxy")
    host, raw_path, query = _split(method, target)
    _check_hosts(fields, version, host)
    if host is not None:
        fields = ((b"host", host), *(field for field in fields if field[0] != b"host"))
    text = raw_path.decode("ascii")
    return Head(
        method=method,
        version=version,
        path=unquote(text) if "%" in text else text,
        raw_path=raw_path,
        query=query,
        fields=fields,
        length=_length(fields, version),
        keep_alive=_keep_alive(fields, version),
        expects_continue=_expects_continue(fields) and version == "1.1",
    )


def _read_fields(raw: bytes, limits: HeadLimits) -> Fields:
    fields = _Fields()
    feed(httptools.HttpRequestParser(fields), raw)
    if len(fields.found) > limits.fields:
        raise BadRequest(431, f"the head has more than {limits.fields} fields")
    return tuple(fields.found)


def _values(fields: Fields, wanted: bytes) -> list[bytes]:
    return [value for name, value in fields if name == wanted]


def _check_hosts(fields: Fields, version: str, of_target: bytes | None) -> None:
    hosts = _values(fields, b"host")
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        raise BadRequest(400, "a request has exactly one Host (RFC 9112 section 3.2)")
    if of_target is not None:
        hosts.append(of_target)
    if not all(map(_AUTHORITY.fullmatch, hosts)):
        raise BadRequest(400, "a host is a name or an address, and perhaps a port")


def _length(fields: Fields, version: str) -> int:
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


def _keep_alive(fields: Fields, version: str) -> bool:
    """Whether the peer wants the connection to last (RFC 9112 section 9.3)."""
    options = {option.strip(b" \t") for value in _values(fields, b"connection") for option in value.lower().split(b",")}
    return b"close" not in options and (version == "1.1" or b"keep-alive" in options)


def _expects_continue(fields: Fields) -> bool:
    expectations = [value.lower() for value in _values(fields, b"expect")]
    if expectations and expectations != [b"100-continue"]:
        raise BadRequest(417, "the only expectation that is met is 100-continue")
    return bool(expectations)


def _split(method: str, target: bytes) -> tuple[bytes | None, bytes, bytes]:
    """A target's host, path and query. An absolute one says the host, whatever the field says (RFC 9112 section
    3.2.2); `*` is for OPTIONS alone (section 3.2.4)."""
    host = None
    if not target.startswith(b"/") and (target != b"*" or method != "OPTIONS"):
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
