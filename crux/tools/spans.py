"""Tracing spans of tool calls, where the OpenTelemetry API is installed; an exporter is the operator's to set up."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec

from crux import __version__
from crux.tools.registry import Span


def span_of_calls(provider: object = None) -> Span | None:
    """What opens the span of one call (`tools/call NAME`); None without the API, which then costs nothing.

    `provider` is a `TracerProvider`; without one it is the process's own.
    """
    if find_spec("opentelemetry") is None:
        return None
    tracer = import_module("opentelemetry.trace").get_tracer("crux", __version__, provider)

    def span(tool: str, agent: str | None) -> AbstractContextManager[object]:
        known = {"mcp.method.name": "tools/call", "gen_ai.tool.name": tool}
        attributes = known if agent is None else {**known, "crux.agent": agent}
        opened: AbstractContextManager[object] = tracer.start_as_current_span(
            f"tools/call {tool}", attributes=attributes
        )
        return opened

    return span
