"""Facts over HTTP: what each route takes, gives and refuses, and who sees what."""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from crux.domain.commands import Put
from crux.domain.facts import Draft, draft_fact
from crux.domain.instants import rfc3339
from crux.domain.privacy import PrivacyRules, Viewer, private_entity
from tests.conftest import Stack

Http = httpx.AsyncClient
Who = Callable[..., dict[str, str]]
Keep = Callable[..., Awaitable[str]]

ALPHA = {"entity": "alpha", "key": "status", "value": "green"}


@pytest.fixture
def keep_private(stack: Stack) -> Keep:
    """Stores a private fact of an agent, as MCP does; gives its id."""

    async def keep(owner: str, entity: str, value: str) -> str:
        viewer = Viewer((owner,))
        draft = draft_fact(entity=entity, key="k", value=value, viewer=viewer, rules=PrivacyRules(), private=True)
        stored = await stack.services.facts.ask(Put(draft, viewer))
        fact_id: str = stored.fact.fact_id
        return fact_id

    return keep


async def put(http: Http, headers: dict[str, str], **members: object) -> dict[str, Any]:
    answer = await http.put("/v1/facts", headers=headers, json={**ALPHA, **members})
    assert answer.status_code == 201, answer.text
    fact: dict[str, Any] = answer.json()
    return fact


async def test_a_stored_fact_comes_back_whole_and_without_members_that_say_nothing(
    http: Http, who: Who, stack: Stack
) -> None:
    answer = await http.put("/v1/facts", headers=who("alice"), json=ALPHA)
    fact = answer.json()
    assert answer.status_code == 201
    assert answer.headers["content-type"] == "application/json"
    assert fact == {
        "fact_id": fact["fact_id"],
        "tenant_hash": "default",
        **ALPHA,
        "source_receipt": None,
        "confidence": 1.0,
        "stored_at": rfc3339(stack.clock.us),
        "tokens": 2,
        "deleted": False,
        "version": 1,
        "private": False,
        "horizon_class": "none",
        "actor": "alice",
    }
    assert (await http.get(f"/v1/facts/{fact['fact_id']}", headers=who("bob"))).json() == fact


async def test_a_second_value_is_the_next_version_of_the_chain(http: Http, who: Who) -> None:
    first = await put(http, who())
    second = await put(http, who(), value="red", confidence=0.5, source_receipt="r_1", horizon_class="volatile")
    assert (second["version"], second["supersedes"]) == (2, first["fact_id"])
    assert (second["confidence"], second["source_receipt"], second["horizon_class"]) == (0.5, "r_1", "volatile")
    assert "actor" not in second
    replaced = (await http.get(f"/v1/facts/{first['fact_id']}", headers=who())).json()
    assert replaced["superseded_by"] == second["fact_id"]


async def test_null_is_absent_and_unknown_members_are_not_looked_at(http: Http, who: Who) -> None:
    fact = await put(http, who(), confidence=None, horizon_class=None, private=False, tenant_hash="other", colour="red")
    assert (fact["confidence"], fact["tenant_hash"]) == (1.0, "default")


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[]", "a fact must be an object, got []"),
        ('{"entity": "a", "key": "k"}', "'value' is required: a string"),
        ('{"entity": "a", "key": "k", "value": 7}', "'value' must be a string, got 7"),
        (
            '{"entity": "a", "key": "k", "value": "v", "confidence": 7}',
            "'confidence' must be a number from 0 to 1, got 7",
        ),
        (
            '{"entity": "a", "key": "k", "value": "v", "horizon_class": "soon"}',
            "'horizon_class' must be one of volatile, medium, stable, none, got \"soon\"",
        ),
        ('{"entity": "a", "key": "k", "value": "v", "private": true}', "'private' must be false"),
        ('{"entity": "a", "key": "k", "value": "\\u0000"}', "text must not hold NUL"),
        ('{"entity": "a", "key": "k", "value": "\\ud800"}', "text must be Unicode without lone surrogates"),
        ('{"entity": "a", "key": "k", "value": "v", "x": ' + "[" * 201 + "]" * 201 + "}", "nested deeper than 200"),
    ],
)
async def test_a_body_that_is_no_fact_is_refused_with_what_was_expected(
    http: Http, who: Who, body: str, detail: str
) -> None:
    answer = await http.put("/v1/facts", headers=who(), content=body)
    assert answer.status_code == 400
    assert answer.json()["type"] == "https://errors.cuecrux.com/bad-request"
    assert answer.json()["detail"].startswith(detail)


