"""Tools that are used in an agent's name: who that is, or how an anonymous caller is refused."""

from crux.errors import Denied, InvalidArgument
from crux.tools.registry import Call


def identity(call: Call) -> str:
    """The agent that calls; raises `InvalidArgument` for an anonymous caller."""
    if call.agent is None:
        raise InvalidArgument(
            "this is done in an agent's name: connect with an agent token", data={"requires_agent_identity": True}
        )
    return call.agent


def passport(name: str, call: Call) -> str:
    """The agent that calls; raises `Denied` for an anonymous caller."""
    if call.agent is None:
        raise Denied(
            f"{name} is done in an agent's name: connect with an agent token",
            data={"tool": name, "requires_passport": True},
        )
    return call.agent
