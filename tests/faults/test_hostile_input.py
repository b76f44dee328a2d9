"""What hostile callers try at both ports, and get nowhere with."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import trio

from crux.domain.gaps import NoteGap
from crux.tools.catalogue import CATALOGUE
from tests.serving import AGENTS, ALICE, BOB, Serving, bearer, serving, text_of, tool

AS_ALICE, AS_BOB = bearer(ALICE), bearer(BOB)
EVERY_SCOPE = "admin:read admin:write query:read facts:write sessions:read sessions:write"
NOBODY_S, NEVER_STORED = "f_" + "0" * 32, "f_" + "1" * 32

KEPT = ("plain", "__bootstrap__::pattern:x", "a::b", "a%3Ab", "%", "ÄÖ", "decisions::d")
SECRET = "the secret of alice"

ODD_TEXT = (
    'x xy xyz " "" "a"b \' a* * % _ \\ -abc ^abc col:abc ( {} -- AND OR NOT NEAR(a İstanbul İİİ ıI ß ẞ ſſſ \u212a Å '
    "ΟΔΟΣ Σ ς ΑΣ:Β ﬁﬁﬁ ŉ ǅ e\u0301 \u0301 \u0301\u0301\u0301 👩\u200d👩\u200d👧 🇩🇪 שלום \u202eabc \u200d 日本 日本語 ไทย "
    "\ufeffabc \ufffe\ufffe\ufffe \U0010ffff\U0010ffff\U0010ffff \x01\x02\x03 \xad\xad\xad"
)
ODD_WORDS = (*ODD_TEXT.split(), "x" * 256)


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Serving]:
    async with serving(tmp_path) as serves:
        yield serves


def names() -> Iterator[str]:
    """The names of what Alice keeps, and what looks like a way to them."""
    for entity in KEPT:
        yield entity
        for owner in ("alice", "Alice", "alice:", "%61lice", "", "bob::__agent::alice"):
            yield f"__agent::{owner}::{entity}"
        yield f"__AGENT::alice::{entity}"
        yield f"__agent\u200b::alice::{entity}"
    yield from ("", "__agent::", "__agent::alice", "alice", "__session_state__::alice::s", "__session_state__::::s")


def attempts(kept_id: str) -> Iterator[tuple[str, dict[str, object]]]:
    """Tool calls of somebody who would see, count, retire or delete what Alice keeps; `kept_id` is one of her facts."""
    yield "list_entities", {}
    for query in ("secret", "s", "se", "alice", "agent", "::", "%", '"secret"', "secret*", None):
        for history in (False, True):
            yield "query_facts", {"query": query, "include_superseded": history, "min_effective_confidence": 0.9}
    yield "query_facts", {"top_k": 1000, "contract": "legacy"}
    for topic in (None, "", ":", "pattern", "plain"):
        yield "get_bootstrap", {"topic": topic, "query": "secret"}
    yield "delete_fact", {"fact_id": kept_id}
    yield "store_fact", {"entity": "mine", "key": "k", "value": "v", "supersedes": [kept_id]}
    yield "store_fact", {"entity": "mine", "key": "k", "value": "v", "supersedes": [kept_id, kept_id, NOBODY_S]}
    yield from searches()
    yield from memory_attempts(kept_id)
    for name in names():
        yield "query_facts", {"entity": name, "include_superseded": True}
        yield "fact_history", {"entity": name, "key": "k"}
        yield "memory_view", {"entity": name}
        yield "memory_history", {"entity": name, "key": "k"}
        yield "memory_freshness", {"entity": name}
        for private in (False, True):
            yield "store_fact", {"entity": name, "key": "k", "value": "mine", "private": private}
        yield "query_facts", {"entity": name, "include_superseded": True}
        yield "fact_history", {"entity": name, "key": "k"}


def searches() -> Iterator[tuple[str, dict[str, object]]]:
    """Searches of the index for what Alice keeps, and for all that there is beside it."""
    for query in ("secret", "alice", SECRET, "plain", "for all", "secret for all", "* OR secret"):
        for name in ("query", "query_scan"):
            yield name, {"tenant_id": "default", "query": query, "contract": "legacy"}
    handles = [f"{segment}:{number}" for segment in range(3) for number in range(40)]
    yield "query_expand", {"tenant_id": "default", "result_ids": handles}


def memory_attempts(kept_id: str) -> Iterator[tuple[str, dict[str, object]]]:
    """The memory tools, turned on what Alice keeps."""
    yield "memory_view", {"top_k": 500, "token_budget": 100_000}
    yield "memory_freshness", {"top_k": 500, "token_budget": 100_000}
    yield "memory_sweep_candidates", {"top_k": 500, "token_budget": 100_000}
    yield "memory_contradictions", {"limit": 0, "token_budget": 100_000}
    yield "memory_edit", {"fact_id": kept_id, "new_value": "mine"}
    yield "memory_pin", {"fact_id": kept_id}
    yield "memory_history", {"fact_id": kept_id}
    yield "memory_set_horizon", {"fact_id": kept_id, "horizon_class": "volatile"}
    yield "memory_reverify", {"fact_id": kept_id}
    yield "memory_acknowledge_use", {"turn_id": "t", "fact_ids": [kept_id]}
    consolidation = {"entity": "plain", "key": "k", "canonical_value": "mine", "target_fact_ids": [kept_id]}
    yield "memory_consolidate", {**consolidation, "protected_confidence_floor": 2, "consolidation_id": "c"}
    for kind, value in (
        ("entity_prefix", "__agent::"),
        ("entity_prefix", "p"),
        ("key_glob", "*"),
        ("passport_id", "alice"),
        ("before_timestamp", "2999-01-01T00:00:00Z"),
        ("tenant_id", "alice"),
    ):
        yield "memory_forget_dry_run", {"scope": {"type": kind, "value": value}}
    yield "memory_forget", {"scope": {"type": "entity_prefix", "value": "plain"}, "reason": "mine"}


def requests(kept_id: str) -> Iterator[tuple[str, str]]:
    """The same over HTTP."""
    yield from (("GET", f"/v1/facts?{query}") for query in ("", "query=secret&top_k=100", "query=s", "entity=plain"))
    yield from (
        ("GET", f"/v1/facts?entity_prefix={prefix}") for prefix in ("pl", "__", "__agent::", "__agent::alice::")
    )
    yield from (("GET", f"/v1/facts/entity/{quote(name, safe='')}") for name in names() if name)
    yield from (("GET", f"/v1/facts/export?{query}") for query in ("", "limit=1&cursor=1", "cursor=5"))
    yield from ((method, f"/v1/facts/{kept_id}") for method in ("GET", "DELETE"))
    yield from (("GET", f"/v1/sessions/{name}/state") for name in ("s", "alice::s", "__agent::alice::s"))
    yield "POST", "/v1/sessions/s/archive"


async def answers_to_bob(client: httpx.AsyncClient, daemon: Serving, kept_id: str) -> list[str]:
    """What Bob, and callers who only say that they may do anything, hear: every answer, without what chance decides."""
    heard = [json.dumps(await tool(client, daemon.mcp, name, AS_BOB, **given)) for name, given in attempts(kept_id)]
    declared = {"X-Corecrux-Scopes": EVERY_SCOPE}
    for headers in (AS_BOB, declared, {**declared, "X-Corecrux-Passport-Id": "alice"}, {**AS_BOB, **declared}):
        for method, path in requests(kept_id):
            response = await client.request(method, daemon.http + path, headers=headers)
            heard.append(f"{response.status_code} {response.text}")
    seen: dict[str, str] = {kept_id: "kept"}
    text = "\0".join(heard)
    text = re.sub(r"f_[0-9a-f]{32}", lambda found: seen.setdefault(found[0], f"fact {len(seen)}"), text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "then", text)
    text = re.sub(r'"took_ms": ?[\d.]+|\\\\"took_ms\\\\":[\d.]+', "took", text)
    text = re.sub(r"tokens_returned\W+\d+", "tokens", text)  # a handle has as many digits as chance gives it
    text = re.sub(r"r_forget_[0-9a-f]{16}|[0-9a-f]{64,}", "hash", text)
    text = re.sub(r"\b[01]:\d+\b|doc_id\W+\d+", "handle", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "here", text)
    return re.sub(r'"next_cursor":"\d+"', "cursor", text).split("\0")


async def gaps_of(client: httpx.AsyncClient, daemon: Serving) -> set[str]:
    """What Bob hears of gaps once all are written; those of one moment come in any order."""
    await daemon.parts.mailboxes["gaps"].ask(NoteGap("settle", ("x",), 1))
    found = text_of(await tool(client, daemon.mcp, "get_gaps", AS_BOB))
    return {re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "then", gap["key"] + gap["value"]) for gap in found["gaps"]}


async def test_what_an_agent_keeps_to_itself_changes_no_answer_to_others_and_is_changed_by_none(
    tmp_path: Path, client: httpx.AsyncClient
) -> None:
    async with (
        serving(tmp_path / "with", agent_tokens=AGENTS) as with_secrets,
        serving(tmp_path / "without", agent_tokens=AGENTS) as without,
    ):
        for daemon in (with_secrets, without):
            await tool(client, daemon.mcp, "store_fact", AS_ALICE, entity="public", key="k", value="for all")
        kept = {}
        for entity, number in itertools.product(KEPT, range(2)):
            value = f"{SECRET} {number}"
            stored = await tool(
                client, with_secrets.mcp, "store_fact", AS_ALICE, entity=entity, key="k", value=value, private=True
            )
            kept[entity] = text_of(stored)["fact_id"]
        await client.put(f"{with_secrets.http}/v1/sessions/s/state", headers=AS_ALICE, json={"kept": SECRET})

        heard = await answers_to_bob(client, with_secrets, kept["plain"])
        expected = await answers_to_bob(client, without, NEVER_STORED)
        assert not [answer for answer in heard if SECRET in answer]
        assert [pair for pair in zip(heard, expected, strict=True) if pair[0] != pair[1]] == []
        assert await gaps_of(client, with_secrets) == await gaps_of(client, without)

        for entity, fact_id in kept.items():
            history = text_of(await tool(client, with_secrets.mcp, "fact_history", AS_ALICE, entity=entity, key="k"))
            hers = [version for version in history["versions"] if version["value"].startswith(SECRET)]
            assert [version["deleted"] for version in hers] == [False, False], entity
            found = text_of(
                await tool(client, with_secrets.mcp, "query_facts", AS_ALICE, query="secret", entity=entity)
            )
            assert [row["fact_id"] for row in found["rows"]] == [fact_id]
        session = await client.get(f"{with_secrets.http}/v1/sessions/s/state", headers=AS_ALICE)
        assert session.json()["state"] == {"kept": SECRET}


HOSTILE_VALUES = (
    *("true", "0", "-1", "1.5", "1e308", str(2**70), str(-(2**70)), "1" + "0" * 400, "1e400", "1" + "0" * 5000),
    *('""', '" "', '"\\u0000"', '"\\ud800"', '"\U0010ffff"', '"' + "x" * 100_000 + '"'),
    *("[]", "[[]]", '["", ""]', f"[{2**70}]", "{}", '{"\\ud800": 1}', "[" * 150 + "]" * 150, "[" * 5000 + "]" * 5000),
)


def is_refusal(error: dict[str, Any]) -> bool:
    """Whether a call was refused for what it asks; a failure inside has no status of HTTP's."""
    return error["code"] in (-32602, -32700, -32030) or error.get("data", {}).get("status") == 404


