"""The streams of a real daemon: what one costs, how fast a push reaches it, and what is left when all have gone."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TypeVar

import trio
from attrs import frozen

from bench import facts, load
from bench.crowd import Opened, abandon, crowd, hear, leave
from bench.failure import BenchFailed
from bench.measure import Row, round_of
from bench.memory import Footprint, resident_kib
from bench.servers import Child, Cores, Server, crux, running
from crux.actors.sessions import KEEP_ALIVE_S

T = TypeVar("T")

PUSHES = 200
ABANDONED = 2_000
TARGET_RATIO = 1.3
"""What a stream of the daemon may cost at most, in streams of the bare listener."""
TARGET_PUSH_MS = 20.0
TARGET_SECOND_ROUND = 1.05
"""How much memory as many streams may take at most when they are opened once more, in that of the first time."""
SETTLE_S = 10.0
# When all streams close at once, the registry does not hear of each; its next keep-alive finds out.
SWEPT_S = KEEP_ALIVE_S + 1.0

_POLL_S = 0.1
_INTENT = facts.tool_call("cuecrux_session", {"intent": "knowledge_query"})
_PLAN = b"plan_id"
_NEWS = b"notifications/tools/list_changed"


@frozen
class SessionFigures:
    """What the daemon's streams cost and left; the shares are those of `Footprint`.

    `after_answer_ms` is the median time from a call's answer to its push, below 0 where the push came first. `left` is
    how many streams and connections the daemon still counts in the end.
    """

    kib_each: float
    after_answer_ms: float
    second_round: float
    returned: float
    abandoned: int
    left: int


@frozen
class Push:
    """When one push arrived, in seconds since its call was sent and since that call's answer."""

    since_call_s: float
    since_answer_s: float


async def session_row(
    count: int, cores: Cores, work_dir: Path, tell: Callable[[str], None]
) -> tuple[Row, SessionFigures]:
    """The pushes as a row, and the figures.

    The daemon takes `count` streams and not one more: those of the second round are refused if one of the first is
    left. Raises `BenchFailed` when a stream is refused or a push does not come.
    """
    limits = {"CRUX_MCP_SSE_MAX_SESSIONS": str(count), "CRUX_MCP_SSE_MAX_SESSIONS_PER_OWNER": "0"}
    child = crux(work_dir / "sessions", limits)
    tell("starting crux")
    async with running(child, cores, work_dir) as daemon:
        request = load.get_stream(daemon.port, "/mcp")
        before = resident_kib(daemon.pid)
        tell(f"opening {count:,} streams of the daemon")
        async with crowd(daemon.port, request, count) as opened:
            opened_kib = resident_kib(daemon.pid)
            tell(f"{PUSHES} pushes")
            pushes, elapsed_s = await _push_all(daemon, opened)
            used_kib = resident_kib(daemon.pid)
            await leave(opened)
        tell(f"abandoning {ABANDONED:,} sessions")
        await abandon(daemon.port, request, ABANDONED)
        await _settled(child)
        tell(f"opening {count:,} streams of the daemon once more")
        async with crowd(daemon.port, request, count) as opened:
            again_kib = resident_kib(daemon.pid)
            await leave(opened)
        tell("waiting for the daemon's next keep-alive")
        await trio.sleep(SWEPT_S)
        sizes = Footprint(count, before, opened_kib, used_kib, again_kib, resident_kib(daemon.pid))
        left = await _settled(child)
    measured = round_of([push.since_call_s for push in pushes], elapsed_s)
    row = Row("push", f"Crux: a push, {count:,} streams", "streams", measured.rate, None, measured.latency, (measured,))
    figures = SessionFigures(
        kib_each=sizes.each,
        after_answer_ms=median(push.since_answer_s for push in pushes) * 1_000,
        second_round=sizes.second_round,
        returned=sizes.returned,
        abandoned=ABANDONED,
        left=left,
    )
    return row, figures


def spread(among: Sequence[T], count: int) -> Iterator[T]:
    """`count` of them, all where there are fewer, as far from each other as they can be."""
    wanted = min(count, len(among))
    return (among[number * len(among) // wanted] for number in range(wanted))


def gauge(exposition: str, name: str) -> float:
    """The sum of a metric's samples in Prometheus' text; raises `BenchFailed` where there is none."""
    found = re.findall(rf"^{re.escape(name)}(?:\{{.*\}})? (\S+)$", exposition, re.MULTILINE)
    if not found:
        raise BenchFailed(f"the daemon has no metric {name}")
    return sum(map(float, found))


async def _push_all(daemon: Server, opened: Sequence[Opened]) -> tuple[list[Push], float]:
    connection = load.Connection(daemon.port)
    try:
        began = perf_counter()
        pushes = [await _push(daemon, connection, each) for each in spread(opened, PUSHES)]
        return pushes, perf_counter() - began
    finally:
        connection.close()


async def _push(daemon: Server, connection: load.Connection, opened: Opened) -> Push:
    """Declare an intent in a stream's session, and wait for what the stream says of it."""
    arrived = answered = 0.0

    async def listen() -> None:
        nonlocal arrived
        await hear(opened.stream, _NEWS)
        arrived = perf_counter()

    with trio.move_on_after(load.ANSWER_DEADLINE_S) as limit:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            sent = perf_counter()
            answer = await connection.exchange(load.post(daemon.port, _INTENT, opened.session))
            answered = perf_counter()
    if limit.cancelled_caught:
        raise BenchFailed(f"no push came within {load.ANSWER_DEADLINE_S:g} s")
    if _PLAN not in answer:
        raise BenchFailed(f"no plan: {answer[:300]!r}")
    return Push(arrived - sent, arrived - answered)


async def _settled(child: Child) -> int:
    """Wait until the daemon counts no stream and no connection, `SETTLE_S` seconds at most; how many it does count."""
    request = load.get(child.ready_port, "/metrics")
    until = trio.current_time() + SETTLE_S
    while True:
        exposition = (await load.ask_once(child.ready_port, request)).decode()
        left = gauge(exposition, "crux_wire_streams") + gauge(exposition, "crux_wire_connections")
        if not left or trio.current_time() >= until:
            return int(left)
        await trio.sleep(_POLL_S)
