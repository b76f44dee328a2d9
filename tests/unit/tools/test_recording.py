"""What is handed on of a finished call, and to whom."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import evolve
from msgspec.structs import replace

from crux.actors.failures import FailureCount
from crux.actors.ledger import Ledger
from crux.actors.mailbox import Mailbox
from crux.actors.meter import RecordUsage
from crux.actors.traces import RecordTrace
from crux.domain.privacy import Viewer
from crux.domain.traces import Outcome
from crux.tools.catalogue import CATALOGUE
from crux.tools.pipeline import Finished
from crux.tools.recording import Recorder
from crux.tools.registry import Call, Services

STORE = CATALOGUE.by_name["store_fact"]
ARGUMENTS = {"entity": "a", "key": "k", "value": "v" * 100, "token_budget": 50, "turn_id": "t1"}
DONE = Finished("store_fact", STORE, ARGUMENTS, b'"r1"', ok=True, output_bytes=400, elapsed_s=0.25)
TOKENS_IN = len(json.dumps(ARGUMENTS, separators=(",", ":"))) // 4


def told(mailbox: Mailbox) -> list[Any]:
    return [envelope.message for envelope in mailbox._queue]


class Counted:
    def __init__(self) -> None:
        self.calls: list[tuple[str, bool, float, int]] = []

    def __call__(self, label: str, ok: bool, elapsed_s: float, tokens: int) -> None:
        self.calls.append((label, ok, elapsed_s, tokens))


@pytest.fixture
def boxes() -> dict[str, Mailbox]:
    return {name: Mailbox(name) for name in ("meter", "traces", "observations")}


def recorder(boxes: dict[str, Mailbox], counted: Counted, **changes: Any) -> Recorder:
    ledger = Ledger(boxes["observations"], FailureCount("the ledger"))
    return evolve(Recorder(counted, boxes["meter"], boxes["traces"], ledger), **changes)


def call_of(services: Services, agent: str | None = "bob") -> Call:
    return Call(agent, Viewer(), services)


async def test_everybody_hears_of_a_finished_call_once(deaf_services: Services, boxes: dict[str, Mailbox]) -> None:
    counted = Counted()
    recorder(boxes, counted)(call_of(deaf_services), DONE)
    assert counted.calls == [("store_fact", True, 0.25, TOKENS_IN + 100)]
    assert told(boxes["meter"]) == [RecordUsage("bob", TOKENS_IN, 100, 50)]
    (recorded,) = told(boxes["traces"])
    assert isinstance(recorded, RecordTrace)
    entry = recorded.trace.entry()
    assert (recorded.passport_key, entry.tool, entry.turn_id) == ("bob", "store_fact", "t1")
    assert (entry.outcome, entry.response_tokens) == (Outcome.OK, 100)
    (effect,) = entry.predicted_effects
    assert (effect.kind, effect.entity, effect.key) == ("fact_write", "a", "k")
    (append,) = told(boxes["observations"])
    payload = json.loads(append.new.payload)
    assert (payload["tool"], payload["passport"], payload["request_id"]) == ("store_fact", "bob", "r1")
    assert (payload["result_bytes"], payload["latency_ms"], payload["token_budget_in"]) == (400, 250.0, 50)
    assert "args_raw" not in payload


async def test_raw_arguments_are_kept_only_where_they_are_asked_for(
    deaf_services: Services, boxes: dict[str, Mailbox]
) -> None:
    recorder(boxes, Counted(), raw_args=True)(call_of(deaf_services), DONE)
    (entry,) = told(boxes["observations"])
    assert json.loads(entry.new.payload)["args_raw"] == ARGUMENTS


async def test_what_nothing_answered_to_is_unknown_and_traced_as_it_was_called(
    deaf_services: Services, boxes: dict[str, Mailbox]
) -> None:
    counted = Counted()
    failed = replace(DONE, name="nothing", tool=None, ok=False, arguments=None, request_id=b"[1]")
    recorder(boxes, counted)(call_of(deaf_services, None), failed)
    assert counted.calls[0][:2] == ("unknown", False)
    assert told(boxes["meter"]) == [RecordUsage("__anon__", 1, 100, 0)]
    entry = told(boxes["traces"])[0].trace.entry()
    assert (entry.tool, entry.outcome) == ("nothing", Outcome.ERROR)
    assert entry.predicted_effects[0].kind == "tool_dispatch"
    payload = json.loads(told(boxes["observations"])[0].new.payload)
    assert payload["tool"] == "unknown"
    assert "request_id" not in payload


async def test_what_is_switched_off_hears_nothing(deaf_services: Services, boxes: dict[str, Mailbox]) -> None:
    counted = Counted()
    recorder(boxes, counted, traces=None, ledger=None)(call_of(deaf_services), DONE)
    assert len(counted.calls) == len(told(boxes["meter"])) == 1
    assert told(boxes["traces"]) == told(boxes["observations"]) == []


async def test_full_mailboxes_lose_records_and_nothing_else(deaf_services: Services) -> None:
    full = {name: Mailbox(name, capacity=1) for name in ("meter", "traces", "observations")}
    counted, lost = Counted(), FailureCount("the ledger")
    record = recorder(full, counted, ledger=Ledger(full["observations"], lost))
    for _ in range(3):
        record(call_of(deaf_services), DONE)
    assert len(counted.calls) == 3
    assert [len(told(mailbox)) for mailbox in full.values()] == [1, 1, 1]
    assert lost.total == 2
