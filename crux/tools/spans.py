"""Tracing spans of tool calls, for an operator who has set OpenTelemetry up around the daemon."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec

from crux import __version__
from crux.tools.registry import Span


def span_of_calls(provider: object = None) -> Span | None:
    """What opens the span of one call (`tools/call NAME`); None where nobody would take it, which then costs nothing.

    `provider` is a `TracerProvider`; without one it is the process's own, which the operator's SDK has set before the
    daemon starts (as `opentelemetry-instrument crux serve` does). The API alone, which is a matter of what else is
    installed, sets none.
    """
    if find_spec("opentelemetry") is None:
        return None
    api = import_module("opentelemetry.trace")
    provider = api.get_tracer_provider() if provider is None else provider
    if isinstance(provider, api.ProxyTracerProvider | api.NoOpTracerProvider):
        return None
    tracer = api.get_tracer("crux", __version__, provider)

    def span(tool: str, agent: str | None) -> AbstractContextManager[object]:
        attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": tool}
        if agent is not None:
            attributes["crux.agent"] = agent
        opened: AbstractContextManager[object] = tracer.start_as_current_span(
            f"tools/call {tool}", attributes=attributes
        )
        return opened

    return span
