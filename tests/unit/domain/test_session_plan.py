"""What a plan says, and that its hashes stand for all of it."""

import json
from typing import Any

import cbor2
import msgspec
import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.privacy import PrivacyRules, reserved_prefix
from crux.domain.session_capabilities import Wishes
from crux.domain.session_plan import (
    BINDING_KEY,
    BINDING_PREFIX,
    PLAN_KEY,
    PLAN_PREFIX,
    Request,
    SessionPlan,
    graph_hash,
    mint,
    plan_cbor,
    plan_drafts,
    plan_hash,
    plan_json,
)
from tests.session_plans import BYTE_STRINGS, canonical, graph_hash_of, plan_hash_of

NOW_US = 1_800_000_000_123_456
INSTALL = "0123456789abcdef0123456789abcdef"
MCP = "http://127.0.0.1:14801/mcp"
GRAPH_HASH = "01448ba709c67559cc2d56b58c9576c5ef13c6ce91d6489a7e41802b0e40c08f"
PLAN_HASH = "0523d489921b3133714149df7a5e5ba8a33797010b70f83fc5968ec77685b397"
REVIEW = Request("alice", Wishes("session_review", prefer_bulk=False, most=2), True, True)


def plan_for(request: Request, mcp_url: str | None = MCP) -> SessionPlan:
    return mint(
        request, plan_id=b"\x01" * 16, session_id=b"\x02" * 16, install_id=INSTALL, mcp_url=mcp_url, now_us=NOW_US
    )


def served(plan: SessionPlan) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(plan_json(plan))
    return found


def test_a_plan_is_this() -> None:
    node: dict[str, Any] = {
        "category": "affinity_required", "input_schema": None, "output_schema": None, "min_tier": None,
        "cost_class": "free", "cost_estimate": None, "stability": "stable", "since": "1.0.0", "sunset_at": None,
        "model_policy": None, "attestations": [], "concurrency": None, "prefer": "mcp",
    }  # fmt: skip
    context = node | {
        "cap": "session_context", "category": "public", "shape": "Snapshot", "required_affinity": None,
        "impl_path": {"ce": "session_ctx_local", "core": "/v2/session/context"},
    }  # fmt: skip
    editable = node | {
        "cap": "memory.readable_editable", "shape": "Receipt", "required_affinity": "memory",
        "impl_path": {"ce": None, "core": "/mcp/memory#view"},
    }  # fmt: skip
    install = blake3(INSTALL.encode()).hexdigest()
    plan = served(plan_for(REVIEW))
    assert plan == {
        "plan_id": "01" * 16,
        "session_id": "02" * 16,
        "plan_version": 1,
        "minted_at": 1_800_000_000_123,
        "origin": "ce",
        "origin_install": install,
        "session_ttl_s": 3600,
        "passport": {
            "principal_id": f"ce:{install[:8]}:alice", "tier": "local", "affinities": ["*"], "passport_receipt": None,
        },
        "model": None,
        "channels": {"bulk": None, "mcp": MCP},
        "capability_graph": [context, editable],
        "capability_graph_hash": graph_hash_of(plan),
        "graph": {
            "version": 1, "valid_until": 1_800_003_600_123, "refresh_hint": None, "edges": [], "excluded": None,
        },
        "budget": {"tokens_cap": None, "crux_cap": None, "ttl_s": 3600},
        "receipt": {
            "mode": "local", "hash": plan_hash_of(plan), "signature": None, "signer_kid": None, "parent_chain": [],
        },
        "intent_hint": "session_review",
    }  # fmt: skip


def test_the_hash_of_a_graph_covers_its_intent_and_six_members_of_each_node() -> None:
    plan = plan_for(REVIEW)
    shown = {
        "intent": "session_review",
        "caps": [
            {
                "cap": "session_context", "prefer": "mcp", "shape": "Snapshot", "min_tier": None, "cost_class": "free",
                "impl_path": {"ce": "session_ctx_local", "core": "/v2/session/context"},
            },
            {
                "cap": "memory.readable_editable", "prefer": "mcp", "shape": "Receipt", "min_tier": None,
                "cost_class": "free", "impl_path": {"ce": None, "core": "/mcp/memory#view"},
            },
        ],
    }  # fmt: skip
    assert plan.capability_graph_hash == blake3(canonical(shown)).digest()
    # The same by hand: a map of two, its keys in order of their encodings.
    assert graph_hash(None, ()) == blake3(b"\xa2\x64caps\x80\x66intent\xf6").digest()
    assert graph_hash("a", ()) == blake3(b"\xa2\x64caps\x80\x66intent\x61a").digest()


