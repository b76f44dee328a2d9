"""The sections about external tools: what stuck endpoints cost those who do not call them, and many calls at once.

The endpoint runs beside the generator, on its core, so that only the daemon is on the server's, or in its place the
bare client.
"""

import itertools
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from types import MappingProxyType

import httpx
import msgspec
import trio
from attrs import define, field, frozen

from bench import facts, load
from bench.bare_client import ANSWER
from bench.failure import BenchFailed
from bench.measure import Contender, Round, Row, alternate, round_of, rows_of
from bench.servers import ROOT, START_DEADLINE_S, Child, Cores, crux, running
from bench.settings import (
    INSTANT_NAMES,
    INVOKE_NAMES,
    INVOKE_REFERENCE,
    STUCK_NAMES,
    STUCK_REFERENCE,
    Settings,
)

AT_ONCE = 200
"""Calls that wait for an endpoint at a time."""
SLOW_S = 0.05
"""How long the slow endpoint takes."""
TARGET_UNSLOWED = 0.95
"""Calls that do not go out are meant to keep this share of their rate while `AT_ONCE` others are stuck."""
TARGET_BURST = 3.0
"""`AT_ONCE` calls over MCP are meant to take at most as many times as long as one."""

_STUCK_TOOL = "ext.bench-stuck.call"
# Several extensions, since no more than 10,000 calls of one are let through in a minute (and of all 250,000).
_SLOW_TOOLS = tuple(f"ext.bench-slow-{number}.call" for number in range(10))
_INSTANT_TOOLS = tuple(f"ext.bench-instant-{number}.call" for number in range(25))
_PROOF = b"accepted_fact_writes"
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)
_SETTINGS = MappingProxyType(
    {
        "CORECRUXD_EXTENSIONS_ALLOW_PLAIN_HTTP": "1",
        "CORECRUXD_EXTENSIONS_ALLOW_UNSIGNED": "1",
        # Both bound a call that is stuck, and a turn may be long.
        "CORECRUXD_EXTENSIONS_TIMEOUT_SECONDS": "600",
        "CORECRUXD_REQUEST_TIMEOUT_SECS": "600",
    }
)


@define
class Endpoint:
    """Answers `/instant` at once, `/slow` after `SLOW_S`, and `/stuck` never; `stuck` counts these."""

    port: int = 0
    stuck: int = 0
    _changed: trio.Condition = field(factory=trio.Condition)

    async def serve(self, *, task_status: trio.TaskStatus[None]) -> None:
        (listener,) = await trio.open_tcp_listeners(0, host=load.HOST)
        self.port = listener.socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._converse, [listener])

    async def wait_for(self, stuck: int) -> None:
        """Wait until so many requests are stuck; raises `BenchFailed` where that takes too long."""
        with trio.move_on_after(load.ANSWER_DEADLINE_S):
            async with self._changed:
                while self.stuck != stuck:
                    await self._changed.wait()
                return
        raise BenchFailed(f"{self.stuck} calls reached the endpoint, expected {stuck}")

    async def _converse(self, stream: trio.abc.Stream) -> None:
        async with stream:
            # A small request comes in one piece.
            while request := await stream.receive_some(65_536):
                if request.startswith(b"POST /stuck "):
                    await self._hold(stream)
                    return
                if request.startswith(b"POST /slow "):
                    await trio.sleep(SLOW_S)
                await stream.send_all(_ANSWER)

    async def _hold(self, stream: trio.abc.Stream) -> None:
        await self._count(1)
        try:
            await stream.receive_some(1)  # the daemon gives up
        except trio.BrokenResourceError:
            pass
        finally:
            with trio.CancelScope(shield=True):
                await self._count(-1)

    async def _count(self, change: int) -> None:
        async with self._changed:
            self.stuck += change
            self._changed.notify_all()


