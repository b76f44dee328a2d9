"""The documents that say how to come in, for anyone who asks the MCP port, over real sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from crux.config import ServerKind
from tests.authorization import METADATA, RESOURCE, AuthorizationServer, settings_for
from tests.serving import AGENTS, LIST, Serving, bearer, serving

CARD = "/.well-known/agent-card"
ORIGIN = {"Origin": "http://localhost:5173"}


def root(daemon: Serving) -> str:
    return daemon.mcp.removesuffix("/mcp")


async def test_the_metadata_is_there_for_anyone(
    guarded: Serving, client: httpx.AsyncClient, authority: AuthorizationServer
) -> None:
    response = await client.get(root(guarded) + METADATA, headers=ORIGIN)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.headers["access-control-allow-origin"] == ORIGIN["Origin"]
    assert response.text == (
        f'{{"resource":"{RESOURCE}","authorization_servers":["{authority.url}"],'
        '"scopes_supported":["mcp:read"],"bearer_methods_supported":["header"]}'
    )


async def test_the_card_lists_the_floor_and_says_who_may_come_in(guarded: Serving, client: httpx.AsyncClient) -> None:
    card = (await client.get(root(guarded) + CARD)).json()
    assert card["name"].startswith("crux-daemon:")
    assert card["access"]["baseUrl"] == guarded.http
    assert card["authentication"] == {
        "required": True,
        "scheme": "oauth2+bearer",
        "modes": ["bearer-token", "oauth2"],
    }
    names = [skill["name"] for skill in card["skills"]]
    listed = (await client.post(guarded.mcp, json=LIST, headers=bearer("good"))).json()["result"]["tools"]
    order = [tool["name"] for tool in listed]
    assert "query_facts" in names
    assert "list_entities" not in names, "it is not of the floor"
    assert names == sorted(names, key=order.index)
    assert all(set(skill) == {"name", "description"} for skill in card["skills"])


@pytest.mark.parametrize("required", [False, True])
async def test_the_card_says_what_the_daemon_does(
    tmp_path: Path, client: httpx.AsyncClient, authority: AuthorizationServer, required: bool
) -> None:
    async with serving(tmp_path, **settings_for(authority, mcp_require_auth=required)) as daemon:
        card = (await client.get(root(daemon) + CARD)).json()
        assert card["authentication"] == {"required": required, "scheme": "oauth2", "modes": ["oauth2"]}
        assert ((await client.post(daemon.mcp, json=LIST)).status_code == 401) == required


@pytest.mark.parametrize("path", [METADATA, CARD])
async def test_a_document_may_be_read_and_nothing_else(guarded: Serving, client: httpx.AsyncClient, path: str) -> None:
    got = await client.get(root(guarded) + path)
    head = await client.head(root(guarded) + path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(got.content))
    for method in ("POST", "PUT", "DELETE"):
        response = await client.request(method, root(guarded) + path)
        assert (response.status_code, response.content) == (405, b"")
        assert response.headers["allow"] == "GET, HEAD, OPTIONS"
    preflight = await client.options(root(guarded) + path, headers=ORIGIN)
    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (204, ORIGIN["Origin"])
    assert (await client.get(root(guarded) + path + "/")).status_code == 404


async def test_what_is_not_configured_is_not_published(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server, agent_card=False) as daemon:
        for path in (METADATA, CARD):
            for method in ("GET", "POST"):
                response = await client.request(method, root(daemon) + path)
                assert (response.status_code, response.content) == (404, b"")


async def test_a_resource_alone_is_published_and_named_in_a_401(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    settings: dict[str, Any] = {"mcp_resource_url": RESOURCE, "agent_tokens": AGENTS}
    async with serving(tmp_path, mcp_server=server, **settings) as daemon:
        assert (await client.get(root(daemon) + METADATA)).json()["resource"] == RESOURCE
        response = await client.post(daemon.mcp, json=LIST, headers=bearer("good"))
        assert (response.status_code, "www-authenticate" in response.headers) == (401, True)
