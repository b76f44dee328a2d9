"""The way of one tool call: permit it, find the tool, read its arguments, run it, and say how it went (seed 11.6)."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec
import trio

from crux.domain.bounds import NAME_SHOWN
from crux.domain.capability import denied
from crux.domain.revocation import refusal
from crux.domain.tokens import utf8_size
from crux.errors import METHOD_NOT_FOUND, ActorFailed, CruxError, InvalidArgument, UnknownTool
from crux.logs import get_logger
from crux.tools.extensions import ExtensionTool, extension_tool
from crux.tools.registry import Call, Tool
from crux.tools.results import RawResult, Result, result_of

log = get_logger("crux.tools")

UNKNOWN_LABEL = "unknown"


class Finished(msgspec.Struct, frozen=True):
    """How one call went, for whoever counts and records calls.

    `name` is what the caller named and `tool` what answered, None where nothing of that name did. `ok` is false for an
    error and for a soft failure. `output_bytes` is the size of the encoded result without its `_meta`, or of the
    error's message.
    """

    name: str
    tool: Tool | ExtensionTool | None
    arguments: object
    request_id: bytes
    ok: bool
    output_bytes: int
    elapsed_s: float

    @property
    def label(self) -> str:
        """The call's name in figures: one of the catalogue's, `extension` or `unknown`."""
        return UNKNOWN_LABEL if self.tool is None else self.tool.name


# Told of every call that was permitted, once. It must not wait; what it raises is logged and changes no answer.
Record = Callable[[Call, Finished], None]


async def call_tool(params: object, call: Call, record: Record, request_id: bytes = b"null") -> bytes:
    """Carry out `tools/call`: the encoded result. `request_id` is JSON.

    Raises `CruxError` with the code that the caller gets; never anything else.
    """
    if not (isinstance(params, dict) and isinstance(name := params.get("name"), str)):
        raise InvalidArgument('tools/call requires a "name" parameter')
    services = call.services
    tool = services.catalogue.by_name.get(name) or await extension_tool(name, services)
    if services.router is not None:
        gated_as = name if tool is None else tool.gated_as
        decision = services.router.decide(gated_as, now_s=services.clock.now_us() // 1_000_000)
        if not decision.authorised:
            raise denied(decision)
    arguments = params.get("arguments", {})
    began = trio.current_time()

    def finish(answered: Tool | ExtensionTool | None, output_bytes: int, *, ok: bool) -> None:
        elapsed_s = trio.current_time() - began
        finished = Finished(name, answered, arguments, request_id, ok, output_bytes, elapsed_s)
        try:
            record(call, finished)
        except Exception:  # the call is done, whatever becomes of its record (protocol contract 6)
            log.exception("a call was not recorded", tool=finished.label)

    try:
        result = await _run(name, tool, arguments, call)
    except CruxError as error:
        finish(None if error.code == METHOD_NOT_FOUND else tool, utf8_size(error.message), ok=False)
        raise
    finish(tool, len(result.body), ok=result.ok)
    return result.encoded()


async def _run(name: str, tool: Tool | ExtensionTool | None, arguments: object, call: Call) -> Result:
    services = call.services
    if services.revocations is not None and call.agent is not None:
        told = refusal(name[:NAME_SHOWN], await services.revocations(call.agent))
        if told is not None:
            return result_of(RawResult.failure(told), arguments)
    if tool is None:
        raise UnknownTool(f"unknown tool: {name[:NAME_SHOWN]}")
    try:
        if services.span is None:
            value = await tool.run(tool.parse(arguments), call)
        else:
            with services.span(name, call.agent):
                value = await tool.run(tool.parse(arguments), call)
        return result_of(value, arguments)
    except CruxError:
        raise
    except Exception as error:
        incident = secrets.token_hex(6)
        log.exception("a tool failed", tool=name, incident=incident)
        raise ActorFailed(f"internal error, logged as {incident}", data={"incident": incident}) from error
