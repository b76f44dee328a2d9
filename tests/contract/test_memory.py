"""The memory tools over a real socket: what each gives, refuses and leaves behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cbor2
import httpx
import pytest
from blake3 import blake3

from crux.actors.supervisor import RestartPolicy
from crux.domain.acknowledgements import TurnOf
from crux.domain.forget import MOST_SCOPE_BYTES
from tests.contract.agents import AS_BOB, Agent
from tests.serving import AGENTS, bearer, serving, tool


async def test_a_fact_is_viewed_edited_pinned_and_looked_back_on(bob: Agent, eve: Agent) -> None:
    first = await bob.store("service:billing", "platform team", key="owner")
    own = await bob.store("plan", "mine", private=True)
    assert await bob("memory_pin", fact_id=first) == {"fact_id": first, "pinned": True}
    edited = await bob("memory_edit", fact_id=first, new_value="data team", reason="reorg")
    assert edited["old_fact_id"] == first
    assert edited["new_fact"] == {
        "id": edited["new_fact"]["id"],
        "entity": "service:billing",
        "key": "owner",
        "value": "data team",
        "version": 2,
        "stored_at": edited["new_fact"]["stored_at"],
        "confidence": 1.0,
        "pinned": True,
        "source_receipt": "memory_edit:reorg",
        "actor": "bob",
    }
    viewed = await bob("memory_view")
    assert [(fact["id"], fact["pinned"]) for fact in viewed["facts"]] == [
        (edited["new_fact"]["id"], True),
        (own, False),
        (first, True),
    ]
    assert (viewed["returned"], viewed["left_out"]) == (3, 0)
    assert [fact["id"] for fact in (await eve("memory_view"))["facts"]] == [edited["new_fact"]["id"], first]
    history = await bob("memory_history", fact_id=first)
    assert [(version["version"], version["value"]) for version in history["versions"]] == [
        (1, "platform team"),
        (2, "data team"),
    ]
    assert await bob("memory_history", entity="service:billing", key="owner") == history
    assert await bob("memory_history", entity="service:billing", key="nothing") == {"versions": []}
    assert [version["value"] for version in (await bob("memory_history", fact_id=own))["versions"]] == ["mine"]


async def test_a_view_keeps_its_budget_the_first_in_any_case_and_tells(bob: Agent, client: httpx.AsyncClient) -> None:
    for number in range(4):
        await bob.store(f"e{number}", "x" * 400)
    cut = await bob("memory_view", token_budget=200)
    assert (cut["returned"], cut["left_out"]) == (1, 3)
    assert len((await bob("memory_view", token_budget=0))["facts"]) == 1
    assert len((await bob("memory_view", top_k=2))["facts"]) == 2
    await bob.store("large", "x" * 9000)
    assert (await bob("memory_view"))["returned"] == 1, "without a budget it is 2000"
    metrics = (await client.get(f"{bob.daemon.http}/metrics")).text
    assert 'corecrux_tool_response_truncated_total{reason="token_budget",tool="memory_view"} 3.0' in metrics
    all_but_one = await bob("memory_view", token_budget=2300, top_k=2)
    assert (all_but_one["returned"], all_but_one["left_out"]) == (1, 1), "of the second not even the value fits"
    metrics = (await client.get(f"{bob.daemon.http}/metrics")).text
    assert 'corecrux_tool_response_truncated_total{reason="token_budget",tool="memory_view"} 4.0' in metrics


@pytest.mark.parametrize(
    ("name", "arguments", "code", "message"),
    [
        ("memory_edit", {"fact_id": "f_unknown", "new_value": "x"}, -32602, "no fact f_unknown that you can see"),
        ("memory_edit", {"fact_id": "f"}, -32602, "'new_value' is required"),
        ("memory_pin", {"fact_id": "f_unknown"}, -32602, "no fact f_unknown that you can see"),
        ("memory_pin", {"fact_id": "f", "pinned": "yes"}, -32602, "'pinned' must be true or false"),
        ("memory_history", {"entity": "a"}, -32602, "pass 'entity' and 'key', or 'fact_id'"),
        ("memory_history", {"fact_id": "f_unknown"}, -32602, "no fact f_unknown that you can see"),
        ("memory_history", {"entity": "__work__::1", "key": "k"}, -32602, "'__work__::', which is no agent's memory"),
        ("memory_view", {"top_k": 0}, -32602, "'top_k' must be an integer, at least 1, got 0"),
        ("memory_acknowledge_use", {"turn_id": ""}, -32602, "'turn_id' must have 1 to 256 bytes, got 0"),
        ("memory_acknowledge_use", {"turn_id": "t" * 257}, -32602, "got 257"),
        ("memory_acknowledge_use", {"turn_id": "t", "fact_ids": "f"}, -32602, "'fact_ids' must be an array"),
        ("memory_acknowledge_use", {"turn_id": "t", "fact_ids": ["f"] * 257}, -32602, "at most 256 ids, got 257"),
        ("memory_acknowledge_use", {"turn_id": "t", "intent": "plan"}, -32602, "'intent' must be one of answer"),
        ("memory_forget_dry_run", {"scope": "all"}, -32602, "'scope' must be an object"),
        ("memory_forget_dry_run", {"scope": {"type": "all", "value": "x"}}, -32602, "'scope.type' must be one of"),
        ("memory_forget_dry_run", {"scope": {"type": "key_glob"}}, -32602, "'scope.value' is required"),
        ("memory_forget_dry_run", {"scope": {"type": "key_glob", "value": " "}}, -32602, "must not be blank"),
        (
            "memory_forget",
            {"scope": {"type": "before_timestamp", "value": "soon"}, "reason": "r"},
            -32602,
            "'scope.value' must be an RFC 3339 instant",
        ),
        (
            "memory_forget",
            {"scope": {"type": "key_glob", "value": "k"}, "reason": " "},
            -32602,
            "'reason' must not be blank",
        ),
        ("memory_set_horizon", {"fact_id": "f", "horizon_class": "soon"}, -32602, "one of volatile, medium"),
        ("memory_reverify", {}, -32602, "'fact_id' is required"),
        ("memory_contradictions", {"limit": -1}, -32602, "'limit' must be an integer, at least 0"),
        (
            "memory_consolidate",
            {"entity": "a", "key": "k", "canonical_value": "v", "target_fact_ids": []},
            -32602,
            "'target_fact_ids' must be 1 to 256 ids, got 0",
        ),
        (
            "memory_consolidate",
            {"entity": "__work__::1", "key": "k", "canonical_value": "v", "target_fact_ids": ["f"]},
            -32602,
            "entity '__work__::1' is reserved",
        ),
    ],
)
async def test_what_is_wrong_is_named(
    bob: Agent, name: str, arguments: dict[str, Any], code: int, message: str
) -> None:
    found = await bob.refused(name, **arguments)
    assert found[0] == code
    assert message in found[1]


@pytest.mark.parametrize(
    ("name", "arguments", "code", "data"),
    [
        ("memory_edit", {"fact_id": "f", "new_value": "x"}, -32602, {"requires_agent_identity": True}),
        ("memory_pin", {"fact_id": "f"}, -32602, {"requires_agent_identity": True}),
        ("memory_acknowledge_use", {"turn_id": "t"}, -32602, {"requires_agent_identity": True}),
        (
            "memory_forget",
            {"scope": {"type": "key_glob", "value": "*"}, "reason": "r"},
            -32602,
            {"requires_agent_identity": True},
        ),
        (
            "memory_set_horizon",
            {"fact_id": "f", "horizon_class": "stable"},
            -32030,
            {"tool": "memory_set_horizon", "requires_passport": True},
        ),
        ("memory_reverify", {"fact_id": "f"}, -32030, {"tool": "memory_reverify", "requires_passport": True}),
        (
            "memory_consolidate",
            {"entity": "a", "key": "k", "canonical_value": "v", "target_fact_ids": ["f"]},
            -32030,
            {"tool": "memory_consolidate", "requires_passport": True},
        ),
    ],
)
async def test_what_is_done_in_an_agent_s_name_needs_one(
    nobody: Agent, name: str, arguments: dict[str, Any], code: int, data: dict[str, Any]
) -> None:
    found = await nobody.refused(name, **arguments)
    assert (found[0], found[2]) == (code, data)
    assert "connect with an agent token" in found[1]


async def test_an_anonymous_caller_reads_what_is_public(nobody: Agent) -> None:
    await nobody.store("a", "1")
    assert [fact["pinned"] for fact in (await nobody("memory_view"))["facts"]] == [False]
    assert len((await nobody("memory_freshness"))["rows"]) == 1
    assert (await nobody("memory_sweep_candidates"))["rows"] == []
    assert (await nobody("memory_contradictions"))["candidates"] == []
    scope = {"type": "entity_prefix", "value": "a"}
    assert (await nobody("memory_forget_dry_run", scope=scope))["count"] == 1


async def test_another_agent_s_private_fact_is_as_unknown_as_one_that_never_was(bob: Agent, eve: Agent) -> None:
    secret = await eve.store("plan", "secret", private=True)

    async def answers(fact_id: str) -> list[Any]:
        given = [
            await bob.refused("memory_edit", fact_id=fact_id, new_value="x"),
            await bob.refused("memory_pin", fact_id=fact_id),
            await bob.refused("memory_history", fact_id=fact_id),
            await bob("memory_set_horizon", fact_id=fact_id, horizon_class="stable"),
            await bob("memory_reverify", fact_id=fact_id),
            await bob("memory_acknowledge_use", turn_id="t", fact_ids=[fact_id]),
            await bob.refused(
                "memory_consolidate", entity="plan", key="k", canonical_value="x", target_fact_ids=[fact_id]
            ),
        ]
        return [str(answer).replace(fact_id, "ID") for answer in given]

    assert await answers(secret) == await answers("f_" + "0" * 32)
    assert [fact["value"] for fact in (await eve("memory_view"))["facts"]] == ["secret"]


async def test_freshness_is_listed_changed_and_renewed(bob: Agent) -> None:
    first = await bob.store("a", "1", horizon_class="volatile")
    await bob.store("b", "1")
    listed = await bob("memory_freshness")
    assert [(row["entity"], row["horizon_class"], row["freshness"], row["age_hours"]) for row in listed["rows"]] == [
        ("a", "volatile", "fresh", 0),
        ("b", "none", "fresh", 0),
    ]
    assert listed["policy"] == {"volatile_stale_hours": 24, "medium_stale_days": 35, "stable_stale_days": 365}
    assert listed["rows"][0]["reverified_at"] is None
    assert await bob("memory_set_horizon", fact_id=first, horizon_class="stable") == {
        "fact_id": first, "horizon_class": "stable", "ok": True,
    }  # fmt: skip
    receipt = await bob("memory_reverify", fact_id=first)
    assert (receipt["receipt_class"], receipt["receipt_id"][:4], len(receipt["receipt_id"])) == ("Reverify", "rev_", 36)
    (row,) = (await bob("memory_freshness", entity="a"))["rows"]
    assert (row["horizon_class"], row["reverified_at"]) == ("stable", receipt["reverified_at"])
    assert await bob("memory_reverify", fact_id="f_unknown") == {"found": False, "fact_id": "f_unknown"}
    cut = await bob("memory_freshness", token_budget=0)
    assert (len(cut["rows"]), cut["left_out"]) == (1, 1)
    await bob.store("a", "2")
    (candidate,) = (await bob("memory_sweep_candidates"))["rows"]
    assert (candidate["fact_id"], candidate["reason"]) == (first, "superseded")
    assert candidate["superseded_by"] is not None


async def test_what_the_dry_run_names_is_forgotten_and_a_receipt_kept(bob: Agent, eve: Agent) -> None:
    for number in range(3):
        await bob.store(f"scratch-{number}", f"value {number}")
    kept = await bob.store("scratch-pinned", "stays")
    await bob("memory_pin", fact_id=kept)
    theirs = await eve.store("scratch-own", "eve's", private=True)
    scope = {"type": "entity_prefix", "value": "scratch-"}
    preview = await bob("memory_forget_dry_run", scope=scope)
    assert (preview["scope"], preview["count"], preview["dry_run"], preview["left_out"]) == (scope, 3, True, 0)
    named = {fact["fact_id"] for fact in preview["facts_that_would_be_affected"]}
    receipt = await bob("memory_forget", scope=scope, reason="tidy up")
    body = bytes.fromhex(receipt["receipt_body_cbor_hex"])
    affected = cbor2.loads(body)["facts_affected"]
    assert {fact["fact_id"] for fact in affected} == named
    assert (receipt["facts_affected"], receipt["passport_id"], receipt["recovery_window_seconds"]) == (3, "bob", 0)
    assert receipt["receipt_body_hash_hex"] == blake3(body).hexdigest()
    key = bytes.fromhex(receipt["value_hash_key_hex"])
    assert affected[0]["pre_forget_value_hash_hex"] == blake3(b"value 0", key=key).hexdigest()
    assert [fact["id"] for fact in (await bob("memory_view"))["facts"]] == [kept]
    assert [fact["id"] for fact in (await eve("memory_view"))["facts"]] == [theirs, kept]
    history = await bob("memory_history", entity="scratch-0", key="k")
    assert [(version["value"], version["deleted"]) for version in history["versions"]] == [("", True)]
    assert (await bob("memory_forget", scope=scope, reason="again"))["facts_affected"] == 0
    assert (await bob("memory_forget_dry_run", scope=scope, include_pinned=True))["count"] == 1


@pytest.mark.parametrize("character", ["a", "*", "[", "?", "é"])
async def test_a_glob_of_any_length_stops_nobody_s_memory(nobody: Agent, character: str) -> None:
    await nobody.store("a", "1")
    longest = MOST_SCOPE_BYTES // len(character.encode())
    for length in (longest + 1, 60_000):
        for _ in range(RestartPolicy().max_restarts + 1):
            scope = {"type": "key_glob", "value": character * length}
            code, message, data = await nobody.refused("memory_forget_dry_run", scope=scope)
            assert (code, data) == (-32602, {"param": "scope.value"})
            assert "must have at most 4096 bytes, got" in message
    found = await nobody("memory_forget_dry_run", scope={"type": "key_glob", "value": character * longest})
    assert found["count"] == (1 if character == "*" else 0)


async def test_a_turn_s_facts_are_acknowledged_and_the_rest_counted(bob: Agent) -> None:
    first = await bob.store("a", "1")
    answer = await bob(
        "memory_acknowledge_use", turn_id="t7", fact_ids=[first, first, "f_unknown"], intent="decision", note="x"
    )
    assert answer == {
        "turn_id": "t7",
        "intent": "decision",
        "feature_enabled": True,
        "receipt_ref": "mu_bob_t7",
        "memories_used": [{"fact_id": first, "topic": "a", "age_days": 0}],
        "filtered_count": 1,
        "redacted_count": 0,
        "not_found_count": 1,
        "not_visible_count": 0,
    }
    kept = await bob.daemon.parts.mailboxes["acknowledgements"].ask(TurnOf("bob", "t7"))
    assert kept is not None
    assert [used.fact_id for used in kept.used] == [first]


async def test_facts_are_consolidated_once_and_no_agent_undoes_it(bob: Agent, client: httpx.AsyncClient) -> None:
    first = await bob.store("a", "1", confidence=0.5)
    second = await bob.store("a", "2", confidence=0.5)
    asked: dict[str, Any] = {"entity": "a", "key": "k", "canonical_value": "3", "consolidation_id": " mine "}
    answer = await bob("memory_consolidate", target_fact_ids=[first, second], **asked)
    receipt = answer["receipt"]
    assert (answer["status"], receipt["consolidation_id"]) == ("consolidated", "mine")
    assert receipt["source_fact_ids"] == receipt["superseded_fact_ids"] == [first, second]
    assert receipt["canonical_hash"] == f"blake3:{blake3(b'3').hexdigest()}"
    assert await bob("memory_consolidate", target_fact_ids=[first, second], **asked) == answer
    code, message, data = await bob.refused("memory_consolidate", target_fact_ids=[first], **asked)
    assert (code, "another one" in message, data["status"]) == (-32603, True, 409)
    assert (await bob.refused("delete_fact", fact_id=receipt["canonical_fact_id"]))[0] == -32030
    url = f"{bob.daemon.http}/v1/memory/consolidations/mine"
    assert (await client.delete(url, headers=AS_BOB)).status_code == 403
    assert (await client.delete(url)).status_code == 401


async def test_an_operator_undoes_a_consolidation_over_http(tmp_path: Path, client: httpx.AsyncClient) -> None:
    async with serving(tmp_path, agent_token="o" * 32) as daemon:
        bob = Agent(client, daemon, bearer("o" * 32))
        first = await bob.store("a", "1", confidence=0.5)
        asked = {"entity": "a", "key": "k", "canonical_value": "3", "consolidation_id": "mine"}
        receipt = (await bob("memory_consolidate", target_fact_ids=[first], **asked))["receipt"]
        url = f"{daemon.http}/v1/memory/consolidations/mine"
        undone = await client.delete(url, headers=bearer("o" * 32))
        assert undone.json() == {
            "consolidation_id": "mine",
            "undone": True,
            "deleted_fact_id": receipt["canonical_fact_id"],
            "restored_fact_ids": [first],
        }
        assert (await client.delete(url, headers=bearer("o" * 32))).status_code == 404
        assert [row["value"] for row in (await bob("query_facts", entity="a"))["rows"]] == ["1"]


SOFT = {
    "memory_view": {},
    "memory_edit": {"fact_id": "f", "new_value": "x"},
    "memory_pin": {"fact_id": "f"},
    "memory_history": {"fact_id": "f"},
}
HARD: dict[str, tuple[dict[str, Any], str]] = {
    "memory_freshness": ({}, "FRESHNESS"),
    "memory_sweep_candidates": ({}, "FRESHNESS"),
    "memory_set_horizon": ({"fact_id": "f", "horizon_class": "none"}, "FRESHNESS"),
    "memory_reverify": ({"fact_id": "f"}, "FRESHNESS"),
    "memory_contradictions": ({}, "CONSOLIDATION"),
    "memory_consolidate": (
        {"entity": "a", "key": "k", "canonical_value": "v", "target_fact_ids": ["f"]},
        "CONSOLIDATION",
    ),
    "memory_forget": ({"scope": {"type": "key_glob", "value": "*"}, "reason": "r"}, "SCOPED_FORGET"),
}


async def test_what_is_switched_off_says_so_by_name(tmp_path: Path, client: httpx.AsyncClient) -> None:
    off: dict[str, Any] = dict.fromkeys(
        ("memory_panel", "memory_ack", "freshness", "consolidation", "scoped_forget", "artefacts"), False
    )
    async with serving(tmp_path, agent_tokens=AGENTS, **off) as daemon:
        bob = Agent(client, daemon, AS_BOB)
        for name, arguments in SOFT.items():
            assert await bob(name, **arguments) == {
                "feature_flag": "CORECRUXD_FEATURE_MEMORY_PANEL",
                "feature_enabled": False,
            }
        ack = await bob("memory_acknowledge_use", turn_id="t")
        assert (ack["feature_enabled"], ack["feature_flag"]) == (False, "CORECRUXD_FEATURE_MEMORY_ACK")
        for name, (arguments, feature) in HARD.items():
            code, message, data = await bob.refused(name, **arguments)
            assert (code, data["status"]) == (-32603, 404)
            assert f"set CORECRUXD_FEATURE_{feature}=1" in message
        assert (await bob("memory_forget_dry_run", scope={"type": "key_glob", "value": "*"}))["count"] == 0


async def test_envelopes_name_what_an_answer_draws_on_where_they_are_on(
    tmp_path: Path, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, agent_tokens=AGENTS, audit_envelope=True) as daemon:
        bob = Agent(client, daemon, AS_BOB)
        fact_id = await bob.store("a", "1")
        for name, arguments in (
            ("memory_freshness", {}),
            ("memory_acknowledge_use", {"turn_id": "t", "fact_ids": [fact_id]}),
        ):
            result = (await tool(client, daemon.mcp, name, AS_BOB, **arguments))["result"]
            memories = result["_meta"]["envelope"]["memories_used"]
            assert [memory["fact_id"] for memory in memories] == [fact_id]
