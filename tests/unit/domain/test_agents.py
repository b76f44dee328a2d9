import re
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crux.domain.agents import Agent, AgentRegistry
from crux.errors import SettingError

TOKEN = "t" * 32
OTHER = "u" * 32


def test_without_settings_the_registry_is_empty_and_knows_nobody() -> None:
    registry = AgentRegistry.parse(None, None)
    assert not registry
    assert registry.names == frozenset()
    assert registry.find(TOKEN) is None
    assert registry.find("") is None


def test_the_single_token_belongs_to_the_operator_named_default() -> None:
    registry = AgentRegistry.parse(f" {TOKEN}\n", None)
    assert registry
    assert registry.names == {"default"}
    assert registry.find(TOKEN) == Agent("default", operator=True)


def test_named_agents_are_found_by_their_own_token_and_are_no_operators() -> None:
    registry = AgentRegistry.parse(None, f" planner : {TOKEN} ,, default:{OTHER},")
    assert registry.names == {"planner", "default"}
    assert registry.find(TOKEN) == Agent("planner")
    assert registry.find(OTHER) == Agent("default", operator=False)


def test_the_list_of_agents_wins_over_the_single_token() -> None:
    registry = AgentRegistry.parse(OTHER, f"planner:{TOKEN}")
    assert registry.names == {"planner"}
    assert registry.find(OTHER) is None


@pytest.mark.parametrize(
    "presented", [TOKEN[:-1], TOKEN + "t", TOKEN.upper(), f" {TOKEN}", f"planner:{TOKEN}", "é", "\udc80"]
)
def test_only_the_exact_token_is_found(presented: str) -> None:
    assert AgentRegistry.parse(None, f"planner:{TOKEN}").find(presented) is None


def test_the_registry_keeps_and_shows_no_token() -> None:
    registry = AgentRegistry.parse(None, f"planner:{TOKEN}")
    assert TOKEN not in repr(registry)
    assert all(TOKEN.encode() not in digest and len(digest) == 32 for digest in registry._agents)


@pytest.mark.parametrize(
    ("token", "accepted"),
    [
        ("a" * 31, False),
        ("a" * 32, True),
        ("a" * 256, True),
        ("a" * 257, False),
        ("AZaz09._~-" * 4, True),
        ("a" * 31 + "+", False),
        ("a" * 31 + ":", False),
        ("a" * 31 + "é", False),
        ("a" * 16 + " " + "a" * 16, False),
        ("a" * 16 + "\n" + "a" * 16, False),
        ("", False),
        ("   ", False),
    ],
)
def test_a_token_is_32_to_256_characters_of_its_charset(token: str, accepted: bool) -> None:
    if accepted:
        assert AgentRegistry.parse(token, None).find(token) is not None
        assert AgentRegistry.parse(None, f"planner:{token}").find(token) == Agent("planner")
    else:
        for settings in ((token, None), (None, f"planner:{token}")):
            with pytest.raises(SettingError):
                AgentRegistry.parse(*settings)


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("a", True),
        ("a" * 64, True),
        ("a" * 65, False),
        ("AZaz09._-", True),
        ("a~b", False),
        ("a b", False),
        ("é", False),
        ("", False),
        ("__anon__", False),
        ("__anon___", True),
    ],
)
def test_a_name_is_1_to_64_characters_of_its_charset(name: str, accepted: bool) -> None:
    if accepted:
        assert AgentRegistry.parse(None, f"{name}:{TOKEN}").names == {name}
    else:
        with pytest.raises(SettingError, match="CRUX_AGENT_TOKENS entry 1 has a bad name"):
            AgentRegistry.parse(None, f"{name}:{TOKEN}")


@pytest.mark.parametrize(
    ("agent_token", "agent_tokens", "text"),
    [
        ("", None, "CRUX_AGENT_TOKEN is not usable"),
        ("short", None, "CRUX_AGENT_TOKEN is not usable"),
        ("short", f"planner:{TOKEN}", "CRUX_AGENT_TOKEN is not usable"),
        (None, "", "CRUX_AGENT_TOKENS is set but empty"),
        (None, " , ,", "CRUX_AGENT_TOKENS is set but empty"),
        (TOKEN, "", "CRUX_AGENT_TOKENS is set but empty"),
        (None, TOKEN, "CRUX_AGENT_TOKENS entry 1 has no ':'"),
        (None, f"planner:{TOKEN},writer:short", r"CRUX_AGENT_TOKENS entry 2 \('writer'\) has a bad token"),
        (None, f"planner:{TOKEN},,planner:{OTHER}", r"entry 2 \('planner'\) repeats the name of entry 1"),
        (None, f"planner:{TOKEN},writer:{TOKEN}", r"entry 2 \('writer'\) repeats the token of entry 1"),
        (None, f"planner:{TOKEN},planner:{TOKEN}", r"entry 2 \('planner'\) repeats the name of entry 1"),
    ],
)
def test_a_setting_that_is_set_but_wrong_is_refused_with_its_place(
    agent_token: str | None, agent_tokens: str | None, text: str
) -> None:
    with pytest.raises(SettingError, match=text) as refused:
        AgentRegistry.parse(agent_token, agent_tokens)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    "setting", [TOKEN, f"{TOKEN}:planner", f"planner:{TOKEN}+", f"{TOKEN}+:{OTHER}", f"{'a' * 31}é"]
)
def test_a_refusal_never_prints_a_token_wherever_it_was_written(setting: str) -> None:
    for settings in ((None, setting), (setting + "!", None)):
        with pytest.raises(SettingError) as refused:
            AgentRegistry.parse(*settings)
        assert not re.search("t{8}|u{8}|a{8}", refused.value.message)


names = st.text(string.ascii_letters + string.digits + "._-~ ", max_size=66)
tokens = st.one_of(st.sampled_from([TOKEN, OTHER, "v" * 256, "w" * 31]), st.text("aé:~", min_size=30, max_size=34))
entries = st.lists(st.one_of(st.builds("{}:{}".format, names, tokens), st.text(max_size=5)), max_size=4)


@given(st.one_of(st.text(), entries.map(",".join)))
@example(f"planner:{TOKEN},writer:{OTHER}")
def test_a_list_is_accepted_just_when_every_entry_is_good_and_none_repeats(setting: str) -> None:
    pairs = [tuple(part.strip() for part in e.partition(":")[::2]) for e in setting.split(",") if e.strip()]
    good = (
        bool(pairs)
        and all(
            re.fullmatch(r"[A-Za-z0-9._-]{1,64}", n) and re.fullmatch(r"[A-Za-z0-9._~-]{32,256}", t) for n, t in pairs
        )
        and len({n for n, _ in pairs}) == len({t for _, t in pairs}) == len(pairs)
    )
    if good:
        registry = AgentRegistry.parse(None, setting)
        assert registry.names == {name for name, _ in pairs}
        for name, token in pairs:
            assert registry.find(token) == Agent(name)
    else:
        with pytest.raises(SettingError):
            AgentRegistry.parse(None, setting)
