"""Requests as our listener reads them, held against h11's reading of the same bytes.

The rule: both see the same requests, or ours refuses. It is never ours that accepts what h11 refuses, or reads it
otherwise; a disagreement is how requests are smuggled past a proxy. Ours is also fed the same bytes cut in two, which
must make no difference.

    python -m fuzz.wire_vs_h11 --inputs 1000000 --seed 1

prints what was seen and the rate, and ends with 1 at the first disagreement, printing its input. An input that was
worth finding belongs into tests/data/wire_corpus, which is replayed by the tests and spliced into what is tried here.
"""

from __future__ import annotations

import argparse
import base64
import faulthandler
import json
import resource
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from time import perf_counter

import h11
from attrs import define, field, frozen

from crux.transport.wire.head import BadRequest, Head, HeadLimits
from crux.transport.wire.reader import RequestReader
from fuzz.requests import Requests

CORPUS = Path(__file__).parent.parent / "tests" / "data" / "wire_corpus"
LIMITS = HeadLimits(bytes=256, fields=7)
"""So low that random inputs meet them, on both sides."""
HANG_S = 60
STDERR = 2
BATCH = 10_000
CUT_ONE_IN = 4
Fields = list[tuple[bytes, bytes]]

# Method, version, path, query, fields, body, whether a 100 (Continue) is waited for, and whether the connection lasts:
# h11 leaves that open for a request that may switch protocols, and does not keep one of HTTP/1.0.
Seen = tuple[bytes, bytes, bytes, bytes, Fields, bytes, bool, bool | None]

_LASTS = {h11.DONE: True, h11.MUST_CLOSE: False}


class Disagreement(Exception):
    """Ours read something that h11 refuses or reads otherwise, or read it otherwise when it was cut."""

    def __init__(self, data: bytes, what: str) -> None:
        super().__init__(f"{what}\ninput: {data!r}\nbase64: {base64.b64encode(data).decode()}")


@frozen
class Reading:
    """What ours made of some bytes: whole requests with their bodies, and the status of the refusal that ended it."""

    requests: list[tuple[Head, bytes]]
    status: int | None = None


def whole_requests(reader: RequestReader, parts: Iterable[bytes]) -> Iterator[tuple[Head, bytes]]:
    """Requests with their bodies, as soon as `parts` make them whole. Raises `BadRequest` for what is refused."""
    head: Head | None = None
    body = b""
    for part in parts:
        reader.feed(part)
        while True:
            if head is None:
                head, body = reader.next_head(), b""
                if head is None:
                    break
            piece, more = reader.next_body()
            body += piece
            if more:
                break
            yield head, body
            head = None


def read(*parts: bytes) -> Reading:
    """Ours, fed with one part after the other."""
    requests: list[tuple[Head, bytes]] = []
    try:
        for head, body in whole_requests(RequestReader(LIMITS), parts):
            requests.append((head, body))
            if not head.keep_alive:
                break
    except BadRequest as refused:
        return Reading(requests, refused.status)
    return Reading(requests)


def read_by_h11(data: bytes, count: int) -> list[Seen]:
    """The first `count` requests as h11 reads them. Raises `h11.RemoteProtocolError` for what it refuses."""
    seen = []
    for _ in range(count):
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=2 * LIMITS.bytes)
        connection.receive_data(data)
        request = connection.next_event()
        if not isinstance(request, h11.Request):
            break
        expects, body = connection.they_are_waiting_for_100_continue, []
        while isinstance(part := connection.next_event(), h11.Data):
            body.append(part.data)
        if not isinstance(part, h11.EndOfMessage):
            break
        seen.append((*_as_ours(request), b"".join(body), expects, _LASTS.get(connection.their_state)))
        data = connection.trailing_data[0]
    return seen


