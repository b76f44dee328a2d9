"""Tracing spans: there where the API is, and of no cost where it is not."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.trace import INVALID_SPAN, NoOpTracerProvider, Span, Tracer, TracerProvider

from crux.tools import spans


class Recorded(TracerProvider, Tracer):
    """A provider, and the one tracer that it has, which note what is opened."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, Any]] = []

    def get_tracer(self, *args: Any, **kwargs: Any) -> Tracer:
        return self

    def start_span(self, name: str, *args: Any, **kwargs: Any) -> Span:
        raise NotImplementedError

    @contextmanager
    def start_as_current_span(self, name: str, *args: Any, **kwargs: Any) -> Iterator[Span]:  # type: ignore[override]
        self.opened.append((name, kwargs["attributes"]))
        yield INVALID_SPAN


@pytest.mark.parametrize(("agent", "more"), [(None, {}), ("bob", {"crux.agent": "bob"})])
def test_a_span_names_the_tool_and_the_agent(agent: str | None, more: dict[str, str]) -> None:
    provider = Recorded()
    span = spans.span_of_calls(provider)
    assert span is not None
    with span("store_fact", agent):
        attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "store_fact", **more}
        assert provider.opened == [("tools/call store_fact", attributes)]


def test_without_the_api_there_are_no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "find_spec", lambda _: None)
    assert spans.span_of_calls() is None


@pytest.mark.parametrize("provider", [None, NoOpTracerProvider()])
def test_where_no_sdk_is_set_up_there_are_no_spans(provider: TracerProvider | None) -> None:
    assert spans.span_of_calls(provider) is None
