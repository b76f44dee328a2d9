import pytest
from prometheus_client.parser import text_string_to_metric_families

from crux import __version__
from crux.actors.failures import FailureCount
from crux.actors.mailbox import Mailbox
from crux.domain.commands import Probe
from crux.transport.front import Load
from crux.transport.metrics import TOOL_BUCKETS_S, Metrics
from crux.transport.wire import WireCounts

Labels = dict[str, str]


def metrics(*mailboxes: Mailbox) -> Metrics:
    loads = {"http": Load(inflight=3, shed=2), "mcp": Load()}
    return Metrics(mailboxes, loads, lambda: {"database": 4096, "wal": 512}, redactions={"pair": 5})


def reading(of: Metrics, name: str, **labels: str) -> float:
    """The value of one sample."""
    found = [
        sample.value
        for family in text_string_to_metric_families(of.exposition().decode())
        for sample in family.samples
        if sample.name == name and sample.labels == labels
    ]
    (value,) = found
    return float(value)


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("corecrux_build_info", {"version": __version__}, 1),
        ("corecrux_http_inflight", {"listener": "http"}, 3),
        ("corecrux_http_inflight", {"listener": "mcp"}, 0),
        ("corecrux_http_shed_total", {"listener": "http"}, 2),
        ("corecrux_storage_bytes", {"file": "database"}, 4096),
        ("corecrux_storage_bytes", {"file": "wal"}, 512),
        ("corecrux_log_redactions_total", {"rule": "pair"}, 5),
    ],
)
def test_what_others_count_is_read_when_it_is_asked_for(name: str, labels: Labels, value: float) -> None:
    assert reading(metrics(), name, **labels) == value


def test_the_process_is_measured() -> None:
    assert reading(metrics(), "process_resident_memory_bytes") > 0


async def test_every_actor_shows_what_waits_and_what_became_of_its_messages() -> None:
    facts, recall = Mailbox("facts", capacity=2), Mailbox("recall")
    assert [facts.tell(Probe()) for _ in range(3)] == [True, True, False]
    figures = facts.figures
    figures.handled, figures.refused, figures.crashed, figures.abandoned = 7, 6, 5, 4
    figures.overloaded, figures.restarts = 3, 2
    figures.handling.observe(0.0004, times=2)
    figures.handling.observe(60.0)
    seen = metrics(facts, recall)
    expected = {"handled": 7, "refused": 6, "crashed": 5, "abandoned": 4, "overloaded": 3, "dropped": 1}
    for outcome, count in expected.items():
        assert reading(seen, "corecrux_actor_messages_total", actor="facts", outcome=outcome) == count
        assert reading(seen, "corecrux_actor_messages_total", actor="recall", outcome=outcome) == 0
    assert reading(seen, "corecrux_actor_restarts_total", actor="facts") == 2
    assert reading(seen, "corecrux_actor_mailbox_depth", actor="facts") == 2
    assert reading(seen, "corecrux_actor_mailbox_capacity", actor="facts") == 2
    assert reading(seen, "corecrux_actor_oldest_message_seconds", actor="facts") >= 0
    handling = {"0.00025": 0, "0.0005": 2, "5.0": 2, "+Inf": 3}
    for bound, count in handling.items():
        assert reading(seen, "corecrux_actor_handling_seconds_bucket", actor="facts", le=bound) == count
    assert reading(seen, "corecrux_actor_handling_seconds_count", actor="facts") == 3
    assert reading(seen, "corecrux_actor_handling_seconds_sum", actor="facts") == pytest.approx(60.0008)


@pytest.mark.parametrize("bound", TOOL_BUCKETS_S)
def test_a_call_as_long_as_a_bound_is_in_its_bucket_and_a_longer_one_is_not(bound: float) -> None:
    seen = metrics()
    seen.observe_tool("store_fact", True, bound, 2)
    seen.observe_tool("store_fact", True, bound + 1e-9, 2)
    labels = {"tool": "store_fact", "outcome": "ok"}
    name = "corecrux_tool_invocation_duration_seconds"
    assert reading(seen, f"{name}_bucket", le=str(bound), **labels) == 1
    assert reading(seen, f"{name}_bucket", le="+Inf", **labels) == 2
    assert reading(seen, f"{name}_sum", **labels) == pytest.approx(2 * bound)


def test_calls_are_told_apart_by_tool_and_outcome() -> None:
    seen = metrics()
    for label, ok in (("store_fact", True), ("store_fact", False), ("unknown", False), ("unknown", False)):
        seen.observe_tool(label, ok, 0.1, 7)
    counts = {("store_fact", "ok"): 1, ("store_fact", "error"): 1, ("unknown", "error"): 2}
    for (tool, outcome), count in counts.items():
        name = "corecrux_tool_invocation_duration_seconds_count"
        assert reading(seen, name, tool=tool, outcome=outcome) == count
    for tool, tokens in (("store_fact", 14), ("unknown", 14)):
        assert reading(seen, "corecrux_token_spend_total", tool=tool) == tokens


def test_what_a_lean_listener_counts_is_there_by_its_name() -> None:
    counts = WireCounts(accepted=7, connections=2, stuck_writes=1)
    text = Metrics((), {}, dict, wires={"mcp": counts}).exposition().decode()
    assert 'crux_wire_accepted_total{listener="mcp"} 7.0' in text
    assert 'crux_wire_connections{listener="mcp"} 2.0' in text
    assert 'crux_wire_stuck_writes_total{listener="mcp"} 1.0' in text


def test_what_the_ledger_lost_is_counted_by_reason() -> None:
    lost = FailureCount("the ledger")
    lost.failed(3, "full")
    seen = Metrics((), {}, dict, losses={"mailbox_full": lost, "storage": FailureCount("observations")})
    assert reading(seen, "corecrux_tool_ledger_emit_failures_total", reason="mailbox_full") == 3
    assert reading(seen, "corecrux_tool_ledger_emit_failures_total", reason="storage") == 0
