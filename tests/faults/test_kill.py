"""kill -9 in the middle of a write storm: what was acknowledged is there, once, and whole."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path

import httpx
import pytest
import trio

from crux.domain.commands import Chain
from crux.domain.decay import DecayPolicy
from crux.domain.facts import Fact
from crux.domain.privacy import RAW_ADMIN
from crux.storage.engine import SqliteEngine
from crux.storage.search import read
from tests.daemons import Daemon
from tests.serving import tool

CLIENTS = 8
ROUNDS = 20
KEYS_PER_CLIENT = 5  # each gets many versions, so that chains are cut in the middle of a supersession

Acknowledged = dict[tuple[str, str], list[tuple[str, str]]]


async def storm(url: str, client_no: int, round_no: int, acknowledged: Acknowledged, first: trio.Event) -> None:
    """Store facts as fast as they are acknowledged, until the connection breaks; note each acknowledgement."""
    async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
        number = 0
        while True:
            entity, key = f"client-{client_no}", f"key-{number % KEYS_PER_CLIENT}"
            value = f"round {round_no} number {number} {'x' * (number % 7 * 500)}"
            try:
                response = await tool(client, url, "store_fact", entity=entity, key=key, value=value)
            except httpx.TransportError:
                return
            text = json.loads(response["result"]["content"][0]["text"])
            acknowledged[entity, key].append((text["fact_id"], value))
            first.set()
            number += 1


async def storm_until_killed(daemon: Daemon, round_no: int, acknowledged: Acknowledged) -> None:
    first = trio.Event()
    async with trio.open_nursery() as nursery:
        for client_no in range(CLIENTS):
            nursery.start_soon(storm, daemon.mcp, client_no, round_no, acknowledged, first)
        await first.wait()
        # Not a wait for something: the moment of the crash is the test's random input.
        await trio.sleep(random.Random(round_no).uniform(0.0, 0.15))
        daemon.kill()


def check_chain(chain: tuple[Fact, ...], stored: list[tuple[str, str]]) -> None:
    by_id = {fact.fact_id: fact for fact in chain}
    assert len(by_id) == len(chain), "a fact is there twice"
    for fact_id, value in stored:
        assert by_id[fact_id].value == value
    for position, fact in enumerate(chain):
        before = chain[position - 1] if position else None
        after = chain[position + 1] if position + 1 < len(chain) else None
        assert fact.version == position + 1
        assert fact.supersedes == (before.fact_id if before else None)
        assert fact.superseded_by == (after.fact_id if after else None)


# httpx leaves the body of a request that broke off to the garbage collector.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <async_generator object ByteStream")
async def test_nothing_acknowledged_is_lost_to_kill_minus_nine(tmp_path: Path) -> None:
    acknowledged: Acknowledged = defaultdict(list)
    with Daemon(tmp_path) as daemon:
        for round_no in range(ROUNDS):
            await storm_until_killed(daemon, round_no, acknowledged)
            daemon.restart()
            async with httpx.AsyncClient(trust_env=False) as client:
                assert (await client.get(f"{daemon.http}/readyz")).json() == {"ok": True}
    assert sum(map(len, acknowledged.values())) > ROUNDS * CLIENTS
    engine = await SqliteEngine.open(daemon.data_dir, DecayPolicy())
    try:
        for (entity, key), stored in acknowledged.items():
            chain = read(Chain(entity, key, RAW_ADMIN), engine._readers._idle[0].connection, DecayPolicy())
            assert isinstance(chain, tuple)
            check_chain(chain, stored)
        await check_index(engine)
    finally:
        engine.close()


async def check_index(engine: SqliteEngine) -> None:
    """The search index holds exactly the live facts."""
    connection = engine._readers._idle[0].connection
    live = connection.execute(
        "SELECT seq FROM facts WHERE deleted = 0 AND superseded_by IS NULL AND (owner IS NOT '' OR shown GLOB '__bootstrap__::*') ORDER BY seq"
    ).fetchall()
    assert connection.execute("SELECT rowid FROM facts_text ORDER BY rowid").fetchall() == live


def test_a_check_of_chains_can_fail() -> None:
    fact = Fact("f_1", "default", "e", "k", "v", version=1, stored_at_us=1, tokens=1)
    check_chain((fact,), [("f_1", "v")])
    with pytest.raises(KeyError):
        check_chain((), [("f_1", "v")])
    with pytest.raises(AssertionError):
        check_chain((fact,), [("f_1", "another value")])
    with pytest.raises(AssertionError):
        check_chain((fact, fact), [])
