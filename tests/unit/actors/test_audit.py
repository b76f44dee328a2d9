"""The AuditSink on the real store: what was answered is on disk, and what is left out is told of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing
from attrs import define, evolve

from crux.actors import audit as audit_module
from crux.actors.audit import MOST_TAIL, AuditFigures, AuditSink, AuditTail, RecordAudit
from crux.actors.facts import FactStore
from crux.actors.mailbox import ASK_DEADLINE_S, LOOK_S, Mailbox
from crux.actors.recall import Recall
from crux.actors.supervisor import Supervised, start_all
from crux.domain.audit import AUDIT_ENTITY, AuditEvent, audit_document
from crux.domain.commands import Chain, Put, Transact
from crux.domain.decay import DecayPolicy
from crux.domain.facts import Draft
from crux.domain.manifests import Json
from crux.domain.messages import Message
from crux.domain.privacy import ANONYMOUS, RAW_ADMIN
from crux.errors import ActorFailed, NoAnswer, StorageFull, StorageUnavailable
from crux.storage.engine import SqliteEngine
from crux.storage.writer import Outcomes
from tests.conftest import HandClock
from tests.unit.actors.stores import full_disk, kept_back, noted

LARGE = Json('"' + "x" * 150_000 + '"')


def called(number: int = 0, pack_id: str = "ext.a", action: str = "extension_invoke_ok", **more: Any) -> AuditEvent:
    return AuditEvent(action=action, pack_id=pack_id, ts_unix_ms=number, **more)


@define
class Rig:
    """The three actors over a database, and what a test may look at or break."""

    audit: Mailbox
    facts: Mailbox
    recall: Mailbox
    engine: SqliteEngine
    figures: AuditFigures
    sinks: list[AuditSink]
    batches: list[Sequence[Message[Any]]]

    async def record(self, event: AuditEvent) -> int:
        return await self.audit.ask(RecordAudit((event,)))

    async def record_many(self, events: Sequence[AuditEvent]) -> list[int]:
        return [await self.record(event) for event in events]

    async def actions(self) -> list[str]:
        return [event.action.removeprefix("extension_") for event in await self.audit.ask(AuditTail(MOST_TAIL))]

    async def places(self) -> list[int]:
        """The places of the trail, each of which must have been written once."""
        facts = await self.recall.ask(Chain(AUDIT_ENTITY, None, RAW_ADMIN))
        assert {fact.version for fact in facts} <= {1}
        return [int(fact.key) for fact in facts]

    def tell(self, *events: AuditEvent) -> None:
        for event in events:
            self.audit.tell(RecordAudit((event,)))


@asynccontextmanager
async def running(directory: Path) -> AsyncIterator[Rig]:
    """A daemon's worth of the store and the AuditSink; ends as a process does that is killed: nobody is asked."""
    engine = await SqliteEngine.open(directory, DecayPolicy())
    facts, recall, audit = Mailbox("facts"), Mailbox("recall"), Mailbox("audit")
    rig = Rig(audit, facts, recall, engine, AuditFigures(), [], noted(engine))

    def build() -> AuditSink:
        rig.sinks.append(AuditSink(facts, recall, rig.figures))
        return rig.sinks[-1]

    async with trio.open_nursery() as nursery:
        actors = [Supervised(facts, lambda: FactStore(engine, HandClock())), Supervised(recall, lambda: Recall(engine))]
        await start_all(nursery, [*actors, Supervised(audit, build)])
        yield rig
        nursery.cancel_scope.cancel()
    engine.close()


@pytest.fixture
async def rig(tmp_path: Path, mock_clock: trio.testing.MockClock) -> AsyncIterator[Rig]:
    async with running(tmp_path) as rig:
        yield rig


async def test_an_event_that_was_answered_is_on_disk_and_nobody_s_to_see(tmp_path: Path) -> None:
    event = called(5, version="0.1.0", outcome="ok", detail=Json('{"tool_name":"t"}'), actor="alice")
    async with running(tmp_path) as rig:
        assert await rig.record(event)
    async with running(tmp_path) as rig:
        assert await rig.audit.ask(AuditTail(10)) == (event,)
        assert await rig.recall.ask(Chain(AUDIT_ENTITY, None, ANONYMOUS)) == ()


@pytest.mark.parametrize(
    ("limit", "numbers"), [(-1, []), (0, []), (1, [3]), (2, [2, 3]), (4, [0, 1, 2, 3]), (9, [0, 1, 2, 3])]
)
async def test_the_tail_is_the_newest_with_the_oldest_of_them_first(rig: Rig, limit: int, numbers: list[int]) -> None:
    await rig.record_many([called(number) for number in range(4)])
    assert [event.ts_unix_ms for event in await rig.audit.ask(AuditTail(limit))] == numbers