@pytest.mark.parametrize("value", HOSTILE_VALUES, ids=lambda value: value[:16].encode("unicode_escape").decode())
async def test_no_argument_of_any_tool_makes_it_fail_inside(
    daemon: Serving, client: httpx.AsyncClient, value: str
) -> None:
    for each in CATALOGUE.tools:
        for parameter in each.parameters:
            required = {p.name: '"x"' for p in each.parameters if p.about.required} | {parameter.name: value}
            arguments = ",".join(f'"{name}":{text}' for name, text in required.items())
            params = f'{{"name":"{each.name}","arguments":{{{arguments}}}}}'
            body = f'{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}'
            response = (await client.post(daemon.mcp, content=body.encode())).json()
            assert "result" in response or is_refusal(response["error"]), (each.name, parameter.name)


@pytest.mark.parametrize("include_superseded", [False, True])
async def test_a_value_is_found_by_itself_whatever_its_script_or_signs(
    daemon: Serving, client: httpx.AsyncClient, include_superseded: bool
) -> None:
    facts = [{"entity": f"e{number}", "key": "k", "value": word} for number, word in enumerate(ODD_WORDS)]
    stored = await client.put(f"{daemon.http}/v1/facts/bulk", headers={"X-Corecrux-Scopes": "facts:write"}, json=facts)
    assert stored.status_code == 201
    lost = []
    for number, word in enumerate(ODD_WORDS):
        found = await tool(
            client, daemon.mcp, "query_facts", query=word, entity=f"e{number}", include_superseded=include_superseded
        )
        if [row["value"] for row in text_of(found)["rows"]] != [word]:
            lost.append(word)
    assert lost == []


