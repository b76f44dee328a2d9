"""The streams section: what an idle event stream costs, and what ten thousand of them cost everybody else.

Two servers alike take turns; one of them has all the streams open.
"""

import resource
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import repeat
from pathlib import Path

import trio
from attrs import frozen

from bench import facts, load
from bench.failure import BenchFailed
from bench.measure import Contender, Round, Row, alternate, round_of, rows_of
from bench.servers import Cores, peer, running
from bench.settings import STREAM_NAMES, STREAM_REFERENCE, Settings

STREAMS = 10_000
SPARE_FILES = 500
TARGET_KIB = 12.0
TARGET_SLOWDOWN = 1.5
OPENERS = 32
DEADLINE_S = 60.0

_PAGE_KIB = resource.getpagesize() / 1024


@frozen
class StreamFigures:
    """How many streams were open, and what one cost the server in memory."""

    count: int
    kib_each: float


async def stream_rows(
    settings: Settings, cores: Cores, work_dir: Path, tell: Callable[[str], None]
) -> tuple[list[Row], StreamFigures | None]:
    """Calls per second and latencies without and with the streams. Raises `BenchFailed` when a stream does not open."""
    names = settings.chosen(STREAM_NAMES)
    if not names:
        return [], None
    count = min(STREAMS, _raise_file_limit() - SPARE_FILES)
    answer_file = work_dir / "answer.json"
    answer_file.write_bytes(facts.tool_answer(facts.search(facts.make_facts(), facts.NEEDLE, facts.TOP_K)))
    async with AsyncExitStack() as stack:
        calm_server, busy_server = (peer("wire_streams", str(answer_file)) for _ in range(2))
        calm = await stack.enter_async_context(running(calm_server, cores, work_dir))
        busy = await stack.enter_async_context(running(busy_server, cores, work_dir))
        pid = _listener_of(busy)
        before = _resident_kib(pid)
        tell(f"opening {count:,} streams")
        streams = await _open(busy, count)
        for stream in streams:
            stack.push_async_callback(stream.aclose)
        figures = StreamFigures(count, (_resident_kib(pid) - before) / count)
        contenders = [
            Contender("calm", "a constant, no streams", partial(_measure, calm, settings)),
            Contender("streams", f"a constant, {count:,} idle streams", partial(_measure, busy, settings)),
        ]
        measured = await alternate([each for each in contenders if each.name in names], settings.rounds, tell)
    return rows_of("streams", STREAM_REFERENCE, contenders, measured), figures


async def _open(port: int, count: int) -> list[trio.SocketStream]:
    request = load.get(port, "/stream")
    opened: list[trio.SocketStream] = []

    async def open_some(share: int) -> None:
        for _ in range(share):
            stream = await trio.open_tcp_stream(load.HOST, port)
            opened.append(stream)
            await stream.send_all(request)
            if not (await stream.receive_some()).startswith(b"HTTP/1.1 200"):
                raise BenchFailed("a stream was refused")

    with trio.move_on_after(DEADLINE_S) as limit:
        async with trio.open_nursery() as nursery:
            for opener in range(OPENERS):
                nursery.start_soon(open_some, count // OPENERS + (opener < count % OPENERS))
    if limit.cancelled_caught:
        raise BenchFailed(f"{len(opened):,} of {count:,} streams opened within {DEADLINE_S:g} s")
    return opened


async def _measure(port: int, settings: Settings) -> Round:
    request = load.post(port, facts.tool_call("query_facts", {"query": facts.NEEDLE}))
    latencies = await load.drive(
        port,
        repeat(request),
        facts.PROOF.encode(),
        concurrency=settings.concurrency,
        seconds=settings.seconds,
        warmup_s=settings.warmup_s,
    )
    return round_of(latencies, settings.seconds)


def _raise_file_limit() -> int:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most


def _listener_of(port: int) -> int:
    """The process that serves `port`: the one whose command line names it."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            command = (entry / "cmdline").read_bytes().split(b"\0")
            if str(port).encode() in command and b"bench.peers.wire_streams" in command:
                return int(entry.name)
    raise BenchFailed(f"no process serves port {port}")


def _resident_kib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_KIB
