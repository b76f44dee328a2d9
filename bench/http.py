"""The HTTP section: the same kind of POST to R, Quart, Crux and the peers, in turns."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import repeat
from pathlib import Path

from attrs import frozen

from bench import facts, load
from bench.measure import Contender, Round, Row, alternate, round_of, rows_of
from bench.servers import Child, Cores, crux, peer, running
from bench.settings import HTTP_NAMES, HTTP_REFERENCE, Settings

FILL_CONCURRENCY = 16
TARGETS_OF_R = {"crux-query": 2.0, "wire": 8.0}
"""What these rows are meant to reach at least, as multiples of R."""
TARGETS_BESIDE = {("wire", "loop"): 0.8, ("crux-identity", "wire"): 0.4}
"""What the first of two rows is meant to reach at least, as a share of the second."""

_QUERY = facts.tool_call("query_facts", {"query": facts.NEEDLE, "top_k": facts.TOP_K})
_IDENTITY = facts.tool_call("get_agent_identity", {})


@frozen
class Target:
    """One row: what is asked of which server, what each answer must contain, and the check of one answer a round."""

    title: str
    server: str
    body: bytes = _QUERY
    proof: bytes = facts.PROOF.encode()
    check: Callable[[bytes], None] = facts.check_rows


TARGETS = {
    "hypercorn": Target("R: bare ASGI on Hypercorn-trio", "hypercorn_asgi"),
    "wire": Target("bare ASGI on Crux's listener", "wire_asgi"),
    "loop": Target("httptools and trio, a constant", "httptools_loop"),
    "crux-query": Target("Crux: query_facts", "crux"),
    "crux-identity": Target(
        "Crux: get_agent_identity", "crux", _IDENTITY, b"agent_name", partial(facts.check_has, "agent_name")
    ),
    "quart": Target("Quart-trio on Hypercorn", "quart_app"),
    "mcp-sdk": Target("MCP SDK: query_facts", "mcp_sdk"),
    "fastmcp": Target("FastMCP: query_facts", "fastmcp_server"),
    "ceiling": Target("socket echo: generator's ceiling", "ceiling"),
}


async def http_rows(settings: Settings, cores: Cores, work_dir: Path, tell: Callable[[str], None]) -> list[Row]:
    """Start what the chosen rows need, measure them in turns, end it all.

    Raises `BenchFailed` when a server does not start or one answer of the run is wrong.
    """
    names = settings.chosen(HTTP_NAMES)
    if not names:
        return []
    # Crux first, when it takes part: the constant servers then answer with the very bytes of its answer.
    needed = sorted(dict.fromkeys(TARGETS[name].server for name in names), key=lambda server: server != "crux")
    answer_file = work_dir / "answer.json"
    answer_file.write_bytes(facts.tool_answer(facts.search(facts.make_facts(), facts.NEEDLE, facts.TOP_K)))
    ports: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        for server in needed:
            tell(f"starting {server}")
            child = crux(work_dir / "data") if server == "crux" else _peer(server, answer_file)
            ports[server] = (await stack.enter_async_context(running(child, cores, work_dir))).port
            if server == "crux":
                await fill(ports["crux"])
                answer_file.write_bytes(await load.ask_once(ports["crux"], load.post(ports["crux"], _QUERY)))
        contenders = [
            Contender(
                name, TARGETS[name].title, partial(_measure, TARGETS[name], ports[TARGETS[name].server], settings)
            )
            for name in names
        ]
        measured = await alternate(contenders, settings.rounds, tell)
    return rows_of("http", HTTP_REFERENCE, contenders, measured)


async def fill(port: int) -> None:
    """Store the bench's facts in a Crux daemon."""
    stores = (
        load.post(port, facts.tool_call("store_fact", {"entity": fact.entity, "key": fact.key, "value": fact.value}))
        for fact in facts.make_facts()
    )
    await load.ask_each(port, stores, b"fact_id", concurrency=FILL_CONCURRENCY)


def _peer(server: str, answer_file: Path) -> Child:
    constant = server not in ("mcp_sdk", "fastmcp_server")
    return peer(server, *([str(answer_file)] if constant else []))


async def _measure(target: Target, port: int, settings: Settings) -> Round:
    request = load.post(port, target.body)
    target.check(await load.ask_once(port, request))
    latencies = await load.drive(
        port,
        repeat(request),
        target.proof,
        concurrency=settings.concurrency,
        seconds=settings.seconds,
        warmup_s=settings.warmup_s,
    )
    return round_of(latencies, settings.seconds)