async def test_a_horizon_is_named_in_any_case_with_space_around_it(http: Http, who: Who) -> None:
    stored = await http.put("/v1/facts", headers=who(), json={**ALPHA, "horizon_class": " Stable"})
    assert stored.json()["horizon_class"] == "stable"


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/json; charset=utf-8"])
async def test_a_body_is_read_as_json_whatever_it_is_called(http: Http, who: Who, content_type: str | None) -> None:
    named = {} if content_type is None else {"Content-Type": content_type}
    body = '{"entity": "a", "key": "k", "value": "v"}'
    assert (await http.put("/v1/facts", headers={**who(), **named}, content=body)).status_code == 201


@pytest.mark.parametrize("entity", ["__passport__::x", "__session_state__::alice::s", "__agent::bob::x"])
async def test_nobody_writes_what_belongs_to_the_daemon_or_to_an_agent(http: Http, who: Who, entity: str) -> None:
    for headers in (who(), who("alice")):
        for path, body in (
            ("/v1/facts", {**ALPHA, "entity": entity}),
            ("/v1/facts/bulk", [{**ALPHA, "entity": entity}]),
        ):
            answer = await http.put(path, headers=headers, json=body)
            assert answer.status_code == 403
            assert answer.json()["code"] == "RESERVED_ENTITY_PREFIX"


async def test_the_writer_of_a_born_private_fact_is_shown_what_it_wrote_and_cannot_read_it_back(
    http: Http, who: Who
) -> None:
    fact = await put(http, who("alice"), entity="decisions::x")
    assert (fact["entity"], fact["private"]) == ("decisions::x", True)
    assert (await http.get(f"/v1/facts/{fact['fact_id']}", headers=who("alice"))).status_code == 404
    assert (await http.get(f"/v1/facts/{fact['fact_id']}", headers=who())).status_code == 200


async def test_bulk_stores_all_items_in_order(http: Http, who: Who) -> None:
    items = [{**ALPHA, "value": str(number)} for number in range(3)]
    answer = await http.put("/v1/facts/bulk", headers=who("alice"), json=items)
    assert answer.status_code == 201
    assert [(fact["value"], fact["version"]) for fact in answer.json()["facts"]] == [("0", 1), ("1", 2), ("2", 3)]
    assert (await http.put("/v1/facts/bulk", headers=who(), json=[])).json() == {"facts": []}


@pytest.mark.parametrize(
    ("items", "detail"),
    [
        ({}, "the body must be an array of at most 1000 facts, got {}"),
        ([ALPHA] * 1001, "the body must be an array of at most 1000 facts, got 1001 of them"),
        ([ALPHA, {**ALPHA, "confidence": 2}], "item 1: 'confidence' must be a number from 0 to 1, got 2"),
        ([ALPHA, 7], "item 1: a fact must be an object, got 7"),
    ],
)
async def test_bulk_stores_nothing_where_any_item_is_refused(http: Http, who: Who, items: object, detail: str) -> None:
    answer = await http.put("/v1/facts/bulk", headers=who(), json=items)
    assert (answer.status_code, answer.json()["detail"]) == (400, detail)
    assert (await http.get("/v1/facts", headers=who())).json() == {"facts": [], "total_tokens": 0}


async def test_facts_are_found_by_words_entity_and_prefix_the_surest_first(http: Http, who: Who, stack: Stack) -> None:
    for value, confidence in (("one bird", 0.5), ("two birds", 1.0), ("a fish", 1.0)):
        stack.clock.us += 1_000_000
        await put(http, who(), entity=f"zoo:{value[:3]}", value=value, confidence=confidence)

    async def values(**query: str) -> list[str]:
        answer = await http.get("/v1/facts", headers=who("alice"), params=query)
        return [fact["value"] for fact in answer.json()["facts"]]

    assert await values() == ["a fish", "two birds", "one bird"]
    assert await values(query="BIRD") == ["two birds", "one bird"]
    assert await values(query="fish one") == ["a fish", "one bird"]
    assert await values(entity="zoo:two") == ["two birds"]
    assert await values(entity_prefix="zoo:") == ["a fish", "two birds", "one bird"]
    assert await values(entity_prefix="farm:") == []
    assert await values(top_k="2") == ["a fish", "two birds"]
    assert await values(top_k="-3") == ["a fish"]
    assert len(await values(top_k="99999999999999999999999")) == 3


