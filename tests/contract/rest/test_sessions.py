"""Session states over HTTP."""

from collections.abc import Callable
from urllib.parse import quote

import httpx
import pytest
import trio

from crux.domain.commands import Put
from crux.domain.instants import rfc3339
from crux.domain.sessions import saved, session_draft
from crux.errors import Conflict
from tests.conftest import Stack

Http = httpx.AsyncClient
Who = Callable[..., dict[str, str]]

STATE = "/v1/sessions/s-1/state"


@pytest.mark.parametrize(
    ("body", "tokens"),
    [('{"next": ["a", 1.5, null]}', 6), ("null", 1), ('"é"', 1), ("[]", 1), ("123456789012345678901234567890", 8)],
)
async def test_any_json_comes_back_as_the_state_it_was_stored_as(
    http: Http, who: Who, stack: Stack, body: str, tokens: int
) -> None:
    put = await http.put(STATE, headers=who("alice"), content=body)
    assert put.status_code == 200
    got = await http.get(STATE, headers=who("alice"))
    assert got.json() == put.json()
    assert got.json() == {
        "session_id": "s-1",
        "state": httpx.Response(200, text=body).json(),
        "updated_at": rfc3339(stack.clock.us),
        "total_tokens": tokens,
    }


async def test_a_state_is_replaced_as_a_whole_and_its_past_is_gone(http: Http, who: Who, stack: Stack) -> None:
    await http.put(STATE, headers=who("alice"), json={"a": 1})
    await http.put(STATE, headers=who("alice"), json={"b": 2})
    assert (await http.get(STATE, headers=who("alice"))).json()["state"] == {"b": 2}
    kept = (await http.get("/v1/facts/entity/__session_state__::alice::s-1", headers=who())).json()["facts"]
    assert [fact["version"] for fact in kept] == [2]


async def test_archiving_marks_a_session_and_leaves_its_state_and_time(http: Http, who: Who, stack: Stack) -> None:
    saved_at = rfc3339(stack.clock.us)
    plain = (await http.put(STATE, headers=who("alice"), json=[1])).json()
    stack.clock.us += 1_000_000
    marks = {"archived": True, "archived_at": rfc3339(stack.clock.us)}
    archived = await http.post("/v1/sessions/s-1/archive", headers=who("alice"))
    assert (archived.status_code, archived.json()) == (200, plain | marks)
    again = await http.post("/v1/sessions/s-1/archive", headers=who("alice"), json={"reason": "done"})
    assert again.json() == plain | marks | {"archive_reason": "done"}
    assert (await http.get(STATE, headers=who("alice"))).json() == again.json()
    for _ in range(2):
        assert (await http.post("/v1/sessions/s-1/unarchive", headers=who("alice"))).json() == plain
    assert plain["updated_at"] == saved_at


async def test_storing_a_state_unarchives_its_session(http: Http, who: Who) -> None:
    await http.put(STATE, headers=who("alice"), json=[1])
    await http.post("/v1/sessions/s-1/archive", headers=who("alice"))
    assert "archived" not in (await http.put(STATE, headers=who("alice"), json=[2])).json()


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("{", "not JSON"),
        ("[]", "the body must be an object, or empty, got []"),
        ('{"reason": 7}', "'reason' must be a string"),
    ],
)
async def test_an_archive_body_that_is_none_is_refused(http: Http, who: Who, body: str, detail: str) -> None:
    await http.put(STATE, headers=who(), json=[1])
    answer = await http.post("/v1/sessions/s-1/archive", headers=who(), content=body)
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith(detail)


@pytest.mark.parametrize("body", ["", "{]", '"\\ud800"', '["\\u0000"]', "[" * 201 + "]" * 201])
async def test_a_state_that_is_no_json_is_refused(http: Http, who: Who, body: str) -> None:
    assert (await http.put(STATE, headers=who(), content=body)).status_code == 400


