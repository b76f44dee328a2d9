"""What Prometheus reads of the actors, the listeners, the database, the process and the tools (protocol 11.4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from types import MappingProxyType

import attrs
from attrs import define, field
from prometheus_client import CollectorRegistry, Metric, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from crux import __version__
from crux.actors.audit import AuditFigures
from crux.actors.failures import FailureCount
from crux.actors.figures import BUCKETS_S, Histogram, Report
from crux.actors.mailbox import Mailbox
from crux.transport.front import Load
from crux.transport.wire import WireCounts

TOOL_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

# What became of a message, by the name of its counter in `Report`.
_OUTCOMES = ("handled", "refused", "crashed", "abandoned", "dropped", "overloaded")


# Those counts of the lean listener that go down again.
_NOW = frozenset({"connections", "inflight", "streams"})


@define
class _ToolFigures:
    """The calls of one tool that went one way."""

    durations: Histogram = field(factory=lambda: Histogram(TOOL_BUCKETS_S))
    tokens: int = 0


class Metrics:
    """The figures of one daemon. Only the trio thread may touch it.

    What others count is read when it is asked for; tools are counted here. `loads` are by name of the listener, `sizes`
    gives bytes by name of the file, `redactions` is the log's live count by rule, `wires` what the lean listeners
    count, `losses` what the ledger lacks, by reason, `trail` what the audit lacks. Passports are never a label.
    """

    def __init__(
        self,
        mailboxes: Sequence[Mailbox],
        loads: Mapping[str, Load],
        sizes: Callable[[], Mapping[str, int]],
        *,
        redactions: Mapping[str, int] = MappingProxyType({}),
        wires: Mapping[str, WireCounts] = MappingProxyType({}),
        losses: Mapping[str, FailureCount] = MappingProxyType({}),
        trail: AuditFigures | None = None,
    ) -> None:
        self._mailboxes = mailboxes
        self._loads = loads
        self._sizes = sizes
        self._redactions = redactions
        self._wires = wires
        self._losses = losses
        self._trail = trail or AuditFigures()
        self._tools: dict[tuple[str, bool], _ToolFigures] = {}
        self._truncated: Counter[tuple[str, str]] = Counter()
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def observe_tool(self, label: str, ok: bool, elapsed_s: float, tokens: int) -> None:
        """Count one call of the tool named `label`, which is a name of the catalogue or `unknown`, and what it cost to
        write and to read, in estimated tokens."""
        figures = self._tools.get((label, ok))
        if figures is None:
            figures = self._tools[label, ok] = _ToolFigures()
        figures.durations.observe(elapsed_s)
        figures.tokens += tokens

    def observe_truncation(self, tool: str, reason: str) -> None:
        """Count one result of `tool` that was cut short for `reason`."""
        self._truncated[tool, reason] += 1

    def exposition(self) -> bytes:
        """All of it in Prometheus' text format, version 0.0.4."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """The readings, as the registry asks for them."""
        build = GaugeMetricFamily("corecrux_build_info", "Which build this is", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        yield from self._of_actors()
        yield from self._of_listeners()
        yield from self._of_wires()
        size = GaugeMetricFamily("corecrux_storage_bytes", "Bytes of a file of the database", labels=["file"])
        for name, size_bytes in self._sizes().items():
            size.add_metric([name], size_bytes)
        yield size
        yield self._of_log()
        yield from self._of_tools()
        yield from self._of_audit()

    def _of_actors(self) -> Iterator[Metric]:
        reports = [mailbox.report() for mailbox in self._mailboxes]
        yield _gauge("corecrux_actor_mailbox_depth", "Messages that wait", reports, lambda r: r.depth)
        yield _gauge("corecrux_actor_mailbox_capacity", "Messages that may wait", reports, lambda r: r.capacity)
        yield _gauge("corecrux_actor_oldest_message_seconds", "Age of the oldest one", reports, lambda r: r.oldest_s)
        messages = CounterMetricFamily(
            "corecrux_actor_messages", "Messages, by what became of them", labels=["actor", "outcome"]
        )
        restarts = CounterMetricFamily("corecrux_actor_restarts", "Times an actor was rebuilt", labels=["actor"])
        handling = HistogramMetricFamily(
            "corecrux_actor_handling_seconds", "Time an actor spends on a message", labels=["actor"]
        )
        for report in reports:
            for outcome in _OUTCOMES:
                messages.add_metric([report.name, outcome], getattr(report, outcome))
            restarts.add_metric([report.name], report.restarts)
            handling.add_metric([report.name], _buckets(BUCKETS_S, report.handling_counts), report.handling_sum_s)
        yield from (messages, restarts, handling)

    def _of_listeners(self) -> Iterator[Metric]:
        inflight = GaugeMetricFamily("corecrux_http_inflight", "Requests under way", labels=["listener"])
        shed = CounterMetricFamily("corecrux_http_shed", "Requests refused because of load", labels=["listener"])
        for listener, load in self._loads.items():
            inflight.add_metric([listener], load.inflight)
            shed.add_metric([listener], load.shed)
        yield from (inflight, shed)

    def _of_wires(self) -> Iterator[Metric]:
        for count in attrs.fields(WireCounts):
            kind = GaugeMetricFamily if count.name in _NOW else CounterMetricFamily
            text = f"The lean listener's {count.name.replace('_', ' ')}"
            family = kind(f"crux_wire_{count.name}", text, labels=["listener"])
            for listener, counts in self._wires.items():
                family.add_metric([listener], getattr(counts, count.name))
            yield family

    def _of_log(self) -> Metric:
        redactions = CounterMetricFamily("corecrux_log_redactions", "Secrets found in log lines", labels=["rule"])
        for rule, count in list(self._redactions.items()):  # other threads log, too
            redactions.add_metric([rule], count)
        return redactions

    def _of_tools(self) -> Iterator[Metric]:
        durations = HistogramMetricFamily(
            "corecrux_tool_invocation_duration_seconds", "Time a tool call takes", labels=["tool", "outcome"]
        )
        tokens: Counter[str] = Counter()
        for (label, ok), figures in self._tools.items():
            observed = figures.durations
            buckets = _buckets(observed.bounds, observed.counts)
            durations.add_metric([label, "ok" if ok else "error"], buckets, observed.sum_s)
            tokens[label] += figures.tokens
        spent = CounterMetricFamily(
            "corecrux_token_spend", "Estimated tokens of arguments and results together", labels=["tool"]
        )
        for label, total in tokens.items():
            spent.add_metric([label], total)
        truncated = CounterMetricFamily(
            "corecrux_tool_response_truncated", "Results that were cut short", labels=["tool", "reason"]
        )
        for labels, count in self._truncated.items():
            truncated.add_metric(labels, count)
        lost = CounterMetricFamily(
            "corecrux_tool_ledger_emit_failures", "Entries that are not in the ledger", labels=["reason"]
        )
        for reason, failures in self._losses.items():
            lost.add_metric([reason], failures.total)
        yield from (durations, spent, truncated, lost)

    def _of_audit(self) -> Iterator[Metric]:
        for name, text, count in (
            ("suppressed", "Events of extensions that are not in the audit, by its limit", self._trail.suppressed),
            ("lost", "Events that the audit could not keep", self._trail.lost.total),
        ):
            family = CounterMetricFamily(f"corecrux_audit_{name}", text)
            family.add_metric([], count)
            yield family


def _gauge(name: str, text: str, reports: Sequence[Report], value: Callable[[Report], float]) -> Metric:
    gauge = GaugeMetricFamily(name, text, labels=["actor"])
    for report in reports:
        gauge.add_metric([report.name], value(report))
    return gauge


def _buckets(bounds_s: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Counts per bucket as Prometheus has them: each includes those before it."""
    names = [*(repr(bound) for bound in bounds_s), "+Inf"]
    return list(zip(names, accumulate(counts), strict=True))
