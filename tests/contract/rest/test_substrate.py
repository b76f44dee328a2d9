"""Entities, edges and kinds over HTTP, and the undoing of consolidations."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

Http = httpx.AsyncClient
Who = Callable[..., dict[str, str]]

EDGE = {"from_kind": "a", "from_id": "1", "edge_kind": "calls", "to_kind": "b", "to_id": "2"}


async def test_an_entity_goes_through_its_whole_life(http: Http, who: Who) -> None:
    url = "/v1/entities/service/billing"
    put = (await http.put(url, headers=who("alice"), json={"port": 1})).json()["entity"]
    assert (put["payload"], put["version"], put["actor"]) == ({"port": 1}, 1, "alice")
    assert (await http.get(url, headers=who())).json() == {"entity": put}
    assert (await http.get("/v1/entities?kind=service", headers=who())).json() == {
        "entities": [put], "count": 1, "left_out": 0,
    }  # fmt: skip
    deleted = (await http.delete(url, headers=who())).json()["entity"]
    assert (deleted["version"], deleted["deleted"], deleted["actor"]) == (2, True, "anonymous")
    assert (await http.get(url, headers=who())).status_code == 404
    assert (await http.get(f"{url}?include_deleted=true", headers=who())).json() == {"entity": deleted}
    assert (await http.get("/v1/entities?include_deleted=1&limit=5", headers=who())).json()["count"] == 1
    assert (await http.get(f"{url}/history", headers=who())).json()["count"] == 2


async def test_an_edge_goes_through_its_whole_life(http: Http, who: Who) -> None:
    put = (await http.put("/v1/edges", headers=who("alice"), json={**EDGE, "payload": {"x": 1}})).json()["edge"]
    assert (put["edge_id"], put["payload"]) == ("a/1|calls|b/2", {"x": 1})
    assert (await http.get("/v1/edges?from_kind=a&from_id=1", headers=who())).json()["edges"] == [put]
    assert (await http.get("/v1/edges?to_kind=z", headers=who())).json()["count"] == 0
    assert (await http.delete("/v1/edges", params=EDGE, headers=who())).json()["edge"]["deleted"] is True
    answer = await http.request("DELETE", "/v1/edges", json={**EDGE, "to_id": "3"}, headers=who())
    assert (answer.status_code, answer.json()["detail"]) == (404, 'no edge "a/1|calls|b/3"')


async def test_kinds_are_shown(http: Http, who: Who) -> None:
    assert [kind["kind"] for kind in (await http.get("/v1/kinds", headers=who())).json()["kinds"]] == [
        "capability",
        "repo",
    ]
    assert (await http.get("/v1/kinds/repo", headers=who())).json()["registration"]["kind"] == "repo"
    assert (await http.get("/v1/kinds/none", headers=who())).status_code == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "detail"),
    [
        ("PUT", "/v1/entities/repo/x", {}, "'payload' is not what kind 'repo' asks for"),
        ("PUT", "/v1/entities/k/x", [1], "the body must be an object"),
        ("PUT", "/v1/edges", {**EDGE, "from_id": 1}, "'from_id' is required: a string"),
        ("PUT", "/v1/edges", {**EDGE, "edge_kind": " "}, "'edge_kind' must not be blank"),
        ("DELETE", "/v1/edges", {}, "'from_kind' is required: a string"),
        ("GET", "/v1/entities?include_deleted=maybe", None, "'include_deleted' must be true or false"),
        ("GET", "/v1/edges?limit=x", None, "'limit' must be an integer"),
    ],
)
async def test_what_is_wrong_is_named(http: Http, who: Who, method: str, path: str, body: Any, detail: str) -> None:
    answer = await http.request(method, path, headers=who(), json=body)
    assert answer.status_code == 400
    assert detail in answer.json()["detail"]


async def test_reading_and_writing_need_their_scopes(http: Http, who: Who) -> None:
    assert (await http.put("/v1/edges", headers=who(scopes="query:read"), json=EDGE)).status_code == 403
    assert (await http.put("/v1/edges", headers=who(scopes="facts:write"), json=EDGE)).status_code == 200
    assert (await http.get("/v1/edges", headers=who(scopes="facts:write"))).status_code == 403
    assert (await http.delete("/v1/memory/consolidations/x", headers=who(scopes="facts:write"))).status_code == 403
    missing = await http.delete("/v1/memory/consolidations/x", headers=who())
    assert (missing.status_code, missing.json()["detail"]) == (404, 'no consolidation "x"')