def check(data: bytes, cut: int | None = None) -> Reading:
    """Read `data` both ways, and ours cut at `cut` too. Raises `Disagreement`."""
    ours = read(data)
    if cut is not None:
        again = read(data[:cut], data[cut:])
        if again != ours:
            raise Disagreement(data, f"cut at {cut}: {again}\nwhole: {ours}")
    if ours.requests:
        seen = [_as_h11(head, body) for head, body in ours.requests]
        try:
            theirs = read_by_h11(data, len(seen))
        except h11.RemoteProtocolError as error:
            raise Disagreement(data, f"ours: {seen}\nh11 refuses: {error}") from None
        if not _agree(seen, theirs):
            raise Disagreement(data, f"ours: {seen}\nh11:  {theirs}")
    return ours


def corpus() -> list[bytes]:
    """The inputs that are kept."""
    lines = (CORPUS / "requests.jsonl").read_text().splitlines()
    return [base64.b64decode(json.loads(line)["base64"]) for line in lines]


@define
class Tally:
    """What a run has seen."""

    inputs: int = 0
    requests: int = 0
    accepted: int = 0
    refusals: Counter[int] = field(factory=Counter)

    def add(self, reading: Reading) -> None:
        """Count one input."""
        self.inputs += 1
        self.requests += len(reading.requests)
        self.accepted += bool(reading.requests)
        if reading.status is not None:
            self.refusals[reading.status] += 1


def run(inputs: int, seed: int, kept: Sequence[bytes]) -> Tally:
    """Try that many inputs. Raises `Disagreement`; what hangs is ended with a traceback."""
    supply, tally = Requests(seed, kept), Tally()
    for number in range(inputs):
        if number % BATCH == 0:
            faulthandler.dump_traceback_later(HANG_S, exit=True, file=STDERR)
        data = supply.next()
        cut = (number // CUT_ONE_IN * 7919) % (len(data) + 1) if number % CUT_ONE_IN == 0 else None
        tally.add(check(data, cut))
    faulthandler.cancel_dump_traceback_later()
    return tally


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.wire_vs_h11", description=__doc__.partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    kept = corpus()
    try:
        run(min(options.inputs, BATCH), options.seed, kept)  # what is allocated once is not a leak
        before, began = _peak_kib(), perf_counter()
        tally = run(options.inputs, options.seed, kept)
    except Disagreement as found:
        sys.stdout.write(f"{found}\n")
        return 1
    took = perf_counter() - began
    refused = ", ".join(f"{status}: {count}" for status, count in sorted(tally.refusals.items()))
    sys.stdout.write(
        f"{tally.inputs} inputs, {tally.accepted} with requests that both read alike ({tally.requests} requests); "
        f"refused {refused}; {tally.inputs / took:,.0f} inputs/s; memory grew by {_peak_kib() - before} KiB\n"
    )
    return 0


def _agree(ours: list[Seen], theirs: list[Seen]) -> bool:
    pairs = zip(ours, theirs, strict=False)
    return len(ours) == len(theirs) and all(one[:-1] == two[:-1] and two[-1] in (one[-1], None) for one, two in pairs)


def _as_h11(head: Head, body: bytes) -> Seen:
    fields = [(name, value.lower() if name == b"transfer-encoding" else value) for name, value in head.fields]
    lasts = head.keep_alive and head.version == "1.1"
    method, version = head.method.encode(), head.version.encode()
    return method, version, head.raw_path, head.query, fields, body, head.expects_continue, lasts


def _as_ours(request: h11.Request) -> tuple[bytes, bytes, bytes, bytes, Fields]:
    """h11 leaves targets as they are; ours takes an absolute one apart, and its host goes before the field's."""
    target, fields = request.target, list(request.headers)
    if not target.startswith(b"/") and target != b"*":
        rest = target.partition(b"://")[2]
        host = rest.partition(b"/")[0].partition(b"?")[0]
        fields = [(b"host", host), *(pair for pair in fields if pair[0] != b"host")]
        target = rest[len(host) :]
        target = target if target.startswith(b"/") else b"/" + target
    path, _, query = target.partition(b"?")
    return request.method, request.http_version, path, query, fields


def _peak_kib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    sys.exit(main())
