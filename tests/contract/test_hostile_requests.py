"""Requests to the MCP port that no honest client sends, byte for byte, on both servers."""

from __future__ import annotations

import itertools
import json

import trio

from tests.serving import BOB, FACT, LIST, Serving, call_of, encoded, text_of

LISTING = encoded(LIST)
PATIENCE_S = 20


async def answers(daemon: Serving, request: bytes) -> bytes:
    """What comes back for `request`, sent as it is, until the daemon closes; also where it refuses to read it all."""
    heard = b""
    async with await trio.open_tcp_stream("127.0.0.1", daemon.port("mcp")) as peer, trio.open_nursery() as nursery:

        async def send() -> None:
            try:
                await peer.send_all(request)
            except trio.BrokenResourceError:
                return

        nursery.start_soon(send)
        with trio.fail_after(PATIENCE_S):
            try:
                async for part in peer:
                    heard += part
            except trio.BrokenResourceError:
                pass
        nursery.cancel_scope.cancel()
    return heard


def status_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


def request(*fields: bytes, target: bytes = b"/mcp", host: bytes | None = b"localhost", body: bytes = LISTING) -> bytes:
    hosts = () if host is None else (b"Host: " + host,)
    head = [b"POST " + target + b" HTTP/1.1", *hosts, b"Connection: close", b"Content-Length: %d" % len(body), *fields]
    return b"\r\n".join([*head, b"", body])


def stream_request(*fields: bytes, target: bytes = b"/mcp", host: bytes = b"localhost") -> bytes:
    head = [b"GET " + target + b" HTTP/1.1", b"Host: " + host, b"Connection: close", b"Accept: text/event-stream"]
    return b"\r\n".join([*head, *fields, b"", b""])


async def still_serves(daemon: Serving) -> None:
    assert b'"tools":[' in await answers(daemon, request(b"Authorization: Bearer " + BOB.encode()))
    assert await daemon.streams() == 0


# --- session ids

SESSION_IDS = {
    "empty": b"",
    "blanks": b" \t ",
    "129 characters": b"a" * 129,
    "a blank inside": b"a b",
    "a tab inside": b"a\tb",
    "a NUL": b"a\0b",
    "a carriage return": b"a\rX-Injected: yes",
    "a folded line": b"a\r\n b",
    "a folded header": b"a\r\n\tX-Injected: yes",
    "a delete": b"a\x7fb",
    "latin-1": b"\xe4",
    "utf-8": "ä".encode(),
    "no utf-8": b"\xff\xfe",
    "a list": b"a, a",
    "two": b"a\r\nMcp-Session-Id: b",
    "the same twice": b"a\r\nmcp-session-id: a",
    "quotes": b'"a"',
    "an escape": b"a%0d%0aX-Injected: yes",
}


async def test_a_session_id_of_another_form_is_a_400_and_opens_nothing(daemon: Serving) -> None:
    for case, value in SESSION_IDS.items():
        for sent in (request(b"Mcp-Session-Id: " + value), stream_request(b"Mcp-Session-Id: " + value)):
            answer = await answers(daemon, sent)
            assert status_of(answer) == 400, case
            assert b"injected" not in answer.lower(), case
    await still_serves(daemon)


async def test_a_session_id_carries_no_header_into_the_answer(daemon: Serving) -> None:
    for line_end in (b"\n", b"\r\n"):
        answer = await answers(daemon, request(b"Mcp-Session-Id: a" + line_end + b"X-Injected: yes"))
        assert status_of(answer) in (200, 400)
        assert b"injected" not in answer.lower()


# --- hosts, origins, targets

