"""Random HTTP/1 requests: by the grammar, nearly by it, and mutated."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

Table = Sequence[bytes]

METHODS: Table = (b"GET", b"GET", b"POST", b"POST", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"QUERY")
ODD_METHODS: Table = (
    *(b"get", b"CONNECT", b"TRACE", b"M-SEARCH", b"PRI", b"SETUP", b"FOO", b"G@T", b"", b" GET", b"\r\nGET", b"\nGET"),
    *(b"A" * 20, b"A" * 21, b"GET\t", b"GET\x00", b"\x16\x03\x01", b"P\xc3\x96ST"),
)
TARGETS: Table = (
    *(b"/", b"/", b"/mcp", b"/mcp", b"/v1/facts?entity=a&key=b%20c", b"/a/../b", b"//x", b"/%e2%82%ac", b"/?", b"/;a=b"),
    *(b"http://a.example/x?y", b"HTTP://[::1]:80", b"https://a?b=/c", b"*"),
)
ODD_TARGETS: Table = (
    *(b"", b"a:80", b"mcp", b"/ x", b"/a\tb", b"/\xff", b"/\x7f", b"/a#b", b"*x", b"http://", b"http:///x", b"/\x00"),
    *(b"http://u:p@a/", b"ftp://a/", b"http://a b/", b"http://a#b", b"http://:80/", b'/"<>\\^`{|}', b"  /", b"http:/a"),
)
VERSIONS: Table = (b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0")
ODD_VERSIONS: Table = (
    *(b"HTTP/1.2", b"HTTP/2.0", b"HTTP/0.9", b"http/1.1", b"HTTP/1.1 ", b"HTTP/1.10", b"HTTP/11", b"HTTP/1,1", b""),
    *(b"HTTP/ 1.1", b" HTTP/1.1", b"HTTP/1.1\r", b"ICE/1.0"),
)
FIELDS: Table = (
    *(b"Accept: application/json, text/event-stream", b"content-type: application/json", b"X-Empty:", b"a:b"),
    *(b"Cookie: a=b; c=d", b"X-Blanks: \t a \t b\t ", b"X-Latin: \xe4\xff", b"Via: 1.1 a, 1.0 b", b"Mcp-Session-Id: 1"),
    *(b"Connection: close", b"Connection: keep-alive", b"Connection: TE, Close", b"connection:,keep-alive , x"),
    *(b"Expect: 100-continue", b"Upgrade: h2c\r\nConnection: upgrade", b"Upgrade: websocket", b"Trailer: x"),
)
ODD_FIELDS: Table = (
    *(b"X Y: a", b"X : a", b"X\t: a", b": a", b" X: a", b"\tX: a", b"X", b"", b"X: a\r\n b", b"X: a\r\n\tb", b"X: a\nY: b"),
    *(b"X: a\rY: b", b"X: \x00", b"X: \x7f", b"X: \x01", b"X: a\x0b", b"X: a\x0c", b"X\x80: a", b"X(): a", b"X: a\r"),
    *(b"X:\r\n", b"Expect: 200-ok", b"Expect: 100-continue, x", b"Expect:", b"Upgrade:", b"Connection: close\x0b", b"\x85: a"),
)
HOSTS: Table = (b"Host: a", b"Host: a", b"host: 127.0.0.1:14801", b"HOST:[::1]:80", b"Host:", b"Host: a \t")
ODD_HOSTS: Table = (
    *(b"X: a", b"Host: a\r\nHost: a", b"Host: a\r\nhost: b", b"Host : a", b"Host: a, b", b"Host: a b", b"Host: a/b"),
    *(b"Host: u@a", b"Host: a:b", b"Host: [::1", b"Hos\xadt: a", b"Host\x00: a", b" Host: a", b"Host: \xe4"),
)
ODD_LENGTHS: Table = (
    *(b"%d, %d", b"%d,%d", b"+%d", b"-%d", b"0x%x", b"%d.0", b"%d ;", b"", b" ", b"\x0b%d", b"%d\x0c", b"%d %d", b"1%d", b"%d_0"),
    *(b"00%d", b"0000000000000000000%d", b"99999999999999999999", b"9223372036854775807", b"18446744073709551616", b"%dx"),
    *(b"%d\r\nContent-Length: %d", b"%d\r\nContent-Length: 1%d", b"%d\r\n Content-Length: %d", b"%d\xa0", b"\xb2", b"\t%d"),
    *(b"%d\r\nContent-Length:", b"%d\nContent-Length: %d", b"%d\r\nTransfer-Encoding: chunked", b"%d\r\nTransfer-Encoding:"),
)
ODD_CODINGS: Table = (
    *(b"Chunked", b"CHUNKED \t", b"chunked, chunked", b"gzip", b"gzip, chunked", b"chunked, gzip", b"identity", b""),
    *(b"chunked,", b",chunked", b"xchunked", b"chunkedx", b"chunked;q=1", b'"chunked"', b"\x0bchunked", b"chunked\x0b"),
    *(b"chunked\r\nTransfer-Encoding: chunked", b"chunked\r\nTransfer-Encoding: identity", b"chunked\r\nContent-Length: 0"),
    *(b"chunked\r\nContent-Length: 5", b"\r\n chunked", b"chun ked", b"chunked\x00", b"identity\r\nTransfer-Encoding: chunked"),
)
SIZES: Table = (b"%x", b"%x", b"%x", b"%X", b"0%x", b"000%x", b"%x;a", b"%x;a=b;c", b'%x;a="b c"')
ODD_SIZES: Table = (
    *(b"0x%x", b" %x", b"%x ", b"%x\t", b"+%x", b"-%x", b"", b"g", b"%x;", b"%x ;a", b"%x; a=b", b"%x;a=b\n", b"%x;\x00"),
    *(b"0000000000000000%x", b"ffffffffffffffff%x", b"fffffffffffffff%x", b"%x\r", b"%x\x0b", b"%x;a\rb", b"%xh", b"%x;\xff"),
)
ENDS: Table = (b"\r\n", b"\r\n", b"\r\n", b"X: a\r\n\r\n", b"X-A: b\r\nX-C:\td\r\n\r\n")
ODD_ENDS: Table = (
    *(b"\n", b"\r", b"", b"X: a\n\r\n", b" X: a\r\n\r\n", b"X : a\r\n\r\n", b"X: a\r\n b\r\n\r\n", b"X\r\n\r\n", b"\rX\r\n\r\n"),
    *(b"Content-Length: 5\r\n\r\n", b"Content-Length: x\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n", b"X: \x00\r\n\r\n"),
    *(b"Transfer-Encoding: gzip\r\n\r\n", b"Host: b\r\n\r\n", b"Connection: close\r\n\r\n", b"Upgrade: x\r\n\r\n"),
)
BODIES: Table = (b"hello", b"a", b"{}", b'{"jsonrpc":"2.0","id":1}', b"\r\n\r\n", b"0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\n" * 9)
INSERTS: Table = (
    *(b"\r\n", b"\n", b"\r", b" ", b"\t", b"\x00", b":", b",", b";", b"0", b"\xff", b"\x0b", b"\r\n\r\n", b"0\r\n\r\n", b"#"),
    *(b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: b\r\n", b"Connection: close\r\n", b"Upgrade: x\r\n"),
)


class Requests:
    """An endless supply for one seed. `odds` is how likely each part of a request leaves the grammar."""

    def __init__(self, seed: int, corpus: Sequence[bytes], odds: float = 0.02) -> None:
        rng = Random(seed)  # noqa: S311 - nothing here is a secret
        self._random = rng.random
        self._corpus = corpus
        self._odds = odds

    def next(self) -> bytes:
        """One connection's worth of bytes: up to three requests, a third of them mutated."""
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

    def _pick(self, table: Table) -> bytes:
        return table[int(self._random() * len(table))]

    def _below(self, bound: int) -> int:
        return int(self._random() * bound)

    def _either(self, table: Table, odd: Table) -> bytes:
        return self._pick(odd if self._random() < self._odds else table)

    def _request(self) -> bytes:
        lines = [
            b" ".join(
                (
                    self._either(METHODS, ODD_METHODS),
                    self._either(TARGETS, ODD_TARGETS),
                    self._either(VERSIONS, ODD_VERSIONS),
                )
            ),
            self._either(HOSTS, ODD_HOSTS),
        ]
        while self._random() < 0.6:
            lines.append(self._either(FIELDS, ODD_FIELDS))
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
            body = self._pick(BODIES)
            length = b"%d"
            if self._random() < 3 * self._odds:
                length = self._pick(ODD_LENGTHS)
            return b"Content-Length: " + _filled(length, len(body)), body
        coding = b"chunked"
        if self._random() < 3 * self._odds:
            coding = self._pick(ODD_CODINGS)
        return b"Transfer-Encoding: " + coding, self._chunks()

    def _chunks(self) -> bytes:
        pieces = []
        while self._random() < 0.6:
            body = self._pick(BODIES)
            size = len(body)
            if self._random() < self._odds:
                size += self._below(5) - 2
            pieces += [
                _filled(self._either(SIZES, ODD_SIZES), size),
                self._either((b"\r\n",), (b"\n", b"\r", b"", b"\r\n\r\n")),
                body,
                self._either((b"\r\n",), (b"\n", b"\r", b"", b"\r\n\r\n", b"x\r\n")),
            ]
        pieces += [_filled(self._either(SIZES, ODD_SIZES), 0), b"\r\n", self._either(ENDS, ODD_ENDS)]
        return b"".join(pieces)

    def _mutate(self, data: bytes) -> bytes:
        start = self._below(len(data) + 1)
        end = start + 1 + self._below(4)
        how = self._below(7)
        if how == 0:
            return data[:start] + data[end:]
        if how == 1:
            return data[:start] + self._pick(INSERTS) + data[start:]
        if how == 2:
            return data[:end] + data[start:]
        if how == 3:
            return data[:start] + bytes((self._below(256),)) + data[start + 1 :]
        if how == 4:
            return data[:start] + data[start : start + 1].swapcase() + data[start + 1 :]
        if how == 5:
            other = self._below(len(data) + 1)
            one, two = min(start, other), max(start, other)
            return data[:one] + data[two : two + 1] + data[one + 1 : two] + data[one : one + 1] + data[two + 1 :]
        lines = data.split(b"\r\n")
        line = self._below(len(lines))
        lines.insert(self._below(len(lines)), lines.pop(line) if self._random() < 0.5 else lines[line])
        return b"\r\n".join(lines)

    def _splice(self, data: bytes, other: bytes) -> bytes:
        return data[: self._below(len(data))] + other[self._below(len(other)) :]


def _filled(form: bytes, number: int) -> bytes:
    return form % ((number,) * form.count(b"%"))
