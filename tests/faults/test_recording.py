"""What is recorded of calls fails, or must not be: no call waits for it, none fails by it, and a refusal leaves nothing."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from crux.actors import observations
from crux.actors.meter import UsageOf
from crux.actors.observations import FlushObservations
from crux.actors.supervisor import RestartPolicy
from crux.actors.traces import RecentTraces
from crux.domain.commands import Put
from crux.domain.observations import ledger_of, sealed
from crux.domain.usage import Usage
from crux.errors import StorageFull
from crux.storage import commands
from tests.rcx_tokens import reading_token
from tests.serving import FACT, LIST, Serving, serving, tool

PATIENCE_S = 20
SCOPES = {"X-Corecrux-Scopes": "admin:read"}
# Calls that write nothing.
READS: tuple[tuple[str, dict[str, object]], ...] = (
    ("get_agent_identity", {}),
    ("query_facts", {"query": "x"}),
    ("list_entities", {}),
    ("get_bootstrap", {"topic": "patterns"}),
    ("fact_history", {"entity": "a", "key": "k"}),
)


async def figures(client: httpx.AsyncClient, daemon: Serving) -> str:
    return (await client.get(f"{daemon.http}/metrics", headers=SCOPES)).text


async def not_in_the_ledger(client: httpx.AsyncClient, daemon: Serving, reason: str) -> int:
    name = f'corecrux_tool_ledger_emit_failures_total{{reason="{reason}"}} '
    (value,) = [line for line in (await figures(client, daemon)).splitlines() if line.startswith(name)]
    return int(float(value.removeprefix(name)))


async def read_everything(client: httpx.AsyncClient, daemon: Serving) -> None:
    for name, arguments in READS:
        assert "result" in await tool(client, daemon.mcp, name, **arguments), name
    assert "result" in (await client.post(daemon.mcp, json=LIST)).json()


async def recorded(client: httpx.AsyncClient, daemon: Serving, passport: str = "__anon__") -> list[Any]:
    """The payloads of a caller's ledger, in order."""
    await daemon.parts.mailboxes["observations"].ask(FlushObservations())
    entity = ledger_of(passport).entity
    found = (await client.get(f"{daemon.http}/v1/facts/entity/{entity}", headers=SCOPES)).json()["facts"]
    return [json.loads(fact["value"])["payload"] for fact in sorted(found, key=lambda fact: str(fact["key"]))]