@frozen
class Daemon:
    """A daemon with all tools granted to the holder of `token`."""

    child: Child
    token: str

    def call(self, tool: str) -> bytes:
        """The bytes of one call over MCP."""
        return self._post(self.child.port, "/mcp", facts.tool_call(tool, {}))

    def invoke(self, tool: str) -> bytes:
        """The bytes of the same call over the HTTP API."""
        extension = tool.removesuffix(".call")
        return self._post(self.child.ready_port, f"/v1/extensions/{extension}/tools/{tool}/invoke", b'{"args":{}}')

    def _post(self, port: int, path: str, body: bytes) -> bytes:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {load.HOST}:{port}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def install(self, endpoint: Endpoint) -> None:
        """Install and grant all tools; raises `BenchFailed` where that is refused."""
        url, headers = f"http://{load.HOST}:{self.child.ready_port}", {"Authorization": f"Bearer {self.token}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as client:
            paths = (
                {_STUCK_TOOL: "stuck"} | dict.fromkeys(_SLOW_TOOLS, "slow") | dict.fromkeys(_INSTANT_TOOLS, "instant")
            )
            for tool, path in paths.items():
                manifest = _manifest(tool, f"http://{load.HOST}:{endpoint.port}/{path}")
                terms = {"passport_fpr": "default", "rate_limit_per_min": 10_000}
                for route, body in (
                    ("/v1/extensions/register", {"manifest": manifest}),
                    (f"/v1/extensions/{manifest['id']}/grants", terms),
                ):
                    answer = await client.post(route, json=body)
                    if answer.status_code != httpx.codes.CREATED:
                        raise BenchFailed(f"{route} answered {answer.status_code}: {answer.text[:300]}")


async def extension_rows(settings: Settings, cores: Cores, work_dir: Path, tell: Callable[[str], None]) -> list[Row]:
    """Measure the chosen rows of these sections in turns, on one daemon.

    Raises `BenchFailed` when the daemon does not start, answers wrongly, or lets go of a call that is stuck.
    """
    if not any(map(settings.chosen, (STUCK_NAMES, INVOKE_NAMES, *INSTANT_NAMES))):
        return []
    token, endpoint, rows = secrets.token_hex(16), Endpoint(), list[Row]()
    child = crux(work_dir / "extensions", {**_SETTINGS, "CRUX_AGENT_TOKEN": token})
    tell("starting crux")
    async with running(child, cores, work_dir), trio.open_nursery() as nursery:
        await nursery.start(endpoint.serve)
        daemon = Daemon(child, token)
        await daemon.install(endpoint)
        instant = _of_instant(daemon, endpoint, settings, cores)
        for section, names, every in (
            ("stuck", STUCK_NAMES, _of_stuck(daemon, endpoint, settings)),
            ("invokes", INVOKE_NAMES, _of_invokes(daemon, settings)),
            *(("instant", names, instant) for names in INSTANT_NAMES),
        ):
            contenders = [every[name] for name in settings.chosen(names)]
            rows += rows_of(section, names[0], contenders, await alternate(contenders, settings.rounds, tell))
        nursery.cancel_scope.cancel()
    return rows


def _of_stuck(daemon: Daemon, endpoint: Endpoint, settings: Settings) -> Mapping[str, Contender]:
    async def quiet() -> Round:
        return await _identity(daemon, settings)

    async def stuck() -> Round:
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(_wait, daemon)
            await endpoint.wait_for(AT_ONCE)
            measured = await _identity(daemon, settings)
            await endpoint.wait_for(AT_ONCE)
            nursery.cancel_scope.cancel()
        await endpoint.wait_for(0)
        return measured

    return {
        STUCK_REFERENCE: Contender(STUCK_REFERENCE, "Crux: get_agent_identity", quiet),
        "stuck": Contender("stuck", f"the same, {AT_ONCE} calls stuck", stuck),
    }


async def _identity(daemon: Daemon, settings: Settings) -> Round:
    latencies = await load.drive(
        daemon.child.port,
        itertools.repeat(daemon.call("get_agent_identity")),
        b"agent_name",
        concurrency=settings.concurrency,
        seconds=settings.seconds,
        warmup_s=settings.warmup_s,
    )
    return round_of(latencies, settings.seconds)


async def _wait(daemon: Daemon) -> None:
    """A call that is given up with the nursery."""
    connection = load.Connection(daemon.child.ready_port)
    try:
        await connection.exchange(daemon.invoke(_STUCK_TOOL))
    finally:
        connection.close()
    raise BenchFailed("a call was answered that was meant to be stuck")


def _of_invokes(daemon: Daemon, settings: Settings) -> Mapping[str, Contender]:
    mcp, http = daemon.child.port, daemon.child.ready_port
    over_mcp, over_http = tuple(map(daemon.call, _SLOW_TOOLS)), tuple(map(daemon.invoke, _SLOW_TOOLS))
    title = f"of an endpoint that takes {SLOW_S * 1_000:g} ms"
    return {
        INVOKE_REFERENCE: Contender(
            INVOKE_REFERENCE, f"one call {title}", partial(_bursts, mcp, over_mcp, 1, settings.seconds)
        ),
        "invoke-200": Contender(
            "invoke-200", f"{AT_ONCE} at once over MCP", partial(_bursts, mcp, over_mcp, AT_ONCE, settings.seconds)
        ),
        "invoke-200-http": Contender(
            "invoke-200-http",
            f"{AT_ONCE} at once over HTTP",
            partial(_bursts, http, over_http, AT_ONCE, settings.seconds),
        ),
    }


async def _bursts(port: int, requests: Sequence[bytes], size: int, seconds: float) -> Round:
    """Send `size` requests at once, each on a connection that stands, wait for all, and again for `seconds`."""
    connections = [load.Connection(port) for _ in range(size)]
    latencies: list[float] = []
    elapsed_s = 0.0
    try:
        await _burst(connections, requests)  # not counted: it connects
        while elapsed_s < seconds:
            began = perf_counter()
            latencies += await _burst(connections, requests)
            elapsed_s += perf_counter() - began
    finally:
        for connection in connections:
            connection.close()
    return round_of(latencies, elapsed_s)


async def _burst(connections: Sequence[load.Connection], requests: Sequence[bytes]) -> list[float]:
    latencies = []

    async def one(connection: load.Connection, request: bytes) -> None:
        sent = perf_counter()
        body = await connection.ask(request)
        if _PROOF not in body:
            raise BenchFailed(f"the call was not answered: {body[:300]!r}")
        latencies.append(perf_counter() - sent)

    async with trio.open_nursery() as nursery:
        for connection, request in zip(connections, itertools.cycle(requests), strict=False):
            nursery.start_soon(one, connection, request)
    return latencies


def _of_instant(daemon: Daemon, endpoint: Endpoint, settings: Settings, cores: Cores) -> Mapping[str, Contender]:
    mcp, http = daemon.child.port, daemon.child.ready_port
    over_mcp, over_http = tuple(map(daemon.call, _INSTANT_TOOLS)), tuple(map(daemon.invoke, _INSTANT_TOOLS))
    contenders: list[Contender] = []
    for (bare, by_mcp, by_http), size in zip(INSTANT_NAMES, (1, 16), strict=True):
        title = "one at a time" if size == 1 else f"{size} at a time"
        contenders += (
            Contender(bare, f"trio and h11, {title}", partial(_by_bare_client, endpoint, cores, size, settings)),
            Contender(by_mcp, f"Crux: over MCP, {title}", partial(_stream_of, mcp, over_mcp, size, settings)),
            Contender(by_http, f"Crux: over HTTP, {title}", partial(_stream_of, http, over_http, size, settings)),
        )
    return {contender.name: contender for contender in contenders}


async def _stream_of(port: int, requests: Sequence[bytes], concurrency: int, settings: Settings) -> Round:
    latencies = await load.drive(
        port,
        itertools.cycle(requests),
        _PROOF,
        concurrency=concurrency,
        seconds=settings.seconds,
        warmup_s=settings.warmup_s,
    )
    return round_of(latencies, settings.seconds)


async def _by_bare_client(endpoint: Endpoint, cores: Cores, concurrency: int, settings: Settings) -> Round:
    """One round of the bare client, a process of its own on the servers' core."""
    arguments = map(str, (endpoint.port, concurrency, settings.seconds, settings.warmup_s))
    command = cores.pin_server((sys.executable, "-m", "bench.bare_client", *arguments))
    with trio.move_on_after(START_DEADLINE_S + settings.warmup_s + settings.seconds + load.ANSWER_DEADLINE_S):
        # In a session of its own, so that Ctrl-C reaches the bench alone, which ends it.
        done = await trio.run_process(
            command, capture_stdout=True, capture_stderr=True, check=False, cwd=ROOT, start_new_session=True
        )
        if done.returncode:
            raise BenchFailed(f"the bare client ended with {done.returncode}: {done.stderr[-2_000:].decode()}")
        return round_of(msgspec.json.decode(done.stdout, type=list[float]), settings.seconds)
    raise BenchFailed("the bare client did not end")


def _manifest(tool: str, url: str) -> dict[str, object]:
    return {
        "schema": "crux.integration.v1",
        "id": tool.removesuffix(".call"),
        "name": "Bench",
        "version": "1",
        "publisher_passport_fpr": "p_bench",
        "summary": "",
        "entry": {"kind": "external_tool", "path": "bench"},
        "external_tool_endpoint": url,
        "tools": [{"name": tool, "description": "For the bench.", "input_schema": {"type": "object"}}],
    }