async def test_one_tail_has_an_end(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "MOST_TAIL", 2)
    await rig.record_many([called(number) for number in range(3)])
    assert [len(await rig.audit.ask(AuditTail(limit))) for limit in (1, 2, 3)] == [1, 2, 2]


async def test_an_empty_trail_has_no_tail(rig: Rig) -> None:
    assert await rig.audit.ask(AuditTail(50)) == ()


@pytest.mark.parametrize("more", [0, 1])
async def test_all_that_waits_is_one_commit_up_to_the_limit_of_a_batch(rig: Rig, more: int) -> None:
    events = [called(number, action="extension_install") for number in range(AuditSink.batch_limit + more)]
    rig.tell(*events)
    tail = await rig.audit.ask(AuditTail(MOST_TAIL))
    assert tail == tuple(events)
    assert [[type(command) for command in batch] for batch in rig.batches] == [[Transact]] * (1 + more)


async def test_the_trail_goes_on_after_a_restart_and_windows_begin_anew(tmp_path: Path) -> None:
    for _ in range(2):
        async with running(tmp_path) as rig:
            assert await rig.record_many([called()] * 61) == [True] * 60 + [False]
    async with running(tmp_path) as rig:
        assert await rig.places() == list(range(122))
        assert await rig.actions() == ([*["invoke_ok"] * 60, "audit_suppressed"]) * 2


async def test_of_a_minute_s_calls_sixty_are_kept_then_one_marker_then_nothing(
    rig: Rig, mock_clock: trio.testing.MockClock
) -> None:
    rejected = called(action="extension_invoke_rejected")
    assert await rig.record_many([called(), rejected] * 30) == [True] * 60
    assert rig.figures.suppressed == 0
    crossing = called(61, actor="alice", version="1", outcome="rejected", action="extension_invoke_rejected")
    assert await rig.record_many([crossing, called(62), rejected]) == [False] * 3
    assert rig.figures.suppressed == 3
    commits = len(rig.batches)
    assert commits == 61, "what is left out costs no commit"
    *_, marker = await rig.audit.ask(AuditTail(MOST_TAIL))
    assert audit_document(marker) == {
        "ts_unix_ms": 61,
        "action": "audit_suppressed",
        "actor": "alice",
        "pack_id": "ext.a",
        "version": "1",
        "outcome": "suppressed",
        "detail": {"event_family": "extension_invoke", "count": 61, "limit_per_min": 60},
    }
    mock_clock.jump(59.75)
    assert not await rig.record(called())
    mock_clock.jump(0.25)
    assert await rig.record_many([called()] * 61) == [True] * 60 + [False]
    *_, marker = await rig.audit.ask(AuditTail(MOST_TAIL))
    assert marker.detail == Json(
        '{"event_family":"extension_invoke","count":61,"limit_per_min":60,"suppressed_before":3}'
    )
    assert (await rig.actions()).count("audit_suppressed") == 2
    assert rig.figures.suppressed == 5


async def test_a_window_begins_with_its_first_event_and_does_not_slide(
    rig: Rig, mock_clock: trio.testing.MockClock
) -> None:
    await rig.record(called())
    mock_clock.jump(59)
    assert await rig.record_many([called()] * 60) == [True] * 59 + [False]
    mock_clock.jump(1)
    assert await rig.record_many([called()] * 61) == [True] * 60 + [False]


async def test_extensions_are_counted_apart_and_all_but_calls_is_always_kept(rig: Rig) -> None:
    assert not all(await rig.record_many([called()] * 62))
    assert await rig.record(called(pack_id="ext.b"))
    for action in ("extension_install", "extension_grant_added", "trusted_key_added", "extension_invoke"):
        assert all(await rig.record_many([called(action=action)] * 62))


async def test_a_batch_counts_as_its_events_do_one_by_one(rig: Rig) -> None:
    rig.tell(*[called(number) for number in range(59)], called(pack_id="ext.b"), *[called()] * 5)
    assert await rig.actions() == [*["invoke_ok"] * 61, "audit_suppressed"]
    assert (len(rig.batches), rig.figures.suppressed) == (1, 4)


async def test_as_many_windows_are_held_as_fit(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_module, "MOST_WINDOWS", 2)
    assert not all(await rig.record_many([called()] * 61))
    for pack_id in ("ext.b", "ext.c"):
        assert await rig.record(called(pack_id=pack_id))
    assert list(rig.sinks[0]._windows) == ["ext.b", "ext.c"]
    assert await rig.record(called()), "what was called longest ago is counted anew"


