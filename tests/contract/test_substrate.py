"""Entities, edges, kinds and artefacts over a real socket."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import httpx
import pytest

from crux.domain.artefacts import MOST_TTL_S
from crux.domain.substrate import LONGEST_NAME, MOST_PAYLOAD_BYTES
from tests.contract.agents import AS_BOB, Agent
from tests.serving import AGENTS, serving

CACHE = {"id": "CACHE", "name": "Cache", "system": "store", "maturity": "built"}
EDGE = {"from_kind": "capability", "from_id": "A", "edge_kind": "depends_on", "to_kind": "capability", "to_id": "B"}


async def test_a_record_is_written_read_listed_deleted_and_looked_back_on(nobody: Agent) -> None:
    entity = (await nobody("entity_upsert", kind="capability", id="CACHE", payload=CACHE))["entity"]
    assert (entity["payload"], entity["version"], entity["deleted"], entity["actor"]) == (CACHE, 1, False, "anonymous")
    assert (await nobody("entity_get", kind="capability", id="CACHE"))["entity"] == entity
    assert await nobody("entity_list") == {"entities": [entity], "count": 1, "left_out": 0}
    assert (await nobody("entity_list", limit=0)) == {"entities": [], "count": 0, "left_out": 1}
    deleted = (await nobody("entity_delete", kind="capability", id="CACHE"))["entity"]
    assert (deleted["version"], deleted["deleted"]) == (2, True)
    assert await nobody("entity_get", kind="capability", id="CACHE") == {"entity": None}
    assert (await nobody("entity_get", kind="capability", id="CACHE", include_deleted=True))["entity"] == deleted
    history = await nobody("entity_history", kind="capability", id="CACHE")
    assert (history["count"], [version["version"] for version in history["versions"]]) == (2, [1, 2])
    assert await nobody("entity_history", kind="capability", id="NONE") == {"versions": [], "count": 0}
    assert (await nobody("list_entities"))["entities"] == []


async def test_a_link_is_written_read_listed_and_deleted(bob: Agent) -> None:
    edge = (await bob("edge_upsert", **EDGE, payload={"since": 2026}))["edge"]
    assert (edge["edge_id"], edge["payload"], edge["actor"]) == (
        "capability/A|depends_on|capability/B", {"since": 2026}, "bob",
    )  # fmt: skip
    assert (await bob("edge_get", **EDGE))["edge"] == edge
    assert (await bob("edge_list", to_kind="capability", to_id="B"))["edges"] == [edge]
    assert (await bob("edge_delete", **EDGE))["edge"]["deleted"] is True
    assert await bob("edge_get", **EDGE) == {"edge": None}
    assert (await bob("edge_list"))["count"] == 0
    assert (await bob("edge_list", include_deleted=True))["count"] == 1
    assert (await bob("edge_upsert", **EDGE))["edge"]["payload"] is None


@pytest.mark.parametrize(
    ("name", "arguments", "code", "message"),
    [
        ("entity_upsert", {"kind": "k", "id": "i"}, -32602, "'payload' is required"),
        ("entity_upsert", {"kind": "k", "id": "i", "payload": [1]}, -32602, "'payload' must be an object"),
        ("entity_upsert", {"kind": " ", "id": "i", "payload": {}}, -32602, "'kind' must not be blank"),
        (
            "entity_upsert",
            {"kind": "k", "id": "i" * 513, "payload": {}},
            -32602,
            f"at most {LONGEST_NAME} bytes, got 513",
        ),
        (
            "entity_upsert",
            {"kind": "k", "id": "i", "payload": {"x": "y" * MOST_PAYLOAD_BYTES}},
            -32602,
            f"at most {MOST_PAYLOAD_BYTES} bytes of JSON",
        ),
        (
            "entity_upsert",
            {"kind": "capability", "id": "i", "payload": {**CACHE, "maturity": "ripe"}},
            -32602,
            "'payload.maturity' is not what kind 'capability' asks for",
        ),
        (
            "entity_upsert",
            {"kind": "repo", "id": "i", "payload": {}},
            -32602,
            "'payload' is not what kind 'repo' asks for",
        ),
        ("entity_delete", {"kind": "k", "id": "none"}, -32603, "404: no entity k/none"),
        ("edge_delete", EDGE, -32603, "404: no edge capability/A|depends_on|capability/B"),
        ("edge_upsert", {**EDGE, "to_id": ""}, -32602, "'to_id' must not be blank"),
        ("edge_list", {"limit": -1}, -32602, "'limit' must be an integer, at least 0"),
        ("kind_get", {}, -32602, "'kind' is required"),
        ("artefact_put", {"content_bytes_base64": "e30", "mime_type": "a/b"}, -32602, "must be standard base64"),
        ("artefact_put", {"content_bytes_base64": "", "mime_type": "a/b"}, -32602, "must be 1 to"),
        ("artefact_put", {"content_bytes_base64": "e30=", "mime_type": " "}, -32602, "'mime_type' must not be blank"),
        (
            "artefact_put",
            {"content_bytes_base64": "e30=", "mime_type": "a/b", "ttl_seconds": MOST_TTL_S + 1},
            -32602,
            f"'ttl_seconds' must be at most {MOST_TTL_S}",
        ),
        ("artefact_get", {"artefact_id": "art_none"}, -32602, 'no artefact "art_none" of yours, or it has expired'),
        ("artefact_list", {"top_k": 0}, -32602, "'top_k' must be an integer, at least 1"),
    ],
)
async def test_what_is_wrong_is_named(
    bob: Agent, name: str, arguments: dict[str, Any], code: int, message: str
) -> None:
    found = await bob.refused(name, **arguments)
    assert found[0] == code
    assert message in found[1]


async def test_names_and_payloads_are_taken_up_to_their_limits(bob: Agent) -> None:
    payload = {"x": "y" * (MOST_PAYLOAD_BYTES - 8)}
    entity = (await bob("entity_upsert", kind="k", id="i" * LONGEST_NAME, payload=payload))["entity"]
    assert entity["payload"] == payload


async def test_registered_kinds_say_what_they_ask_for(bob: Agent) -> None:
    kinds = await bob("kind_list")
    assert [kind["kind"] for kind in kinds["kinds"]] == ["capability", "repo"]
    assert kinds["kinds"][0]["allowed_outgoing_edges"] == ["depends_on"]
    registration = (await bob("kind_get", kind="capability"))["registration"]
    assert registration["json_schema"]["required"] == ["id", "name", "system", "maturity"]
    assert await bob("kind_get", kind="other") == {"registration": None}
    assert (await bob("entity_upsert", kind="other", id="x", payload={}))["entity"]["version"] == 1


async def test_bytes_are_parked_listed_and_fetched_by_their_owner_alone(bob: Agent, eve: Agent) -> None:
    content = base64.b64encode(b"\0\1\2").decode()
    shown = await bob("artefact_put", content_bytes_base64=content, mime_type="a/b", tool_origin="report")
    assert (shown["size_bytes"], shown["tool_origin"]) == (3, "report")
    assert shown["expires_at"] > shown["created_at"]
    assert await bob("artefact_get", artefact_id=shown["artefact_id"]) == {**shown, "content_base64": content}
    assert await bob("artefact_list") == {"artefacts": [shown], "count": 1}
    assert await eve("artefact_list") == {"artefacts": [], "count": 0}
    assert (await eve.refused("artefact_get", artefact_id=shown["artefact_id"]))[0] == -32602
    kept = await bob("artefact_put", content_bytes_base64="e30=", mime_type="a/b", ttl_seconds=0)
    assert kept["expires_at"] is None


async def test_artefacts_need_a_name_and_can_be_switched_off(
    nobody: Agent, tmp_path: Path, client: httpx.AsyncClient
) -> None:
    for name, arguments in (
        ("artefact_put", {"content_bytes_base64": "e30=", "mime_type": "a/b"}),
        ("artefact_get", {"artefact_id": "art_x"}),
        ("artefact_list", {}),
    ):
        assert (await nobody.refused(name, **arguments))[2] == {"requires_agent_identity": True}
        async with serving(tmp_path / name, agent_tokens=AGENTS, artefacts=False) as daemon:
            assert await Agent(client, daemon, AS_BOB)(name, **arguments) == {
                "feature_flag": "CORECRUXD_FEATURE_ARTEFACTS",
                "feature_enabled": False,
            }


async def test_all_of_it_outlives_the_daemon(tmp_path: Path, client: httpx.AsyncClient) -> None:
    async with serving(tmp_path, agent_tokens=AGENTS) as daemon:
        bob = Agent(client, daemon, AS_BOB)
        await bob("entity_upsert", kind="capability", id="CACHE", payload=CACHE)
        await bob("edge_upsert", **EDGE)
        parked = await bob("artefact_put", content_bytes_base64="e30=", mime_type="a/b")
    async with serving(tmp_path, agent_tokens=AGENTS) as daemon:
        bob = Agent(client, daemon, AS_BOB)
        assert (await bob("entity_get", kind="capability", id="CACHE"))["entity"]["payload"] == CACHE
        assert (await bob("edge_list"))["count"] == 1
        assert (await bob("artefact_get", artefact_id=parked["artefact_id"]))["content_base64"] == "e30="


async def test_links_between_what_is_found_rank_it_higher(bob: Agent) -> None:
    await bob.store("service:billing", "needle needle needle")
    await bob.store("service:mail", "needle and quite some more words beside it")
    await bob.store("other", "needle in short")
    link = {"from_kind": "service", "from_id": "billing", "to_kind": "service", "to_id": "mail"}
    await bob("edge_upsert", **link, edge_kind="calls")
    found = await bob("query", tenant_id="default", query="needle")
    assert found["meta"]["score_space"] == "bm25_graph_fused"
    assert [row["entity"] for row in found["results"]].index("service:mail") < 2
    plain = await bob("query", tenant_id="default", query="needle", contract="legacy")
    assert plain["meta"]["score_merge_rule"] == "weighted_linear"
