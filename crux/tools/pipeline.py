"""The way of one tool call: find the tool, read its arguments, run it, and say how it went (seed 11.6)."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec
import trio
from attrs import frozen

from crux.errors import ActorFailed, CruxError, InvalidArgument, UnknownTool
from crux.logs import get_logger
from crux.tools.registry import Call

log = get_logger("crux.tools")

# Hosts cut a result at about 25,000 tokens; well below that, and where the caller set no budget, it is told how to
# narrow.
LARGE_RESULT_BYTES = 40_000
NARROW = "large result: pass token_budget or a smaller top_k, or name one entity"
UNKNOWN_LABEL = "unknown"
# A name is echoed as it came, as far as a name may go.
NAME_SHOWN = 200

# Called once for every call that names a tool: label, whether it went well, seconds.
Observe = Callable[[str, bool, float], None]

_encode = msgspec.json.Encoder().encode


@frozen
class Answer:
    """What a tool returned, as compact JSON; `hint` where the host may find it too large."""

    text: bytes
    hint: str | None = None


async def call_tool(params: object, call: Call, observe: Observe) -> Answer:
    """Carry out `tools/call`. Raises `CruxError` with the code that the caller gets; never anything else."""
    name = params.get("name") if isinstance(params, dict) else None
    if not isinstance(params, dict) or not isinstance(name, str):
        raise InvalidArgument('tools/call requires a "name" parameter')
    began = trio.current_time()
    label, ok = UNKNOWN_LABEL, False
    try:
        tool = call.services.catalogue.by_name.get(name)
        if tool is None:
            raise UnknownTool(f"unknown tool: {name[:NAME_SHOWN]}")
        label = name
        given = params.get("arguments")
        result = await tool.run(tool.parse(given), call)
        text = _encode(result)
        ok = True
    except CruxError:
        raise
    except Exception as error:
        incident = secrets.token_hex(6)
        log.exception("a tool failed", tool=name, incident=incident)
        raise ActorFailed(f"internal error, logged as {incident}", data={"incident": incident}) from error
    finally:
        observe(label, ok, trio.current_time() - began)
    if len(text) > LARGE_RESULT_BYTES and not (isinstance(given, dict) and given.get("token_budget") is not None):
        return Answer(text, NARROW)
    return Answer(text)
