"""What the daemon says of itself."""

from collections.abc import Callable

import httpx
import pytest
from trio.testing import MockClock

from crux import __version__
from crux.domain.commands import CheckReadiness
from crux.transport.rest import Api
from tests.conftest import Stack
from tests.contract.rest.conftest import client_of

Http = httpx.AsyncClient
Who = Callable[..., dict[str, str]]


async def test_a_daemon_that_runs_says_so_with_its_build(deaf_http: Http) -> None:
    assert (await deaf_http.get("/healthz")).json() == {"ok": True, "build": {"version": __version__}}


async def test_a_daemon_that_keeps_writes_is_ready(http: Http) -> None:
    answer = await http.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"ok": True})


async def test_a_daemon_without_room_on_its_disk_is_not_ready(
    http: Http, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack.engine, "free_bytes", lambda: 7)
    answer = await http.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["ok"] is False
    (check,) = answer.json()["checks"]
    assert (check["name"], check["ok"]) == ("data_dir_capacity", False)
    assert check["error"].startswith("7 bytes are free")


async def test_a_daemon_whose_store_does_not_answer_is_not_ready(deaf_http: Http, autojump_clock: MockClock) -> None:
    answer = await deaf_http.get("/readyz")
    assert (answer.status_code, autojump_clock.current_time()) == (503, 2.0)
    assert [check["name"] for check in answer.json()["checks"]] == ["facts"]


@pytest.mark.parametrize("mcp_enabled", [True, False])
async def test_the_version_says_what_this_build_can_do(api: Api, mcp_enabled: bool) -> None:
    from attrs import evolve

    async with client_of(evolve(api, mcp_enabled=mcp_enabled)) as client:
        answer = (await client.get("/v1/version")).json()
    assert answer["version"] == __version__
    assert answer["features"] == {
        "text_search": False,
        "graph_expand": False,
        "self_observe": False,
        "mcp": mcp_enabled,
        "embeddings": False,
    }
    assert (answer["sync"]["mode"], answer["sync"]["configured"]) == ("local_only", False)
    assert (answer["update"]["enabled"], answer["update"]["state"]) == (False, "disabled")


async def test_actors_show_their_figures(http: Http, who: Who, stack: Stack) -> None:
    before = stack.services.facts.report().handled
    for _ in range(3):
        await stack.services.facts.ask(CheckReadiness())
    facts, _, intents, *_ = (await http.get("/v1/actors", headers=who())).json()["actors"]
    assert (facts["name"], facts["handled"], facts["depth"], facts["capacity"]) == ("facts", before + 3, 0, 1024)
    assert facts["handling"]["count"] == before + 3
    assert facts["handling"]["mean_ms"] > 0
    assert facts["handling"]["p50_ms"] <= facts["handling"]["p99_ms"]
    assert intents["name"] == "intents"
    assert intents["handling"] == {"count": 0, "mean_ms": None, "p50_ms": None, "p99_ms": None}


async def test_metrics_are_prometheus_text(http: Http) -> None:
    answer = await http.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'corecrux_actor_mailbox_depth{actor="facts"} 0.0' in answer.text.splitlines()