EVIL = b"evil.example"
FOREIGN = {
    "another host": (stream_request(host=EVIL), {421}),
    "a host with our port": (stream_request(host=EVIL + b":14801"), {421}),
    "a host that begins like ours": (stream_request(host=b"127.0.0.1.evil.example"), {421}),
    "a user at a host": (stream_request(host=b"127.0.0.1@evil.example"), {400, 421}),
    "no host": (request(host=None), {400}),
    "an empty host": (request(host=b""), {400, 421}),
    "two hosts": (stream_request(b"Host: localhost"), {400}),
    "two hosts, one foreign": (stream_request(b"Host: " + EVIL), {400}),
    "a list of hosts": (stream_request(host=b"localhost, evil.example"), {400, 421}),
    "a foreign target": (stream_request(target=b"http://evil.example/mcp"), {404, 421}),
    "a foreign target with our name in it": (stream_request(target=b"http://localhost@evil.example/mcp"), {400, 404}),
    "a foreign target with a fragment": (stream_request(target=b"http://evil.example#@localhost/mcp"), {400, 404}),
    "a target without scheme": (stream_request(target=b"//localhost/mcp"), {404}),
    "a target of another scheme": (stream_request(target=b"file:///mcp"), {400, 404}),
    "another host beside a name of ours": (stream_request(b"X-Forwarded-Host: localhost", host=EVIL), {421}),
    "a page": (stream_request(b"Origin: https://evil.example"), {403}),
    "a page without origin": (stream_request(b"Origin: null"), {403}),
    "a page with an empty origin": (stream_request(b"Origin:"), {403}),
    "a page of two origins": (stream_request(b"Origin: http://localhost", b"Origin: http://localhost"), {403}),
    "a page that begins like ours": (stream_request(b"Origin: http://localhost.evil.example"), {403}),
    "a page with a user": (stream_request(b"Origin: http://localhost@evil.example"), {403}),
    "a page that posts": (request(b"Origin: https://evil.example", b"Content-Type: text/plain"), {403}),
    "a page that posts to another host": (request(b"Origin: http://localhost", host=EVIL), {421}),
}


async def test_what_comes_by_another_name_or_from_another_page_is_kept_out(daemon: Serving) -> None:
    for case, (sent, statuses) in FOREIGN.items():
        answer = await answers(daemon, sent)
        assert status_of(answer) in statuses, case
        assert b"access-control-allow-origin" not in answer.lower(), case
        assert b"mcp-session-id" not in answer.partition(b"\r\n\r\n")[0].lower(), case
    await still_serves(daemon)


async def test_a_target_with_our_own_name_is_served_or_unknown(daemon: Serving) -> None:
    answer = await answers(daemon, request(target=b"http://127.0.0.1:%d/mcp" % daemon.port("mcp")))
    assert status_of(answer) in (200, 404)


# --- tokens

CREDENTIALS = {
    "none": (),
    "empty": (b"",),
    "a scheme alone": (b"Bearer",),
    "a scheme and a blank": (b"Bearer ",),
    "a tab": (b"Bearer\t" + BOB.encode(),),
    "two blanks": (b"Bearer  " + BOB.encode(),),
    "another scheme": (b"Basic " + BOB.encode(),),
    "no scheme": (BOB.encode(),),
    "the scheme in capitals": (b"BEARER " + BOB.encode(),),
    "a blank within": (b"Bearer " + BOB.encode() + b" x",),
    "a comma behind": (b"Bearer " + BOB.encode() + b",",),
    "one byte more": (b"Bearer " + BOB.encode() + b"\xff",),
    "one character less": (b"Bearer " + BOB.encode()[:-1],),
    "utf-8": (b"Bearer " + "токен".encode() * 8,),
    "latin-1": (b"Bearer " + b"\xe9" * 40,),
    "escaped": (b"Bearer " + BOB.replace("-", "%2d").encode(),),
    "quoted": (b'Bearer "' + BOB.encode() + b'"',),
    "thousands of characters": (b"Bearer " + b"a" * 8000,),
    "the right one twice": (b"Bearer " + BOB.encode(), b"Bearer " + BOB.encode()),
    "a wrong and the right one": (b"Bearer x", b"Bearer " + BOB.encode()),
}


async def test_credentials_of_another_form_open_nothing(guarded: Serving) -> None:
    for case, values in CREDENTIALS.items():
        fields = [b"Authorization: " + value for value in values]
        for sent in (request(*fields), stream_request(*fields)):
            answer = await answers(guarded, sent)
            assert status_of(answer) == 401, case
            assert json.loads(body_of(answer))["error"] == "unauthorized"
            assert BOB.encode() not in answer
    await still_serves(guarded)


async def test_credentials_that_no_head_may_hold_are_refused_with_it(guarded: Serving) -> None:
    for token in (b"a" * 10_000_000, BOB.encode() + b"\0", BOB.encode() + b"\r\n x"):
        answer = await answers(guarded, request(b"Authorization: Bearer " + token))
        # The refusal of a head that goes on and on may be lost in the reset that ends it.
        assert status_of(answer) in (400, 401, 431) if answer else len(token) > 100_000
    await still_serves(guarded)


