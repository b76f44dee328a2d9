"""What calls of an endpoint cost at the least, by the means of the daemon's way out: trio's streams and h11.

`python -m bench.bare_client PORT CONCURRENCY SECONDS WARMUP_S` prints the latencies as JSON.
"""

import sys
from time import perf_counter

import h11
import msgspec
import trio

from bench import load
from bench.failure import BenchFailed

ANSWER = b'{"result":"eucalyptus"}'
"""What the endpoint says."""
# As long as what the daemon sends.
_BODY = msgspec.json.encode(
    {
        "tool": "ext.bench-instant-0.call",
        "args": {},
        "calling_passport_id": "default",
        "request_id": "req-1796000000000000000",
    }
)


async def bare_client(port: int, concurrency: int, seconds: float, warmup_s: float) -> list[float]:
    """What `load.drive` does with an endpoint, by the means of the daemon's way out: trio's streams and h11.

    Raises `BenchFailed` for an answer that is not the endpoint's, h11's own errors for what is none.
    """
    latencies: list[float] = []
    begin = perf_counter() + warmup_s
    end = begin + seconds

    async def client() -> None:
        async with await trio.open_tcp_stream(load.HOST, port) as stream:
            http = h11.Connection(h11.CLIENT)
            sent = perf_counter()
            while sent < end:
                await _post_bare(stream, http, port)
                http.start_next_cycle()
                done = perf_counter()
                if begin <= done < end:
                    latencies.append(done - sent)
                sent = done

    async with trio.open_nursery() as nursery:
        for _ in range(concurrency):
            nursery.start_soon(client)
    return latencies


async def _post_bare(stream: trio.abc.Stream, http: h11.Connection, port: int) -> None:
    headers = [
        ("Host", f"{load.HOST}:{port}"),
        ("Content-Type", "application/json"),
        ("Accept", "application/json"),
        ("Accept-Encoding", "identity"),
        ("Content-Length", str(len(_BODY))),
    ]
    request = h11.Request(method="POST", target="/instant", headers=headers)
    parts = (http.send(request), http.send(h11.Data(_BODY)), http.send(h11.EndOfMessage()))
    await stream.send_all(b"".join(part for part in parts if part))
    body = b""
    while not isinstance(event := http.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            http.receive_data(bytes(await stream.receive_some(65_536)))
        elif isinstance(event, h11.Data):
            body += event.data
    if body != ANSWER:
        raise BenchFailed(f"the endpoint answered {body[:300]!r}")


if __name__ == "__main__":
    sys.stdout.buffer.write(
        msgspec.json.encode(
            trio.run(bare_client, int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4]))
        )
    )
