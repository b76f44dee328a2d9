import json
from pathlib import Path

import pytest

from crux.domain.capability import HOSTED_TOOLS, call_of, decide
from crux.domain.rcx_mint import local_capabilities, mint_free_token
from crux.domain.rcx_token import encode_token, read_token
from crux.domain.rcx_validation import basic_issues, examine
from crux.domain.signing import fingerprint
from tests.rcx_tokens import EXPIRES_AT, ISSUED_AT, KEY, PUBLIC

CATALOGUE = json.loads((Path(__file__).parents[2] / "data" / "catalogue.json").read_text(encoding="utf-8"))


def local_tools(*, agent_passports: bool = False, mint_requests: bool = False) -> list[str]:
    of_flags = {"issue_passport": agent_passports, "request_passport_mint": mint_requests}
    return [t["name"] for t in CATALOGUE if of_flags.get(t["name"], t["tier"] == "local")]


@pytest.mark.parametrize(
    ("agent_passports", "mint_requests", "count"),
    [(False, False, 114), (True, False, 115), (False, True, 115), (True, True, 116)],
)
def test_the_local_catalogue_has_its_documented_number_of_capabilities(
    agent_passports: bool, mint_requests: bool, count: int
) -> None:
    names = local_capabilities(local_tools(agent_passports=agent_passports, mint_requests=mint_requests))
    assert len(names) == len(set(names)) == count
    assert ("crux-mcp.issue_passport" in names) is agent_passports
    assert ("crux-mcp.request_passport_mint" in names) is mint_requests
    assert names[:5] == (
        "crux-mcp.cuecrux_session",
        "crux-mcp.autonomy_contract",
        "crux-mcp.reuse_check",
        "crux-mcp.engram_resolve",
        "corecrux.query.local",
    )
    assert names[-1] == "federation.read"


def test_a_free_token_says_who_it_is_for_and_permits_its_capabilities_where_nothing_leaves_the_machine() -> None:
    token = mint_free_token(
        KEY, instance_id="node_1", capabilities=("crux-mcp.learn", "federation.read"), issued_at=ISSUED_AT
    )
    kid = fingerprint(PUBLIC)
    assert token.token_id == f"rcxct_free_{kid[2:18]}_local"
    assert (token.issued_at, token.refresh_hint_at, token.expires_at) == (ISSUED_AT, EXPIRES_AT - 3600, EXPIRES_AT)
    assert {token.issuer.passport_kid, token.subject.passport_fpr, token.signature.kid} == {kid}
    assert (token.issuer.issuer_org, token.subject.daemon_instance_id) == ("local", "node_1")
    assert (token.tenant_scope.tenant_id, token.tenant_scope.display_name) == ("local", "Local")
    assert (token.tier, token.receipt_class) == ("free", "verified")
    (backend,) = token.backends
    assert (backend.backend_id, backend.trust_root_kid) == ("local", kid)
    assert [(c.capability, c.data_egress_classes, c.credit_cost) for c in backend.permitted_capabilities] == [
        ("crux-mcp.learn", ("none",), None),
        ("federation.read", ("none",), None),
    ]


def test_a_minted_token_is_sound_and_survives_its_file() -> None:
    token = mint_free_token(
        KEY, instance_id="n", capabilities=("a",), issued_at=ISSUED_AT, tenant_id="acme", valid_s=7200
    )
    assert token.token_id.endswith("_acme")
    assert token.expires_at == ISSUED_AT + 7200
    assert basic_issues(token, now_s=ISSUED_AT) == ()
    assert examine(read_token(encode_token(token)), PUBLIC).is_sound(now_s=ISSUED_AT)


def test_the_daemons_own_token_lets_it_call_every_tool_but_the_hosted_ones() -> None:
    token = mint_free_token(KEY, instance_id="n", capabilities=local_capabilities(local_tools()), issued_at=ISSUED_AT)
    examined = examine(token, PUBLIC)
    listed = [t["name"] for t in CATALOGUE if t["name"] != "request_passport_mint"]
    refused = {name for name in listed if not decide(examined, call_of(name), now_s=ISSUED_AT).authorised}
    assert refused == HOSTED_TOOLS == {t["name"] for t in CATALOGUE if t["tier"] == "hosted"}