async def test_age_does_not_change_the_order_of_facts(http: Http, who: Who, stack: Stack) -> None:
    await put(http, who(), key="stale", confidence=0.9, horizon_class="volatile")
    stack.clock.us += 48 * 3600 * 1_000_000
    await put(http, who(), key="fresh", confidence=0.8)
    found = (await http.get("/v1/facts", headers=who())).json()["facts"]
    assert [fact["key"] for fact in found] == ["stale", "fresh"]


@pytest.mark.parametrize(
    ("query", "keys", "total"),
    [
        ({}, ["a", "b", "c"], 7),
        ({"token_budget": "7"}, ["a", "b", "c"], 7),
        ({"token_budget": "6"}, ["a", "b"], 6),
        ({"token_budget": "5"}, ["a"], 4),
        ({"token_budget": "0"}, ["a"], 4),
        ({"token_budget": "7", "top_k": "2"}, ["a", "b"], 6),
        ({"token_budget": "7", "query": "nothing"}, [], 0),
    ],
)
async def test_a_token_budget_is_filled_in_order_and_always_holds_the_first(
    http: Http, who: Who, query: dict[str, str], keys: list[str], total: int
) -> None:
    for key, value, confidence in (("a", "x" * 16, 0.9), ("b", "x" * 8, 0.8), ("c", "x", 0.7)):
        await put(http, who(), key=key, value=value, confidence=confidence)
    answer = (await http.get("/v1/facts", headers=who(), params=query)).json()
    assert ([fact["key"] for fact in answer["facts"]], answer["total_tokens"]) == (keys, total)


async def test_as_of_leaves_out_facts_that_did_not_hold_then(http: Http, who: Who, stack: Stack) -> None:
    draft = Draft("alpha", "k", "v", valid_from_us=stack.clock.us)
    await stack.services.facts.ask(Put(draft))

    async def count(instant: str) -> int:
        return len((await http.get("/v1/facts", headers=who(), params={"as_of": instant})).json()["facts"])

    assert (await count(rfc3339(stack.clock.us)), await count("2020-01-01T00:00:00+02:00")) == (1, 0)


@pytest.mark.parametrize(
    ("path", "query", "detail"),
    [
        ("/v1/facts", {"as_of": "yesterday"}, "'as_of' must be an RFC 3339 instant"),
        ("/v1/facts", {"top_k": "ten"}, "'top_k' must be an integer from 1 to 100, got \"ten\""),
        ("/v1/facts", {"top_k": "1.5"}, "'top_k' must be an integer"),
        ("/v1/facts", {"top_k": "٣"}, "'top_k' must be an integer"),
        ("/v1/facts", {"token_budget": "-1"}, "'token_budget' must be an integer, at least 0, got \"-1\""),
        ("/v1/facts", {"query": "a\0b"}, "'query': text must not hold NUL"),
        ("/v1/facts", {"query": " ".join(map(str, range(300)))}, "'query' has 300 different words"),
        ("/v1/facts/export", {"limit": "many"}, "'limit' must be an integer from 1 to 10000"),
        ("/v1/facts/export", {"cursor": "x"}, "'cursor' must be the next_cursor of an earlier page"),
        ("/v1/facts/export", {"cursor": "9" * 19}, "'cursor' must be the next_cursor of an earlier page"),
        ("/v1/facts/entity/a%00b", {}, "'entity': text must not hold NUL"),
    ],
)
async def test_a_query_that_cannot_be_read_is_refused_by_name(
    http: Http, who: Who, path: str, query: dict[str, str], detail: str
) -> None:
    answer = await http.get(path, headers=who(), params=query or None)
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith(detail)


async def test_a_deleted_fact_is_shown_by_no_route(http: Http, who: Who) -> None:
    fact = await put(http, who())
    path = f"/v1/facts/{fact['fact_id']}"
    assert (await http.delete(path, headers=who("bob"))).json() == {"deleted": True}
    for again in (await http.delete(path, headers=who()), await http.get(path, headers=who())):
        assert again.status_code == 404
        assert again.json()["type"] == "https://errors.cuecrux.com/not-found"
    for route in ("/v1/facts", "/v1/facts/entity/alpha", "/v1/facts/export"):
        assert (await http.get(route, headers=who())).json()["facts"] == []


