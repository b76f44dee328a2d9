"""An actor that raises, from the outside: its asker learns an id, others notice nothing, its state is back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog.testing
import trio

from crux.actors.supervisor import RestartPolicy, RestartsExhausted
from crux.domain.commands import Probe, Put, Search
from crux.errors import StorageUnavailable
from crux.storage import commands, search
from tests.serving import serving, tool

FAST = RestartPolicy(max_restarts=3, backoff_s=0.01)


def failing_once(action: Callable[..., object], when: Callable[[Any], bool]) -> Callable[..., object]:
    """`action`, raising a bug the first time that `when` holds for its message."""
    failures: list[object] = []

    def run(message: object, *rest: object) -> object:
        if not failures and when(message):
            failures.append(message)
            raise ZeroDivisionError("a bug")
        return action(message, *rest)

    return run


def incident_of(response: Mapping[str, object]) -> str:
    error = response["error"]
    assert isinstance(error, dict)
    assert error["code"] == -32603
    assert "ZeroDivision" not in error["message"]
    incident = error["data"]["incident"]
    assert incident in error["message"]
    return str(incident)


async def test_a_bug_in_a_write_fails_that_caller_alone_and_names_its_log_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cursed = commands._APPLY[Put]
    monkeypatch.setitem(
        commands._APPLY,
        Put,
        failing_once(cursed, lambda put: put.draft.entity == "cursed"),
    )
    async with serving(tmp_path, policy=FAST) as daemon, httpx.AsyncClient(trust_env=False) as client:
        outcomes: dict[str, dict[str, object]] = {}

        async def store(entity: str) -> None:
            outcomes[entity] = await tool(client, daemon.mcp, "store_fact", entity=entity, key="k", value="v")

        with structlog.testing.capture_logs() as logs:
            async with trio.open_nursery() as nursery:
                for entity in ("a", "b", "cursed", "c", "d"):
                    nursery.start_soon(store, entity)
        incident = incident_of(outcomes.pop("cursed"))
        assert [entry["incident"] for entry in logs if entry["event"] == "an actor failed"] == [incident]
        assert all("result" in response for response in outcomes.values())
        again = await tool(client, daemon.mcp, "store_fact", entity="cursed", key="k", value="v")
        assert '"version":1' in again["result"]["content"][0]["text"]


async def test_a_bug_in_a_read_does_not_touch_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        search._READS,
        Search,
        failing_once(search._search, lambda asked: asked.entity == "cursed"),
    )
    async with serving(tmp_path, policy=FAST) as daemon, httpx.AsyncClient(trust_env=False) as client:
        incident_of(await tool(client, daemon.mcp, "query_facts", entity="cursed"))
        assert "result" in await tool(client, daemon.mcp, "store_fact", entity="cursed", key="k", value="back")
        found = await tool(client, daemon.mcp, "query_facts", entity="cursed")
        assert "back" in found["result"]["content"][0]["text"]


async def test_a_tool_with_a_bug_answers_with_an_id_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from crux.tools import facts

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("/secret/path")

    monkeypatch.setattr(facts, "crc_answer", broken)
    async with serving(tmp_path) as daemon, httpx.AsyncClient(trust_env=False) as client:
        response = await tool(client, daemon.mcp, "query_facts")
        incident_of(response)
        assert "secret" not in str(response)


async def test_an_actor_that_cannot_be_kept_running_ends_the_daemon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(BaseExceptionGroup) as caught:  # noqa: PT012 - the whole life of the daemon is the subject
        async with serving(tmp_path, policy=FAST) as daemon, httpx.AsyncClient(trust_env=False) as client:
            monkeypatch.setitem(search._READS, Search, broken)
            for _ in range(10):
                await tool(client, daemon.mcp, "query_facts")
    exhausted, _ = caught.value.split(RestartsExhausted)
    assert exhausted is not None
    assert "recall failed 4 times" in repr(exhausted)


async def test_while_the_disk_is_full_reads_go_on_and_readiness_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The full disk itself is in test_full_disk; here, what the outside sees of it."""
    full = StorageUnavailable("the disk is full")

    def refuse(*_: object) -> None:
        raise full

    async with serving(tmp_path) as daemon, httpx.AsyncClient(trust_env=False) as client:
        await tool(client, daemon.mcp, "store_fact", entity="a", key="k", value="before")
        assert (await client.get(f"{daemon.http}/readyz")).status_code == 200
        with monkeypatch.context() as patch:
            for command in (Put, Probe):
                patch.setitem(commands._APPLY, command, refuse)
            refused = await tool(client, daemon.mcp, "store_fact", entity="a", key="k", value="during")
            assert refused["error"] == {"code": -32603, "message": "the disk is full"}
            found = await tool(client, daemon.mcp, "query_facts", entity="a")
            assert "before" in found["result"]["content"][0]["text"]
            unready = await client.get(f"{daemon.http}/readyz")
            assert unready.status_code == 503
            assert unready.json()["checks"] == [{"name": "storage_writes", "ok": False, "error": "the disk is full"}]
        assert (await client.get(f"{daemon.http}/readyz")).status_code == 200, "it heals by itself"
        assert "result" in await tool(client, daemon.mcp, "store_fact", entity="a", key="k", value="after")
