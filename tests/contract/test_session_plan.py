"""The session handshake over real sockets, on both servers and both ports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cbor2
import httpx
import pytest

from crux.config import ServerKind
from tests.serving import ALICE, BOB, Serving, bearer, serving, text_of, tool
from tests.session_plans import canonical, graph_hash_of, plan_hash_of

ADMIN = {"X-Corecrux-Scopes": "admin:read"}


async def opened(client: httpx.AsyncClient, daemon: Serving, token: str | None = None, **given: object) -> Any:
    """The plan that a call of the tool gets."""
    return text_of(await tool(client, daemon.mcp, "cuecrux_session", bearer(token) if token else None, **given))


async def kept(client: httpx.AsyncClient, daemon: Serving, entity: str) -> Any:
    """What an administrator finds under the stored name of a record of the daemon's."""
    answer = await client.get(f"{daemon.http}/v1/facts/entity/{entity}", headers=ADMIN)
    (fact,) = answer.json()["facts"]
    assert fact["private"] is True
    return json.loads(fact["value"])


def check_hashes(plan: Any) -> None:
    assert plan["capability_graph_hash"] == graph_hash_of(plan)
    assert plan["receipt"]["hash"] == plan_hash_of(plan)


async def test_the_tool_gives_a_plan_whose_hashes_anyone_can_make_again(
    daemon: Serving, client: httpx.AsyncClient
) -> None:
    plan = await opened(client, daemon, intent="session_review", hints={"max_capabilities": 2})
    check_hashes(plan)
    assert [node["cap"] for node in plan["capability_graph"]] == ["session_context", "memory.readable_editable"]
    assert plan["channels"] == {"bulk": None, "mcp": daemon.mcp}
    assert plan["passport"]["principal_id"] == f"ce:{plan['origin_install'][:8]}:anonymous"
    assert plan["intent_hint"] == "session_review"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"hints": 3}, "'hints' must be an object, got 3"),
        ({"hints": {"max_capabilities": 1.5}}, "'hints.max_capabilities' must be an integer, at least 0, got 1.5"),
        ({"intent": ["a"]}, "'intent' must be a string, got [\"a\"]"),
    ],
)
async def test_wrong_arguments_are_refused_by_name(
    daemon: Serving, client: httpx.AsyncClient, given: dict[str, object], message: str
) -> None:
    error = (await tool(client, daemon.mcp, "cuecrux_session", **given))["error"]
    assert (error["code"], error["message"]) == (-32602, message)
    over_http = await client.post(f"{daemon.http}/session", json=given)
    assert (over_http.status_code, over_http.json()["detail"]) == (400, message)


async def test_a_plan_and_the_install_outlive_the_daemon(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server) as daemon:
        plan = await opened(client, daemon, intent="audit_review")
    async with serving(tmp_path, mcp_server=server) as daemon:
        assert await kept(client, daemon, f"__session_plan__::{plan['session_id']}") == plan
        binding = await kept(client, daemon, f"__session_binding__::{plan['session_id']}")
        assert binding["passport_id"] == "personal-default"
        assert (await opened(client, daemon))["origin_install"] == plan["origin_install"]
    assert (tmp_path / ".install-uuid").stat().st_mode & 0o777 == 0o600


async def test_two_agents_have_sessions_of_their_own(guarded: Serving, client: httpx.AsyncClient) -> None:
    plans = {name: await opened(client, guarded, token) for name, token in {"alice": ALICE, "bob": BOB}.items()}
    for name, plan in plans.items():
        check_hashes(plan)
        assert plan["passport"]["principal_id"].endswith(f":{name}")
    assert plans["alice"]["session_id"] != plans["bob"]["session_id"]
    for token in (ALICE, BOB):
        entities = await tool(client, guarded.mcp, "list_entities", bearer(token))
        assert text_of(entities) == {"entities": []}
        store = await tool(
            client, guarded.mcp, "store_fact", bearer(token),
            entity=f"__session_plan__::{plans['bob']['session_id']}", key="plan", value="{}",
        )  # fmt: skip
        assert store["error"]["code"] == -32602


async def test_a_plan_over_http_is_the_same_with_its_id_and_hash_in_the_head(
    daemon: Serving, client: httpx.AsyncClient
) -> None:
    answer = await client.post(
        f"{daemon.http}/session",
        json={"client_id": "script", "client_version": "1", "accepts": ["application/json"], "intent": "audit_review"},
    )
    plan = answer.json()
    check_hashes(plan)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.headers["x-cuecrux-session-id"] == plan["session_id"]
    assert answer.headers["x-cuecrux-plan-hash"] == plan["receipt"]["hash"]
    assert answer.headers["cache-control"] == "no-store"
    assert answer.text == json.dumps(plan, sort_keys=True, separators=(",", ":"))
    assert await kept(client, daemon, f"__session_plan__::{plan['session_id']}") == plan


async def test_a_client_that_reads_cbor_gets_a_plan_in_it(daemon: Serving, client: httpx.AsyncClient) -> None:
    answer = await client.post(f"{daemon.http}/session", json={"accepts": ["application/cbor"]})
    assert answer.headers["content-type"] == "application/cbor"
    plan = cbor2.loads(answer.content)
    assert canonical(plan) == answer.content
    assert plan["session_id"].hex() == answer.headers["x-cuecrux-session-id"]
    assert plan["receipt"]["hash"].hex() == answer.headers["x-cuecrux-plan-hash"]


async def test_where_agents_have_tokens_nobody_opens_a_session_unnamed(
    guarded: Serving, client: httpx.AsyncClient
) -> None:
    url = f"{guarded.http}/session"
    assert (await client.post(url)).status_code == 401
    assert (await client.post(url, headers=bearer("x" * 32))).status_code == 401
    plan = (await client.post(url, headers=bearer(ALICE))).json()
    assert plan["passport"]["principal_id"].endswith(":alice")
    binding = await client.get(
        f"{guarded.http}/v1/facts/entity/__session_binding__::{plan['session_id']}", headers=ADMIN | bearer(ALICE)
    )
    assert binding.json()["facts"] == [], "not even its own, with an agent's eyes"
