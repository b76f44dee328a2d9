"""What random requests are put together from: for each part, forms the grammar has, and forms close to it.

`%d` and `%x` stand for a length. What is listed twice comes twice as often.
"""

from __future__ import annotations

Table = tuple[bytes, ...]

METHODS: Table = (b"GET", b"GET", b"POST", b"POST", b"POST", b"PUT", b"HEAD", b"DELETE", b"OPTIONS", b"PATCH", b"QUERY")
ODD_METHODS: Table = (
    *(b"get", b"CONNECT", b"TRACE", b"M-SEARCH", b"PRI", b"SETUP", b"FOO", b"G@T", b"", b" GET", b"\r\nGET", b"\nGET"),
    *(b"A" * 20, b"A" * 21, b"GET\t", b"GET\x00", b"\x16\x03\x01", b"P\xc3\x96ST"),
)
TARGETS: Table = (
    *(b"/", b"/", b"/mcp", b"/mcp", b"/a/../b", b"//x", b"/%e2%82%ac", b"/?", b"/;a=b", b"/v1/facts?key=b%20c"),
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
HOSTS: Table = (b"Host: a", b"Host: a", b"host: 127.0.0.1:14801", b"HOST:[::1]:80", b"Host:", b"Host: a \t")
ODD_HOSTS: Table = (
    *(b"X: a", b"Host: a\r\nHost: a", b"Host: a\r\nhost: b", b"Host : a", b"Host: a, b", b"Host: a b", b"Host: a/b"),
    *(b"Host: u@a", b"Host: a:b", b"Host: [::1", b"Hos\xadt: a", b"Host\x00: a", b" Host: a", b"Host: \xe4"),
)
FIELDS: Table = (
    *(b"Accept: application/json, text/event-stream", b"content-type: application/json", b"X-Empty:", b"a:b"),
    *(b"Cookie: a=b; c=d", b"X-Blanks: \t a \t b\t ", b"X-Latin: \xe4\xff", b"Via: 1.1 a, 1.0 b", b"Mcp-Session-Id: 1"),
    *(b"Connection: close", b"Connection: keep-alive", b"Connection: TE, Close", b"connection:,keep-alive , x"),
    *(b"Expect: 100-continue", b"Upgrade: h2c\r\nConnection: upgrade", b"Upgrade: websocket", b"Trailer: x"),
)
ODD_FIELDS: Table = (
    *(b"X Y: a", b"X : a", b"X\t: a", b": a", b" X: a", b"\tX: a", b"X", b"", b"X:\r\n", b"X(): a", b"\x85: a"),
    *(b"X: a\r\n b", b"X: a\r\n\tb", b"X: a\nY: b", b"X: a\rY: b", b"X: a\r", b"X\x80: a"),
    *(b"X: \x00", b"X: \x7f", b"X: \x01", b"X: a\x0b", b"X: a\x0c", b"Connection: close\x0b"),
    *(b"Expect: 200-ok", b"Expect: 100-continue, x", b"Expect:", b"Upgrade:"),
)
LENGTHS: Table = (b"%d",)
ODD_LENGTHS: Table = (
    *(b"%d, %d", b"%d,%d", b"+%d", b"-%d", b"0x%x", b"%d.0", b"%d ;", b"", b" ", b"%d %d", b"1%d", b"%d_0", b"%dx"),
    *(b"\x0b%d", b"%d\x0c", b"\t%d", b"%d\xa0", b"\xb2", b"00%d", b"0000000000000000000%d"),
    *(b"99999999999999999999", b"9223372036854775807", b"18446744073709551616"),
    *(b"%d\r\nContent-Length: %d", b"%d\r\nContent-Length: 1%d", b"%d\r\n Content-Length: %d"),
    *(b"%d\nContent-Length: %d", b"%d\r\nContent-Length:"),
    *(b"%d\r\nTransfer-Encoding: chunked", b"%d\r\nTransfer-Encoding:"),
)
CODINGS: Table = (b"chunked",)
ODD_CODINGS: Table = (
    *(b"Chunked", b"CHUNKED \t", b"chunked, chunked", b"gzip", b"gzip, chunked", b"chunked, gzip", b"identity", b""),
    *(b"chunked,", b",chunked", b"xchunked", b"chunkedx", b"chunked;q=1", b'"chunked"', b"\x0bchunked", b"chunked\x0b"),
    *(b"\r\n chunked", b"chun ked", b"chunked\x00", b"chunked\r\nContent-Length: 0", b"chunked\r\nContent-Length: 5"),
    *(b"chunked\r\nTransfer-Encoding: chunked", b"chunked\r\nTransfer-Encoding: identity"),
    b"identity\r\nTransfer-Encoding: chunked",
)
SIZES: Table = (b"%x", b"%x", b"%x", b"%X", b"0%x", b"000%x", b"%x;a", b"%x;a=b;c", b'%x;a="b c"')
ODD_SIZES: Table = (
    *(b"0x%x", b" %x", b"%x ", b"%x\t", b"+%x", b"-%x", b"", b"g", b"%xh", b"%x\r", b"%x\x0b"),
    *(b"%x;", b"%x ;a", b"%x; a=b", b"%x;a=b\n", b"%x;a\rb", b"%x;\x00", b"%x;\xff"),
    *(b"0000000000000000%x", b"ffffffffffffffff%x", b"fffffffffffffff%x"),
)
LINE_ENDS: Table = (b"\r\n",)
ODD_LINE_ENDS: Table = (b"\n", b"\r", b"", b"\r\n\r\n", b"x\r\n", b"\n\r")
TRAILERS: Table = (b"\r\n", b"\r\n", b"\r\n", b"X: a\r\n\r\n", b"X-A: b\r\nX-C:\td\r\n\r\n")
ODD_TRAILERS: Table = (
    *(b"\n", b"\r", b"", b"X: a\n\r\n", b" X: a\r\n\r\n", b"X : a\r\n\r\n", b"X: a\r\n b\r\n\r\n", b"X\r\n\r\n"),
    *(b"\rX\r\n\r\n", b"X: \x00\r\n\r\n", b"Host: b\r\n\r\n", b"Connection: close\r\n\r\n", b"Upgrade: x\r\n\r\n"),
    *(b"Content-Length: 5\r\n\r\n", b"Content-Length: x\r\n\r\n"),
    *(b"Transfer-Encoding: chunked\r\n\r\n", b"Transfer-Encoding: gzip\r\n\r\n"),
)
BODIES: Table = (
    *(b"hello", b"a", b"{}", b'{"jsonrpc":"2.0","id":1}', b"\r\n\r\n", b"0\r\n\r\n", b"\n" * 9),
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
)
INSERTS: Table = (
    *(b"\r\n", b"\n", b"\r", b" ", b"\t", b"\x00", b":", b",", b";", b"0", b"#", b"\xff", b"\x0b"),
    *(b"\r\n\r\n", b"0\r\n\r\n", b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: b\r\n"),
    *(b"Connection: close\r\n", b"Upgrade: x\r\n", b"Expect: 100-continue\r\n"),
)