async def test_while_the_store_takes_nothing_all_that_does_not_write_is_answered(
    tmp_path: Path, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_goes_on = threading.Event()
    put = commands._APPLY[Put]

    def hang(*given: Any) -> object:
        assert disk_goes_on.wait(PATIENCE_S)
        return put(*given)

    async with serving(tmp_path, tool_ledger=True, mailbox_capacity=8) as daemon, trio.open_nursery() as nursery:
        monkeypatch.setitem(commands._APPLY, Put, hang)
        stored: list[dict[str, Any]] = []

        async def store() -> None:
            stored.append(await tool(client, daemon.mcp, "store_fact", **FACT))

        nursery.start_soon(store)
        for _ in range(20):
            await read_everything(client, daemon)
        assert await not_in_the_ledger(client, daemon, "mailbox_full") >= 20 * len(READS) - 3 * 8
        assert stored == []
        disk_goes_on.set()
        with trio.fail_after(PATIENCE_S):
            while not stored:
                await trio.lowlevel.checkpoint()
        assert "result" in stored[0]


async def test_while_the_disk_is_full_all_that_does_not_write_is_answered_and_what_is_lost_is_counted(
    tmp_path: Path, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StorageFull("the disk is full")

    async with serving(tmp_path, tool_ledger=True) as daemon:
        with monkeypatch.context() as patch:
            patch.setitem(commands._APPLY, Put, refuse)
            refused = await tool(client, daemon.mcp, "store_fact", **FACT)
            assert refused["error"] == {"code": -32603, "message": "the disk is full"}
            await read_everything(client, daemon)
            assert await recorded(client, daemon) == []
        assert await not_in_the_ledger(client, daemon, "storage") == 1 + len(READS) + 1
        assert await not_in_the_ledger(client, daemon, "mailbox_full") == 0
        await read_everything(client, daemon)
        assert len(await recorded(client, daemon)) == len(READS) + 1, "it heals by itself"


async def test_a_bug_in_the_ledger_fails_no_call(
    tmp_path: Path, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[object] = []

    def broken_once(*given: Any, **more: Any) -> Any:
        if not failures:
            failures.append(given)
            raise ZeroDivisionError("a bug")
        return sealed(*given, **more)

    async with serving(tmp_path, policy=RestartPolicy(max_restarts=3, backoff_s=0.01), tool_ledger=True) as daemon:
        monkeypatch.setattr(observations, "sealed", broken_once)
        assert "result" in await tool(client, daemon.mcp, "store_fact", **FACT)
        with trio.fail_after(PATIENCE_S):
            while not daemon.parts.mailboxes["observations"].figures.restarts:
                await trio.lowlevel.checkpoint()
        await read_everything(client, daemon)
        assert [entry.get("tool") for entry in await recorded(client, daemon)] == [*(name for name, _ in READS), None]


@pytest.mark.parametrize(
    ("raw_id", "kept"),
    [
        *(("1e400", None), ("-1e400", None), ("1" + "0" * 5000, None), ("[1]", None), ('{"a":1}', None)),
        *(
            ("true", True),
            ("18446744073709551616", 2**64),
            ("1.5", 1.5),
            ('"a"', "a"),
            ('"' + "x" * 300 + '"', "x" * 256),
        ),
    ],
    ids=lambda value: repr(value)[:20],
)
async def test_whatever_its_id_a_call_is_answered_and_in_the_ledger(
    tmp_path: Path, client: httpx.AsyncClient, raw_id: str, kept: object
) -> None:
    body = f'{{"jsonrpc":"2.0","id":{raw_id},"method":"tools/call","params":{{"name":"list_entities"}}}}'
    async with serving(tmp_path, tool_ledger=True, tool_ledger_raw_args=True) as daemon:
        answer = await client.post(daemon.mcp, content=body.encode())
        assert answer.status_code == 200
        assert answer.text.startswith(f'{{"jsonrpc":"2.0","id":{raw_id},"result":')
        (entry,) = await recorded(client, daemon)
        assert (entry["tool"], entry.get("request_id")) == ("list_entities", kept)


# --- refusals for want of a capability

SPELLINGS = (
    "Store_Fact",
    "store_fact ",
    " store_fact",
    "store_fact\u200b",
    "store\uff3ffact",
    "ſtore_fact",
    "store-fact",
    "",
)
UNKNOWN = ("nope", "crux-mcp.list_entities", "ext.x", "list_entities\n", "tools/call", "n" * 1_000_000, *SPELLINGS)


@pytest.mark.parametrize("kind", ["local", "file"])
async def test_a_refusal_comes_before_all_else_and_leaves_nothing(
    tmp_path: Path, client: httpx.AsyncClient, kind: str
) -> None:
    router = {"rcx_router": "local"} if kind == "local" else reading_token(tmp_path)
    async with serving(tmp_path, tool_ledger=True, **router) as daemon:
        mailboxes = daemon.parts.mailboxes
        refused = UNKNOWN if kind == "local" else (*UNKNOWN, "store_fact", "get_agent_identity", "cuecrux_session")
        for name in refused:
            answer = await tool(client, daemon.mcp, name, **FACT, hints=7)
            error = answer["error"]
            assert (error["code"], error["data"]["reason_code"]) == (-32030, "denied:capability_not_permitted"), name
        for params in ({}, {"name": None}, {"name": ["list_entities"]}):
            body = {**LIST, "method": "tools/call", "params": params}
            assert (await client.post(daemon.mcp, json=body)).json()["error"]["code"] == -32602
        await mailboxes["observations"].ask(FlushObservations())
        assert mailboxes["observations"].figures.handled == 1, "the flush itself"
        assert await mailboxes["traces"].ask(RecentTraces("__anon__", 10)) == ()
        assert await mailboxes["meter"].ask(UsageOf("__anon__")) == Usage()
        assert "tool=" not in await figures(client, daemon)

        assert "result" in await tool(client, daemon.mcp, "list_entities")
        assert [entry["tool"] for entry in await recorded(client, daemon)] == ["list_entities"]
        assert [entry.tool for entry in await mailboxes["traces"].ask(RecentTraces("__anon__", 10))] == [
            "list_entities"
        ]
        assert (await mailboxes["meter"].ask(UsageOf("__anon__"))).calls == 1
        assert 'tool="list_entities"' in await figures(client, daemon)


async def test_without_a_router_an_unknown_tool_is_not_found_and_recorded_as_unknown(
    tmp_path: Path, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, tool_ledger=True) as daemon:
        for name in UNKNOWN:
            # Tools of extensions are for callers with a name, whether or not there is such a tool.
            code = -32602 if name.startswith("ext.") else -32601
            assert (await tool(client, daemon.mcp, name))["error"]["code"] == code
        assert {entry["tool"] for entry in await recorded(client, daemon)} == {"unknown", "extension"}
        traced = await daemon.parts.mailboxes["traces"].ask(RecentTraces("__anon__", 100))
        assert len(traced) == len(UNKNOWN)