async def test_a_full_disk_is_told_to_who_asks_and_counted_and_the_trail_goes_on(rig: Rig) -> None:
    await rig.record(called())
    with structlog.testing.capture_logs() as logs:
        with full_disk(rig.engine):
            for _ in range(2):
                with pytest.raises(StorageFull):
                    await rig.record(called(detail=LARGE))
        await rig.record(called())
    assert [entry["log_level"] for entry in logs] == ["warning", "info"]
    assert rig.figures.lost.total == 2
    assert await rig.places() == [0, 1]


async def test_a_marker_that_was_not_kept_is_due_for_the_next_event(rig: Rig) -> None:
    await rig.record_many([called()] * 60)
    with full_disk(rig.engine), pytest.raises(StorageFull):
        await rig.record(called(version="x" * 150_000))
    assert rig.figures.suppressed == 0
    assert await rig.record_many([called(), called()]) == [False, False]
    assert (await rig.actions()).count("audit_suppressed") == 1
    assert rig.figures.suppressed == 2


async def test_events_that_need_no_disk_are_suppressed_while_it_is_full(rig: Rig) -> None:
    await rig.record_many([called()] * 61)
    with full_disk(rig.engine):
        assert not await rig.record(called(detail=LARGE))
    assert rig.figures.lost.total == 0


async def test_a_crash_of_the_store_breaks_no_trail(rig: Rig) -> None:
    await rig.record(called())
    commit = rig.engine.commit

    async def crash_once(commands: Sequence[Message[Any]], now_us: int) -> Outcomes:
        rig.engine.commit = commit
        raise ZeroDivisionError("a bug")

    rig.engine.commit = crash_once
    with pytest.raises(ActorFailed):
        await rig.record(called())
    await rig.record(called())
    assert (await rig.places(), rig.figures.lost.total) == ([0, 1], 1)


async def test_a_store_that_cannot_be_read_fails_the_asker_and_not_the_actor(rig: Rig) -> None:
    def unreadable(message: Message[Any]) -> object:
        raise StorageUnavailable("the disk is away")

    read_now, rig.engine.read_now = rig.engine.read_now, unreadable
    for message in (RecordAudit((called(),)), AuditTail(1)):
        with pytest.raises(StorageUnavailable):
            await rig.audit.ask(message)
    rig.engine.read_now = read_now
    await rig.record(called())
    assert (await rig.places(), rig.audit.figures.restarts, rig.figures.lost.total) == ([0], 0, 1)


async def test_a_commit_whose_answer_came_too_late_is_built_upon(mock_clock: trio.testing.MockClock, rig: Rig) -> None:
    """It lands after the next event has read the place: that one is refused once, and made anew."""
    await rig.record(called(0))

    async def record_too_late() -> None:
        with pytest.raises(NoAnswer):
            await rig.record(called(1))

    gate = kept_back(rig.engine)
    async with trio.open_nursery() as waiting:
        waiting.start_soon(record_too_late)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(ASK_DEADLINE_S + LOOK_S)
    async with trio.open_nursery() as waiting:
        waiting.start_soon(rig.record, called(2))
        await trio.testing.wait_all_tasks_blocked()
        assert await rig.places() == [0]
        gate.set()
    assert [event.ts_unix_ms for event in await rig.audit.ask(AuditTail(9))] == [0, 1, 2]
    assert rig.figures.lost.total == 1


async def test_an_event_that_cannot_be_read_is_skipped_and_logged(rig: Rig) -> None:
    await rig.record(called(1))
    await rig.facts.ask(Put(Draft(AUDIT_ENTITY, "1" * 20, "{}", private=True)))
    with structlog.testing.capture_logs() as logs:
        assert [event.ts_unix_ms for event in await rig.audit.ask(AuditTail(9))] == [1]
    assert [entry["place"] for entry in logs] == ["1" * 20]
    assert rig.audit.figures.restarts == 0


async def test_an_event_takes_about_as_many_bytes_as_is_said(rig: Rig) -> None:
    event = called(
        1_800_000_000_000, "ext.example.quote", actor="p_community_alice", version="0.1.0", outcome="rejected"
    )
    event = evolve(event, detail=Json('{"tool_name":"ext.example.quote.daily","reason":"endpoint_not_allowed"}'))
    before = rig.engine.sizes()["database"]
    rig.tell(*[evolve(event, action="extension_install")] * 1000)
    await rig.audit.ask(AuditTail(1))
    rig.engine._writer._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert 300 < (rig.engine.sizes()["database"] - before) / 1000 < 700
