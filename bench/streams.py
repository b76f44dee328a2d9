"""The streams section: what an idle event stream costs, and what ten thousand of them cost everybody else.

Two bare servers alike take turns; one of them has all the streams open. Then a Crux daemon has them (`sessions.py`).
"""

import resource
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import repeat
from pathlib import Path

from attrs import frozen

from bench import facts, load
from bench.crowd import crowd
from bench.measure import Contender, Round, Row, alternate, round_of, rows_of
from bench.memory import resident_kib
from bench.servers import Cores, peer, running
from bench.sessions import SessionFigures, session_row
from bench.settings import STREAM_NAMES, STREAM_REFERENCE, Settings

STREAMS = 10_000
SPARE_FILES = 500
TARGET_KIB = 12.0
TARGET_SLOWDOWN = 1.5


@frozen
class StreamFigures:
    """How many streams were open, what one cost the bare server in memory, and what the daemon made of as many."""

    count: int
    kib_each: float
    daemon: SessionFigures | None = None


async def stream_rows(
    settings: Settings, cores: Cores, work_dir: Path, tell: Callable[[str], None]
) -> tuple[list[Row], StreamFigures | None]:
    """Calls per second and latencies without and with the streams, and pushes to them.

    Raises `BenchFailed` when a stream does not open, or a push does not come.
    """
    names = settings.chosen(STREAM_NAMES)
    if not names:
        return [], None
    count = min(STREAMS, _raise_file_limit() - SPARE_FILES)
    rows, kib_each = await _bare(settings, count, cores, work_dir, tell)
    if "push" not in names:
        return rows, StreamFigures(count, kib_each)
    pushes, daemon = await session_row(count, cores, work_dir, tell)
    return [*rows, pushes], StreamFigures(count, kib_each, daemon)


async def _bare(
    settings: Settings, count: int, cores: Cores, work_dir: Path, tell: Callable[[str], None]
) -> tuple[list[Row], float]:
    """The rows of the two bare servers, and what a stream costs there in KiB."""
    answer_file = work_dir / "answer.json"
    answer_file.write_bytes(facts.tool_answer(facts.search(facts.make_facts(), facts.NEEDLE, facts.TOP_K)))
    async with AsyncExitStack() as stack:
        calm_server, busy_server = (peer("wire_streams", str(answer_file)) for _ in range(2))
        calm = await stack.enter_async_context(running(calm_server, cores, work_dir))
        busy = await stack.enter_async_context(running(busy_server, cores, work_dir))
        before = resident_kib(busy.pid)
        tell(f"opening {count:,} streams")
        await stack.enter_async_context(crowd(busy.port, load.get_stream(busy.port, "/stream"), count))
        kib_each = (resident_kib(busy.pid) - before) / count
        contenders = [
            Contender("calm", "a constant, no streams", partial(_measure, calm.port, settings)),
            Contender("streams", f"a constant, {count:,} idle streams", partial(_measure, busy.port, settings)),
        ]
        chosen = [each for each in contenders if each.name in settings.chosen(STREAM_NAMES)]
        measured = await alternate(chosen, settings.rounds, tell)
    return rows_of("streams", STREAM_REFERENCE, chosen, measured), kib_each


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
    """Let this process and the servers it starts have as many files open as the system allows; how many those are."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    return most