def test_hashes_do_not_change_from_one_version_to_the_next() -> None:
    plan = plan_for(REVIEW)
    assert plan.capability_graph_hash.hex() == GRAPH_HASH
    assert plan.receipt.hash.hex() == PLAN_HASH


requests = st.builds(
    Request,
    st.none() | st.sampled_from(["alice", "bob"]),
    st.builds(
        Wishes, st.none() | st.text(min_size=1) | st.just("audit_review"), st.booleans(), st.none() | st.integers(0, 20)
    ),
    st.booleans(),
    st.booleans(),
)


@given(requests)
def test_the_hashes_of_any_plan_can_be_made_from_what_is_served(request: Request) -> None:
    plan = plan_for(request)
    shown = served(plan)
    assert shown["capability_graph_hash"] == graph_hash_of(shown)
    assert shown["receipt"]["hash"] == plan_hash_of(shown) == plan_hash(plan).hex()


def test_any_other_member_changes_the_hash_of_a_plan() -> None:
    plan = plan_for(REVIEW)
    for name, other in (("session_ttl_s", 1), ("intent_hint", None), ("plan_id", bytes(16)), ("model", "m")):
        assert plan_hash(msgspec.structs.replace(plan, **{name: other})) != plan.receipt.hash


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({"hash": b"\xff" * 32}, True),
        ({"signature": b"\xff" * 64, "signer_kid": "p_1"}, True),
        ({"parent_chain": None}, False),
        ({"mode": "verified"}, False),
    ],
)
def test_a_signature_is_over_the_hash_and_not_in_it(changes: dict[str, Any], same: bool) -> None:
    plan = plan_for(REVIEW)
    changed = msgspec.structs.replace(plan, receipt=msgspec.structs.replace(plan.receipt, **changes))
    assert (plan_hash(changed) == plan.receipt.hash) is same


@given(requests)
def test_the_cbor_of_a_plan_is_canonical_and_says_what_the_json_says(request: Request) -> None:
    plan = plan_for(request)
    raw = cbor2.loads(plan_cbor(plan))
    assert canonical(raw) == plan_cbor(plan)
    assert raw["receipt"].pop("hash").hex() == plan.receipt.hash.hex()
    shown = served(plan)
    del shown["receipt"]["hash"]
    assert raw == shown | {name: bytes.fromhex(shown[name]) for name in BYTE_STRINGS}


def test_the_json_of_a_plan_is_compact_and_sorted() -> None:
    text = plan_json(plan_for(REVIEW)).decode()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))


def test_without_wishes_a_plan_lists_what_is_withheld_and_no_lineage() -> None:
    plan = served(plan_for(Request()))
    assert {one["cap"]: one["reason"] for one in plan["graph"]["excluded"]}["retrieve"] == "tier"
    assert plan["receipt"]["parent_chain"] is None
    assert plan["intent_hint"] is None
    assert plan["passport"]["principal_id"].endswith(":anonymous")


def test_where_mcp_is_off_a_plan_has_no_channel() -> None:
    assert served(plan_for(Request(), None))["channels"] == {"bulk": None, "mcp": None}


@pytest.mark.parametrize(("agent", "passport"), [("alice", "alice"), (None, "personal-default")])
def test_a_session_leaves_its_plan_and_whose_it_is_out_of_reach_of_the_fact_tools(
    agent: str | None, passport: str
) -> None:
    session = plan_for(Request(agent))
    plan, binding = plan_drafts(session, agent)
    assert (plan.entity, plan.key) == (PLAN_PREFIX + "02" * 16, PLAN_KEY)
    assert plan.value.encode() == plan_json(session)
    assert (binding.entity, binding.key) == (BINDING_PREFIX + "02" * 16, BINDING_KEY)
    assert json.loads(binding.value) == {
        "session_id_hex": "02" * 16,
        "tenant_id": "personal",
        "passport_id": passport,
        "passport_category": "personal",
        "agent_work_gate": False,
        "bound_at_unix_ms": 1_800_000_000_123,
    }
    for draft in (plan, binding):
        assert (draft.private, draft.actor) == (True, agent)
        assert reserved_prefix(draft.entity) is not None
        assert PrivacyRules(shared=("__session",)).is_private(draft.entity)
