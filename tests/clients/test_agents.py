"""Agents with tokens: each is known by its own and keeps its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.client import Exchange, Refused
from tests.clients.sdks import Kind
from tests.daemons import Daemon

TOKENS = {"alice": "alice-token-of-32-characters-or-more", "bob": "bob-token-of-32-characters-or-more-"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory, server: str) -> Iterator[Daemon]:
    agents = ",".join(f"{name}:{token}" for name, token in TOKENS.items())
    with Daemon(tmp_path_factory.mktemp("daemon"), CRUX_AGENT_TOKENS=agents, CRUX_MCP_SERVER=server) as daemon:
        yield daemon


def test_a_token_makes_its_agent(kind: Kind, daemon: Daemon) -> None:
    for name, token in TOKENS.items():
        with kind.connect(daemon.mcp, token, []) as client:
            assert client.call("get_agent_identity") == {"agent_name": name, "passport": name}


def test_a_private_fact_is_its_owner_s_only(kind: Kind, daemon: Daemon, entity: str) -> None:
    with (
        kind.connect(daemon.mcp, TOKENS["alice"], []) as alice,
        kind.connect(daemon.mcp, TOKENS["bob"], []) as bob,
    ):
        stored = alice.call("store_fact", entity=entity, key="diary", value="a secret", private=True)
        bob.call("store_fact", entity=entity, key="report", value="no secret")

        assert {row["key"] for row in alice.call("query_facts", query="secret", entity=entity)["rows"]} == {
            "diary",
            "report",
        }
        assert {row["key"] for row in bob.call("query_facts", query="secret", entity=entity)["rows"]} == {"report"}
        assert bob.call("fact_history", entity=entity, key="diary")["versions"] == []
        assert bob.call("delete_fact", fact_id=stored["fact_id"])["deleted"] is False
        assert alice.call("delete_fact", fact_id=stored["fact_id"])["deleted"] is True


@pytest.mark.parametrize("token", [None, "a-token-of-32-characters-that-nobody-has"])
def test_without_a_right_token_a_client_gets_nowhere(kind: Kind, daemon: Daemon, token: str | None) -> None:
    wire: list[Exchange] = []
    with pytest.raises(Refused), kind.connect(daemon.mcp, token, wire):
        pass
    assert wire
    assert {exchange.status for exchange in wire} == {401}
