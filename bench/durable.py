"""The durable section: acknowledged `store_fact` calls, beside one synced append after another on the same disk."""

import itertools
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import perf_counter

import trio

from bench import facts, load
from bench.measure import Contender, Round, Row, alternate, round_of, rows_of
from bench.servers import Cores, crux, running
from bench.settings import DURABLE_NAMES, DURABLE_REFERENCE, Settings

APPEND = b"x" * 127 + b"\n"
TARGET_SHARE = 0.5
"""`store_fact`, 64 at once, is meant to reach at least this share of R."""


async def durable_rows(settings: Settings, cores: Cores, work_dir: Path, tell: Callable[[str], None]) -> list[Row]:
    """Measure the chosen rows in turns: synced appends, and stores into one daemon whose data directory began empty.

    Raises `BenchFailed` when the daemon does not start or does not answer a call with the stored fact's id.
    """
    names = settings.chosen(DURABLE_NAMES)
    if not names:
        return []
    data_dir = work_dir / "fresh"
    append = Contender(
        DURABLE_REFERENCE,
        "append and fdatasync, same disk",
        partial(trio.to_thread.run_sync, append_synced, work_dir / "appends", settings.seconds),
    )
    if names == (DURABLE_REFERENCE,):
        return rows_of("durable", DURABLE_REFERENCE, [append], await alternate([append], settings.rounds, tell))
    async with running(crux(data_dir), cores, work_dir) as daemon:
        requests = store_requests(daemon.port)
        stores = [
            Contender(
                name,
                f"Crux: store_fact, {name.removeprefix('store-')} at once",
                partial(_measure, daemon.port, requests, int(name.removeprefix("store-")), settings),
            )
            for name in names
            if name != DURABLE_REFERENCE
        ]
        contenders = [append, *stores]
        measured = await alternate(contenders, settings.rounds, tell)
    return rows_of("durable", DURABLE_REFERENCE, contenders, measured)


def append_synced(path: Path, seconds: float) -> Round:
    """Append 128 bytes and wait until the disk has them, again and again for `seconds`."""
    latencies: list[float] = []
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        began = done = perf_counter()
        while done < began + seconds:
            sent = done
            os.write(file, APPEND)
            os.fdatasync(file)
            done = perf_counter()
            latencies.append(done - sent)
    finally:
        os.close(file)
    return round_of(latencies, done - began)


def store_requests(port: int) -> Iterator[bytes]:
    """Requests that each store a fact no other one stores, without end."""
    # The number has a fixed width, so the bytes around it, Content-Length too, are made once.
    mark = "00000000"
    arguments = {"entity": "durable", "key": f"k{mark}", "value": f"a value that nobody stored before, number {mark}"}
    before, between, after = load.post(port, facts.tool_call("store_fact", arguments)).split(mark.encode())
    for number in itertools.count():
        digits = b"%08d" % number
        yield before + digits + between + digits + after


async def _measure(port: int, requests: Iterator[bytes], concurrency: int, settings: Settings) -> Round:
    latencies = await load.drive(
        port, requests, b"fact_id", concurrency=concurrency, seconds=settings.seconds, warmup_s=settings.warmup_s
    )
    return round_of(latencies, settings.seconds)
