"""Who the caller is."""

import msgspec

from crux.domain.callers import ANONYMOUS_NAME
from crux.tools.facts import NoArguments
from crux.tools.registry import Call, tool


class AgentIdentity(msgspec.Struct, frozen=True):
    agent_name: str
    passport: str | None


@tool("get_agent_identity", plane="identity", result=AgentIdentity, floor_rank=11)
async def get_agent_identity(args: NoArguments, call: Call) -> AgentIdentity:
    """Tell which agent your token makes you, or anonymous without one. Private facts belong to that name."""
    return AgentIdentity(call.agent or ANONYMOUS_NAME, call.agent)