# --- bodies

NOT_READ = {
    "a byte order mark": b"\xef\xbb\xbf" + LISTING,
    "utf-16": LISTING.decode().encode("utf-16"),
    "utf-16 without a mark": LISTING.decode().encode("utf-16-le"),
    "utf-32": LISTING.decode().encode("utf-32"),
    "latin-1": LISTING.replace(b"list", b"\xe9"),
    "a batch": b"[" + LISTING + b"]",
    "an empty batch": b"[]",
    "two requests": LISTING + LISTING,
    "two lines": LISTING + b"\n" + LISTING,
    "a number beyond all bounds": LISTING.replace(b"}", b',"params":1e400}'),
    "five thousand digits": LISTING.replace(b"}", b',"params":1' + b"0" * 5000 + b"}"),
    "not a number": LISTING.replace(b"}", b',"params":NaN}'),
    "infinity": LISTING.replace(b":1,", b":-Infinity,"),
    "a leading zero": LISTING.replace(b":1,", b":01,"),
    "a hexadecimal number": LISTING.replace(b":1,", b":0x1,"),
    "a comment": LISTING.replace(b"{", b"{/**/"),
    "a comma too many": LISTING.replace(b"}", b",}"),
    "single quotes": LISTING.replace(b'"', b"'"),
    "a raw line break in a string": LISTING.replace(b"list", b"li\nst"),
    "deep objects": LISTING.replace(b"}", b',"params":' + b'{"a":' * 200 + b"1" + b"}" * 201),
    "deep arrays in an id": LISTING.replace(b":1,", b":" + b"[" * 201 + b"]" * 201 + b","),
    "deep arrays and a lone surrogate": LISTING.replace(
        b"}", b',"params":' + b"[" * 201 + b'"\\ud800"' + b"]" * 201 + b"}"
    ),
    "very deep arrays": b"[" * 1_000_000,
    "too many arrays": LISTING.replace(b"}", b',"params":[' + b"[]," * 100_000 + b"1]}"),
}


async def test_a_body_that_is_no_single_request_is_a_parse_error(daemon: Serving) -> None:
    for case, body in NOT_READ.items():
        answer = await answers(daemon, request(body=body))
        assert status_of(answer) == 200, case
        refused = json.loads(body_of(answer))
        assert (refused["id"], refused["error"]["code"]) == (None, -32700), case
        assert len(refused["error"]["message"]) < 300
    await still_serves(daemon)


IDS = (
    *("0", "-0", "1.0", "1.50e+3", "-1", "1e400", "1" + "0" * 5000, "18446744073709551616"),
    *("true", "false", "{}", "[]", '{"a": [1, {"b": null}]}', '""', '"\\u00e9\\/"', '"1"', " 7 "),
)


async def test_an_id_of_any_type_comes_back_as_it_was_sent(daemon: Serving) -> None:
    for method, raw_id in itertools.product(("tools/list", "nonsense"), IDS):
        body = f'{{"jsonrpc":"2.0","id":{raw_id},"method":"{method}"}}'.encode()
        answer = await answers(daemon, request(body=body))
        assert body_of(answer).startswith(f'{{"jsonrpc":"2.0","id":{raw_id.strip()},"'.encode())


async def test_of_members_that_are_repeated_the_last_one_counts_everywhere(daemon: Serving) -> None:
    body = (
        b'{"jsonrpc":"1","id":1,"method":"nonsense","id":2,"jsonrpc":"2.0","params":{"name":"nope"},"method":"tools/call",'
        b'"params":{"name":"store_fact","name":"list_entities","arguments":7,"arguments":{}}}'
    )
    answer = json.loads(body_of(await answers(daemon, request(body=body))))
    assert (answer["id"], text_of(answer)) == (2, {"entities": []})


METHODS = (
    "tools/call ",
    " tools/call",
    "Tools/Call",
    "tools/call\0",
    "tools/call\u200b",
    "tools//call",
    "tools\u2215call",
)


async def test_a_method_is_known_by_its_exact_name(daemon: Serving) -> None:
    for method in METHODS:
        body = encoded({**call_of("store_fact", **FACT), "method": method})
        refused = json.loads(body_of(await answers(daemon, request(body=body))))
        assert refused["error"]["code"] in (-32601, -32602), method
    listed = await answers(daemon, request(body=encoded(call_of("list_entities"))))
    assert b'\\"entities\\":[]' in listed
