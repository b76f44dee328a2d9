"""An agent is granted a tool of an extension while its client is connected: it hears of it, lists it and calls it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.clients.client import TIMEOUT_S, Refused
from tests.clients.proxy import proxy_of
from tests.clients.sdks import Kind
from tests.daemons import Daemon
from tests.manifests import manifest_json
from tests.serving import ALICE, BOB
from tests.unit.cli.stub import Stub, stub_daemon

OPERATOR = {"X-Corecrux-Scopes": "admin:read facts:write"}
SWITCHES = {"CORECRUXD_EXTENSIONS_ALLOW_PLAIN_HTTP": "1", "CORECRUXD_EXTENSIONS_ALLOW_UNSIGNED": "1"}
ID, TOOL = "ext.quote", "ext.quote.daily"


@pytest.fixture
def endpoint() -> Iterator[Stub]:
    with stub_daemon() as stub:
        yield stub


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, server: str) -> Iterator[Daemon]:
    agents = f"alice:{ALICE},bob:{BOB}"
    with Daemon(tmp_path_factory.mktemp("x"), CRUX_MCP_SERVER=server, CRUX_AGENT_TOKENS=agents, **SWITCHES) as daemon:
        yield daemon


def test_a_client_hears_of_a_grant_and_calls_the_tool(daemon: Daemon, kind: Kind, endpoint: Stub) -> None:
    write = {"entity": "quotes::today", "key": kind.name, "value": "Simplicity is a discipline."}
    endpoint.answer("POST /invoke", {"result": {"quote": write["value"]}, "fact_writes": [write]})
    with (
        httpx.Client(base_url=daemon.http, headers=OPERATOR, trust_env=False, timeout=TIMEOUT_S) as http,
        proxy_of(daemon.mcp) as proxy,
        kind.connect(proxy.url, ALICE, []) as alice,
        kind.connect(daemon.mcp, BOB, []) as bob,
    ):
        proxy.stream()
        manifest = manifest_json(external_tool_endpoint=f"{endpoint.url}/invoke")
        assert http.post("/v1/extensions/register", json={"manifest": manifest}).status_code == 201
        grant = {"passport_fpr": "alice", "allowed_prefixes_write": ["quotes::"]}
        assert http.post(f"/v1/extensions/{ID}/grants", json=grant).status_code == 201
        assert alice.heard(1) == 1
        listed = alice.tools()[-1]
        assert (listed["name"], TOOL in [tool["name"] for tool in bob.tools()]) == (TOOL, False)

        outcome = alice.call(TOOL, topic="work")
        assert outcome["result"] == {"quote": write["value"]}
        assert outcome["accepted_fact_writes"] == 1
        (asked,) = endpoint.asked
        sent = asked.json()
        assert isinstance(sent, dict)
        assert {**sent, "request_id": ""} == {
            "tool": TOOL,
            "args": {"topic": "work"},
            "calling_passport_id": "alice",
            "request_id": "",
        }
        (fact,) = bob.call("query_facts", entity="quotes::today", query=kind.name)["rows"]
        assert fact["value"] == write["value"]
        with pytest.raises(Refused) as refused:
            bob.call(TOOL)
        assert (refused.value.code, "status 403" in refused.value.message) == (-32603, True)

        assert http.delete(f"/v1/extensions/{ID}").status_code == 204
        assert alice.heard(2) == 2
        assert TOOL not in [tool["name"] for tool in alice.tools()]
        with pytest.raises(Refused) as refused:
            alice.call(TOOL)
        assert refused.value.code == -32601