@pytest.mark.parametrize(
    "session_id", ["a", "a/b", "/a/", "state", "x::y", "__agent::bob", "%", "%2F", "Zoë ☃", "x" * 512, "a\nb"]
)
async def test_an_id_may_be_any_text(http: Http, who: Who, session_id: str) -> None:
    path = f"/v1/sessions/{quote(session_id, safe='')}"
    for passport in ("alice", None):
        assert (await http.put(f"{path}/state", headers=who(passport), json=1)).status_code == 200
        for answer in (
            await http.get(f"{path}/state", headers=who(passport)),
            await http.post(f"{path}/archive", headers=who(passport)),
            await http.post(f"{path}/unarchive", headers=who(passport)),
        ):
            assert (answer.status_code, answer.json()["session_id"]) == (200, session_id)


@pytest.mark.parametrize("session_id", ["__agent_session::bob::x", "x" * 513, "é" * 257, "a\0b"])
async def test_an_id_that_no_session_can_have_is_refused(http: Http, who: Who, session_id: str) -> None:
    path = f"/v1/sessions/{quote(session_id, safe='')}"
    answers = [
        await http.put(f"{path}/state", headers=who(), json=1),
        await http.get(f"{path}/state", headers=who()),
        await http.post(f"{path}/archive", headers=who()),
        await http.post(f"{path}/unarchive", headers=who()),
    ]
    assert [answer.status_code for answer in answers] == [400] * 4


async def test_an_id_belongs_to_the_passport_that_used_it(http: Http, who: Who) -> None:
    callers = {"alice": "alice", "bob": "bob", None: "nobody", "alice::s-1": "colons"}
    for passport, state in callers.items():
        assert (await http.get(STATE, headers=who(passport))).status_code == 404
        for marking in ("archive", "unarchive"):
            answer = await http.post(f"/v1/sessions/s-1/{marking}", headers=who(passport))
            assert (answer.status_code, answer.json()["title"]) == (404, "Not Found")
        await http.put(STATE, headers=who(passport), json=state)
    for passport, state in callers.items():
        assert (await http.get(STATE, headers=who(passport))).json()["state"] == state


async def test_a_session_is_gone_once_its_lifetime_is_over(http: Http, who: Who, stack: Stack) -> None:
    record = saved("s-1", {}, now_us=stack.clock.us, ttl_s=60)
    await stack.services.facts.ask(Put(session_draft("alice", record), keep_history=False))
    alive = (await http.get(STATE, headers=who("alice"))).json()
    assert alive["expires_at"] == rfc3339(stack.clock.us + 60_000_000)
    stack.clock.us += 60_000_000
    assert (await http.get(STATE, headers=who("alice"))).status_code == 404
    assert (await http.post("/v1/sessions/s-1/archive", headers=who("alice"))).status_code == 404


async def test_markings_and_writes_of_one_session_at_the_same_time_lose_none(http: Http, who: Who) -> None:
    await http.put(STATE, headers=who("alice"), json=0)
    statuses: list[int] = []

    async def mark(kind: str) -> None:
        statuses.append((await http.post(f"/v1/sessions/s-1/{kind}", headers=who("alice"))).status_code)

    async with trio.open_nursery() as nursery:
        for kind in ("archive", "unarchive", "archive"):
            nursery.start_soon(mark, kind)
    assert statuses == [200] * 3
    assert (await http.get(STATE, headers=who("alice"))).json()["state"] == 0


async def test_a_marking_gives_up_when_others_write_every_time(
    http: Http, who: Who, stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    await http.put(STATE, headers=who("alice"), json=0)
    asks = 0
    ask = stack.services.facts.ask

    async def refuse(message: Put, *, deadline_s: float | None = None) -> object:
        nonlocal asks
        asks += 1
        assert message.expected_version == 1
        raise Conflict("somebody else wrote")

    monkeypatch.setattr(stack.services.facts, "ask", refuse)
    answer = await http.post("/v1/sessions/s-1/archive", headers=who("alice"))
    monkeypatch.setattr(stack.services.facts, "ask", ask)
    assert (answer.status_code, asks) == (409, 5)
