"""The session handshake over HTTP: who it is for, what a body may be, and what a failure leaves behind."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from attrs import evolve

from crux.actors.intents import CurrentIntent
from crux.errors import StorageUnavailable
from crux.transport.rest import Api
from tests.conftest import Stack
from tests.contract.rest.conftest import client_of

Http = httpx.AsyncClient
Who = Callable[..., dict[str, str]]


@pytest.mark.parametrize("content", [b"", b"  ", b"{}", b'{"whatever": 1, "hints": null, "accepts": ["text/html"]}'])
async def test_a_session_needs_no_body_no_scope_and_no_name(http: Http, content: bytes) -> None:
    answer = await http.post("/session", content=content)
    assert answer.status_code == 200
    assert answer.json()["passport"]["principal_id"].endswith(":anonymous")


async def test_who_names_a_passport_opens_a_session_of_its_own(http: Http, who: Who, stack: Stack) -> None:
    answer = await http.post("/session", headers=who("alice", ""), json={"intent": "audit_review"})
    assert answer.json()["passport"]["principal_id"].endswith(":alice")
    assert await stack.services.intents.ask(CurrentIntent("alice")) == "audit_review"
    assert await stack.services.intents.ask(CurrentIntent("__anon__")) is None


async def test_a_plan_can_be_read_again_as_it_was_sealed(http: Http) -> None:
    sealed = await http.post("/session", json={"intent": "audit_review"})
    again = await http.get(f"/v1/sessions/{sealed.headers['X-CueCrux-Session-Id']}/plan")
    assert (again.status_code, again.content) == (200, sealed.content)
    assert again.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("session_id", ["0" * 32, "x", "a/b", "%25"])
async def test_a_plan_that_was_never_sealed_is_not_found(http: Http, session_id: str) -> None:
    assert (await http.get(f"/v1/sessions/{session_id}/plan")).status_code == 404


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (b"[]", "the body must be an object, or empty, got []"),
        (b'{"hints": []}', "'hints' must be an object, got []"),
        (b'{"accepts": "application/json"}', "'accepts' must be an array of strings"),
        (b'{"client_id": 1}', "'client_id' must be a string"),
        (b"{", "not JSON"),
    ],
)
async def test_a_body_that_is_none_is_refused(http: Http, content: bytes, detail: str) -> None:
    answer = await http.post("/session", content=content)
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith(detail)


async def test_a_passport_that_is_none_is_refused(http: Http) -> None:
    answer = await http.post("/session", headers={"X-Corecrux-Passport-Id": "not a name"})
    assert answer.status_code == 400


async def test_a_plan_that_cannot_be_kept_is_not_given_and_its_intent_does_not_count(
    http: Http, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(commands: list[object], now_us: int) -> list[Exception]:
        return [StorageUnavailable("the disk is gone")] * len(commands)

    monkeypatch.setattr(stack.engine, "commit", gone)
    answer = await http.post("/session", json={"intent": "audit_review"})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "x-cuecrux-session-id" not in answer.headers
    assert await stack.services.intents.ask(CurrentIntent("__anon__")) is None


async def test_where_mcp_is_off_a_plan_says_so(api: Api) -> None:
    async with client_of(evolve(api, services=evolve(api.services, mcp_url=None), mcp_enabled=False)) as client:
        assert (await client.post("/session")).json()["channels"] == {"bulk": None, "mcp": None}