async def test_writers_of_one_chain_at_the_same_time_make_versions_without_gap_or_repeat(
    daemon: Serving, client: httpx.AsyncClient
) -> None:
    writers, each = 64, 4
    stored: list[dict[str, Any]] = []

    async def write(writer: int) -> None:
        for number in range(each):
            value = f"{writer}.{number}"
            stored.append(text_of(await tool(client, daemon.mcp, "store_fact", entity="e", key="k", value=value)))

    async with trio.open_nursery() as nursery:
        for writer in range(writers):
            nursery.start_soon(write, writer)
    stored.sort(key=lambda fact: int(fact["version"]))
    assert [fact["version"] for fact in stored] == list(range(1, writers * each + 1))
    replaced = [fact["superseded_fact_ids"] for fact in stored]
    assert replaced == [[], *([fact["fact_id"]] for fact in stored[:-1])], "each replaces the one before"
    history = text_of(await tool(client, daemon.mcp, "fact_history", entity="e", key="k"))["versions"]
    assert [version["fact_id"] for version in history] == [fact["fact_id"] for fact in stored]


async def test_supersedes_takes_repeats_the_own_head_and_what_is_retired_and_refuses_what_is_gone(
    daemon: Serving, client: httpx.AsyncClient
) -> None:
    async def store(entity: str, *supersedes: str) -> dict[str, Any]:
        return await tool(
            client, daemon.mcp, "store_fact", entity=entity, key="k", value="v", supersedes=list(supersedes)
        )

    old, gone, head = [text_of(await store(entity))["fact_id"] for entity in ("old", "gone", "chain")]
    await tool(client, daemon.mcp, "delete_fact", fact_id=gone)
    assert text_of(await store("repeats", *[old] * 256))["superseded_fact_ids"] == [old]
    assert text_of(await store("again", old))["superseded_fact_ids"] == [old]
    assert text_of(await store("chain", head))["superseded_fact_ids"] == [head]
    for bad in (gone, NOBODY_S, ""):
        refused = await store("refused", old, bad)
        assert refused["error"]["data"] == {"param": "supersedes", "invalid_refs": [bad]}
    assert "refused" not in text_of(await tool(client, daemon.mcp, "list_entities"))["entities"]
