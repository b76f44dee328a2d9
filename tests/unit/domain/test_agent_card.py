"""The agent card: its members, their order, and how it words who may come in."""

import json

import pytest

from crux.domain.agent_card import agent_card


def card(**changes: object) -> dict[str, object]:
    given: dict[str, object] = {
        "node_id": "ab" * 16,
        "version": "1.2.3",
        "base_url": None,
        "skills": [],
        "has_agents": False,
        "has_oauth": False,
        "required": False,
        **changes,
    }
    return dict(agent_card(**given))  # type: ignore[arg-type]


def test_the_card_has_its_members_in_order() -> None:
    assert list(card()) == [
        "schema",
        "name",
        "provider",
        "description",
        "version",
        "access",
        "authentication",
        "skills",
    ]
    assert card()["schema"] == "cuecrux.agent-card.v1"
    assert card()["name"] == f"crux-daemon:{'ab' * 16}"
    assert card()["version"] == "1.2.3"


@pytest.mark.parametrize(("base_url", "protocols"), [(None, ["mcp"]), ("http://127.0.0.1:14800", ["mcp", "http"])])
def test_http_is_named_where_its_address_is(base_url: str | None, protocols: list[str]) -> None:
    assert json.dumps(card(base_url=base_url)["access"]) == json.dumps(
        {"baseUrl": base_url, "protocols": protocols, "wellKnown": "/.well-known/agent-card"}
    )


@pytest.mark.parametrize(
    ("has_agents", "has_oauth", "required", "scheme", "modes"),
    [
        (False, False, False, "none", []),
        (True, False, True, "bearer", ["bearer-token"]),
        (False, True, False, "oauth2", ["oauth2"]),
        (False, True, True, "oauth2", ["oauth2"]),
        (True, True, True, "oauth2+bearer", ["bearer-token", "oauth2"]),
    ],
)
def test_the_card_says_which_tokens_are_taken_and_whether_one_is_needed(
    has_agents: bool, has_oauth: bool, required: bool, scheme: str, modes: list[str]
) -> None:
    shown = card(has_agents=has_agents, has_oauth=has_oauth, required=required)["authentication"]
    assert json.dumps(shown) == json.dumps({"required": required, "scheme": scheme, "modes": modes})


@pytest.mark.parametrize(("length", "shown"), [(200, "é" * 200), (201, "é" * 200 + "…")])
def test_skills_are_in_the_given_order_and_long_descriptions_are_cut(length: int, shown: str) -> None:
    skills = card(skills=[("b", "é" * length), ("a", "")])["skills"]
    assert skills == [{"name": "b", "description": shown}, {"name": "a", "description": ""}]
