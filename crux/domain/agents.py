"""Which agents hold a token of this daemon, and how a presented token is recognised (seed 11.1, protocol 3.2)."""

import re
from collections.abc import Mapping
from hmac import compare_digest

from attrs import field, frozen
from blake3 import blake3

from crux.domain.callers import ANONYMOUS_KEY
from crux.errors import SettingError

OPERATOR_NAME = "default"

_ONE = "CRUX_AGENT_TOKEN"
_MANY = "CRUX_AGENT_TOKENS"

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TOKEN = re.compile(r"[A-Za-z0-9._~-]{32,256}")
_SHORTEST_TOKEN = 32

NAME_SHAPE = f"1 to 64 characters of A-Z a-z 0-9 . _ -, and not {ANONYMOUS_KEY}"
_CREDENTIAL_SHAPE = "a token is 32 to 256 characters of A-Z a-z 0-9 . _ ~ -"


@frozen
class Agent:
    """Somebody with a token. The operator holds the single `CRUX_AGENT_TOKEN` and may act as others (Decision 6)."""

    name: str
    operator: bool = False


@frozen
class AgentRegistry:
    """Every agent of the daemon, by the BLAKE3-256 of its token; the tokens themselves are not kept.

    False when it has no agents, which is what lets anonymous callers in.
    """

    _agents: Mapping[bytes, Agent] = field(factory=dict, repr=False)
    names: frozenset[str] = field(init=False)

    @names.default
    def _names_of_agents(self) -> frozenset[str]:
        return frozenset(agent.name for agent in self._agents.values())

    @classmethod
    def parse(cls, agent_token: str | None, agent_tokens: str | None) -> "AgentRegistry":
        """The registry of the two settings, each None where it is unset.

        `agent_tokens` wins where both are set, yet both have to be right: raises `SettingError` for a setting that is
        set and has no entry, or any bad one (Decision 9), and for a name or a token that occurs twice.
        """
        operator = None if agent_token is None else _operator(agent_token)
        if agent_tokens is not None:
            return cls(_named(agent_tokens))
        return cls(operator or {})

    def __bool__(self) -> bool:
        return bool(self._agents)

    def find(self, token: str) -> Agent | None:
        """The agent that `token` belongs to.

        The time taken tells nothing about how close a guess came: digests are compared in constant time, all of them.
        """
        presented = token_digest(token)
        found = None
        for digest, agent in self._agents.items():
            if compare_digest(digest, presented):
                found = agent
        return found


def is_agent_name(text: str) -> bool:
    """Whether an agent may be called `text`, which is not what all anonymous callers go by."""
    return _NAME.fullmatch(text) is not None and text != ANONYMOUS_KEY


def _operator(text: str) -> dict[bytes, Agent]:
    token = text.strip()
    if _TOKEN.fullmatch(token) is None:
        raise SettingError(f"{_ONE} is not usable: {_CREDENTIAL_SHAPE}; correct it, or unset it for no tokens")
    return {token_digest(token): Agent(OPERATOR_NAME, operator=True)}


def _named(text: str) -> dict[bytes, Agent]:
    entries = [entry for part in text.split(",") if (entry := part.strip())]
    if not entries:
        raise SettingError(f"{_MANY} is set but empty: expected name:token,name:token; unset it for no tokens")
    agents: dict[bytes, Agent] = {}
    positions: dict[str | bytes, int] = {}
    for position, entry in enumerate(entries, start=1):
        name, separator, token = entry.partition(":")
        name, token = name.rstrip(), token.lstrip()
        if not separator:
            raise SettingError(f"{_MANY} entry {position} has no ':': expected name:token")
        if not is_agent_name(name):
            raise SettingError(f"{_MANY} entry {position} has a bad name: a name is {NAME_SHAPE}")
        if _TOKEN.fullmatch(token) is None:
            raise SettingError(f"{_MANY} {_shown(position, name)} has a bad token: {_CREDENTIAL_SHAPE}")
        digest = token_digest(token)
        for what, value in (("name", name), ("token", digest)):
            # A second holder of a name or a token would make it unclear who a caller is.
            if (first := positions.setdefault(value, position)) != position:
                raise SettingError(f"{_MANY} {_shown(position, name)} repeats the {what} of entry {first}")
        agents[digest] = Agent(name)
    return agents


def _shown(position: int, name: str) -> str:
    # A name this long may be a token that was written on the wrong side of the colon.
    return f"entry {position} ('{name}')" if len(name) < _SHORTEST_TOKEN else f"entry {position}"


def token_digest(token: str) -> bytes:
    """What is kept of a token: its BLAKE3-256."""
    return blake3(token.encode("utf-8", "surrogatepass")).digest()