async def test_nobody_deletes_what_belongs_to_the_daemon(http: Http, who: Who, stack: Stack) -> None:
    stored = await stack.services.facts.ask(Put(Draft("__passport__::x", "k", "v", private=True)))
    path = f"/v1/facts/{stored.fact.fact_id}"
    assert (await http.delete(path, headers=who())).status_code == 403
    assert (await http.delete(path, headers=who("alice"))).status_code == 404
    assert (await http.get(path, headers=who())).json()["entity"] == "__passport__::x"


@pytest.mark.parametrize("entity", ["alpha", "repo:crux/src/a.py", "/etc//hosts/", "müller ?#%", "__agent", "a\nb"])
async def test_every_version_of_an_entity_is_read_under_its_name_whatever_that_holds(
    http: Http, who: Who, entity: str
) -> None:
    await put(http, who(), entity=entity, value="one")
    await put(http, who(), entity=entity, value="two")
    await put(http, who(), entity=entity, key="other", value="three")
    answer = await http.get(f"/v1/facts/entity/{quote(entity, safe='/:')}", headers=who("alice"))
    assert [fact["value"] for fact in answer.json()["facts"]] == ["one", "two", "three"]


async def test_a_private_fact_is_its_owners_and_the_raw_administrators(
    http: Http, who: Who, keep_private: Keep
) -> None:
    fact_id = await keep_private("alice", "plan", "secret")
    seen = {"alice": "plan", None: private_entity("alice", "plan")}
    for passport, entity in seen.items():
        for path in (f"/v1/facts/entity/{entity}", "/v1/facts", f"/v1/facts?entity={entity}", "/v1/facts?query=SECRET"):
            (fact,) = (await http.get(path, headers=who(passport))).json()["facts"]
            assert (fact["fact_id"], fact["entity"], fact["private"]) == (fact_id, entity, True)
        assert (await http.get(f"/v1/facts/{fact_id}", headers=who(passport))).json()["entity"] == entity


@pytest.mark.parametrize(("passport", "scopes"), [("bob", "admin:read admin:write"), (None, "query:read facts:write")])
async def test_a_private_fact_is_not_there_for_anyone_else(
    http: Http, who: Who, keep_private: Keep, passport: str | None, scopes: str
) -> None:
    fact_id = await keep_private("alice", "plan", "secret")
    headers = who(passport, scopes)
    for path in (
        "/v1/facts",
        "/v1/facts?query=secret",
        "/v1/facts/entity/plan",
        "/v1/facts/entity/__agent::alice::plan",
    ):
        assert (await http.get(path, headers=headers)).json()["facts"] == []
    assert (await http.get(f"/v1/facts/{fact_id}", headers=headers)).status_code == 404
    assert (await http.delete(f"/v1/facts/{fact_id}", headers=headers)).status_code == 404
    assert (await http.delete(f"/v1/facts/{fact_id}", headers=who("alice"))).status_code == 200


async def test_an_export_gives_every_public_fact_once_in_order(
    http: Http, who: Who, stack: Stack, keep_private: Keep
) -> None:
    for number in range(5):
        await put(http, who(), entity=f"e{number}", value=str(number))
    await keep_private("alice", "plan", "secret")
    for headers in (who(), who("alice"), who("bob")):
        values: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = (await http.get("/v1/facts/export", headers=headers, params={"limit": "2", "cursor": cursor})).json()
            values += [fact["value"] for fact in page["facts"]]
            cursor = page["next_cursor"]
            assert page["has_more"] == (cursor is not None)
            assert page["exported_at"] == rfc3339(stack.clock.us)
        assert values == ["0", "1", "2", "3", "4"]


async def test_an_export_starts_at_since_and_ignores_one_that_is_no_instant(http: Http, who: Who, stack: Stack) -> None:
    await put(http, who(), value="early")
    stack.clock.us += 1_000_000
    await put(http, who(), value="late", key="k2")

    async def values(since: str) -> list[str]:
        answer = await http.get("/v1/facts/export", headers=who(), params={"since": since})
        return [fact["value"] for fact in answer.json()["facts"]]

    assert await values(rfc3339(stack.clock.us)) == ["late"]
    assert await values("last week") == ["early", "late"]
