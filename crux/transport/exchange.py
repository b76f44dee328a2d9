"""One request and its answer in HTTP/1.1 on a connection that stands."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import h11
import trio
from attrs import frozen

from crux.domain.endpoints import Endpoint
from crux.domain.outbound import Answer, check_size

# Read at a time: what is parsed in one go is as much, and so is what is read above a cap.
READ_BYTES: Final = 16 * 1024
MOST_HEAD_BYTES: Final = 64 * 1024
# Answers with a status of 1xx, of which a sane endpoint has one or two.
MOST_INTERIM: Final = 16
# Parts of an answer that are looked at before others have their turn: some milliseconds' worth, however small each is.
EVENTS_AT_ONCE: Final = 64


@frozen
class Exchanged:
    """The answer, and whether the connection is good for another request."""

    answer: Answer
    at_rest: bool


async def exchange(stream: trio.abc.Stream, endpoint: Endpoint, body: bytes, most: int) -> Exchanged:
    """Post `body` and read the answer.

    Raises `ResponseTooLarge` as soon as more than `most` bytes of it came, `OSError`, `trio.BrokenResourceError` or
    `h11.ProtocolError` where it is none, or not whole. The connection is of no use after an exception.
    """
    http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD_BYTES)
    request = h11.Request(method="POST", target=endpoint.target, headers=_headers(endpoint, len(body)))
    parts = (http.send(request), http.send(h11.Data(body)), http.send(h11.EndOfMessage()))
    sent = False
    # Some refuse what is too large for them before they have read it, and close; what they said of it is still there.
    with suppress(trio.BrokenResourceError):
        await stream.send_all(b"".join(part for part in parts if part))
        sent = True
    answer = await _read(stream, http, most)
    # Bytes beyond the answer would be taken for the next one.
    done = http.our_state is http.their_state is h11.DONE and not http.trailing_data[0]
    return Exchanged(answer, sent and done)


async def _read(stream: trio.abc.Stream, http: h11.Connection, most: int) -> Answer:
    status, events, interim, body = 0, 0, 0, bytearray()
    while True:
        events += 1
        if events % EVENTS_AT_ONCE == 0:
            await trio.lowlevel.checkpoint()
        event = http.next_event()
        if event is h11.NEED_DATA:
            received = await stream.receive_some(READ_BYTES)
            if not received and not status:
                raise OSError("the connection was closed without an answer")
            http.receive_data(bytes(received))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
            check_size(len(body), most)
        elif isinstance(event, h11.InformationalResponse):
            interim += 1
            if interim > MOST_INTERIM:
                raise OSError(f"more than {MOST_INTERIM} interim answers came before the answer")
        elif isinstance(event, h11.EndOfMessage):
            return Answer(status, bytes(body))


def _headers(endpoint: Endpoint, length: int) -> list[tuple[str, str]]:
    return [
        ("Host", endpoint.authority),
        ("Content-Type", "application/json"),
        ("Accept", "application/json"),
        ("Accept-Encoding", "identity"),
        ("Content-Length", str(length)),
    ]
