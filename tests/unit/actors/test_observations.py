"""The Observations on the real store: chains that hold, whatever happens to the daemon or the disk; and the way of the
ledger to them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing
from attrs import define
from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crux.actors import observations as observations_module
from crux.actors.facts import FactStore
from crux.actors.failures import FailureCount
from crux.actors.ledger import Ledger
from crux.actors.mailbox import ASK_DEADLINE_S, LOOK_S, Mailbox
from crux.actors.observations import AppendObservation, FlushObservations, Observations
from crux.actors.recall import Recall
from crux.actors.supervisor import Supervised, start_all
from crux.domain.commands import Chain, Transact
from crux.domain.decay import DecayPolicy
from crux.domain.inline_receipts import ReceiptSigner
from crux.domain.ledger import invocation, offer
from crux.domain.messages import Message
from crux.domain.observations import (
    NewObservation,
    ObservationRecord,
    ObservedSession,
    ledger_of,
    observation_kept_in,
    observed_session,
)
from crux.domain.privacy import RAW_ADMIN
from crux.domain.surface import SurfaceMode
from crux.domain.traces import Effect, trace_of
from crux.errors import ActorFailed, NoAnswer, PayloadTooLarge, StorageFull, StorageUnavailable
from crux.storage.engine import SqliteEngine
from crux.storage.writer import Outcomes
from tests.conftest import HandClock
from tests.unit.actors.stores import full_disk, kept_back, noted

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
BOB, EVE = observed_session("bob", "s"), observed_session("eve", "s")


def text_of(size: int) -> bytes:
    """A JSON string that is `size` bytes long."""
    return b'"' + b"x" * (size - 2) + b'"'


@define
class Rig:
    """The three actors over a database, and what a test may look at or break."""

    observations: Mailbox
    facts: Mailbox
    recall: Mailbox
    engine: SqliteEngine
    failures: FailureCount
    batches: list[Sequence[Message[Any]]]

    async def append(self, session: ObservedSession = BOB, payload: bytes = b"null", **more: Any) -> ObservationRecord:
        kept = await self.observations.ask(AppendObservation(session, NewObservation("k", "p", payload), **more))
        assert kept is not None
        return kept

    async def chain(self, session: ObservedSession = BOB) -> list[ObservationRecord]:
        """The records that are kept, in the order of their places; fails where the chain does not hold."""
        facts = await self.recall.ask(Chain(session.entity, None, RAW_ADMIN))
        before = None
        for seq, fact in enumerate(sorted(facts, key=lambda fact: fact.key)):
            record = json.loads(fact.value)
            assert (record["seq"], record.get("prev_hash"), fact.superseded_by) == (seq, before, None)
            record.pop("receipt")
            body = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
            before = blake3(body.encode()).hexdigest()
        return [observation_kept_in(fact) for fact in sorted(facts, key=lambda fact: fact.key)]


@asynccontextmanager
async def running(directory: Path, capacity: int = 1024) -> AsyncIterator[Rig]:
    """A daemon's worth of the store and the Observations; ends as a process does that is killed: nobody is asked."""
    engine = await SqliteEngine.open(directory, DecayPolicy())
    facts, recall, observations = Mailbox("facts"), Mailbox("recall"), Mailbox("observations", capacity)
    clock, failures = HandClock(), FailureCount("observations")
    rig = Rig(observations, facts, recall, engine, failures, noted(engine))
    async with trio.open_nursery() as nursery:
        await start_all(
            nursery,
            [
                Supervised(facts, lambda: FactStore(engine, clock)),
                Supervised(recall, lambda: Recall(engine)),
                Supervised(
                    observations,
                    lambda: Observations(
                        facts, recall, clock, ReceiptSigner(KEY), failures=failures, most_payload_bytes=200_000
                    ),
                ),
            ],
        )
        yield rig
        nursery.cancel_scope.cancel()
    engine.close()


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running(tmp_path) as rig:
        yield rig


async def test_an_observation_that_was_answered_is_on_disk(rig: Rig) -> None:
    kept = await rig.append(payload=b'{"a":1}')
    assert (kept.seq, kept.prev_hash, kept.principal) == (0, None, ReceiptSigner(KEY).name)
    assert await rig.chain() == [kept]


async def test_sessions_have_chains_of_their_own(rig: Rig) -> None:
    for session in (BOB, EVE, BOB, ledger_of("bob")):
        await rig.append(session)
    assert [len(await rig.chain(session)) for session in (BOB, EVE, ledger_of("bob"))] == [2, 1, 1]


async def test_all_that_waits_is_one_commit(rig: Rig) -> None:
    for number in range(Observations.batch_limit):
        rig.observations.tell(AppendObservation((BOB, EVE)[number % 2], NewObservation("k", "p")))
    await rig.observations.ask(FlushObservations())
    assert [[type(command) for command in batch] for batch in rig.batches] == [[Transact]]
    assert len(await rig.chain(BOB)) == len(await rig.chain(EVE)) == Observations.batch_limit // 2


async def test_what_waits_beyond_the_limit_of_a_batch_is_the_next_commit(rig: Rig) -> None:
    for _ in range(Observations.batch_limit + 1):
        rig.observations.tell(AppendObservation(BOB, NewObservation("k", "p")))
    await rig.observations.ask(FlushObservations())
    assert len(rig.batches) == 2
    assert len(await rig.chain()) == Observations.batch_limit + 1


async def test_a_refused_observation_harms_no_other_of_its_batch(rig: Rig) -> None:
    outcomes: list[object] = []

    async def append(payload: bytes) -> None:
        try:
            outcomes.append((await rig.append(payload=payload)).seq)
        except PayloadTooLarge:
            outcomes.append("too large")

    async with trio.open_nursery() as nursery:
        for payload in (text_of(9), text_of(200_001), text_of(200_000)):
            nursery.start_soon(append, payload)
    assert sorted(map(str, outcomes)) == ["0", "1", "too large"]
    assert len(await rig.chain()) == 2
    assert rig.failures.total == 0


async def test_a_chain_goes_on_after_a_restart(tmp_path: Path) -> None:
    for _ in range(3):
        async with running(tmp_path) as rig:
            await rig.append()
            await rig.append()
    async with running(tmp_path) as rig:
        assert len(await rig.chain()) == 6


async def test_a_chain_that_is_not_in_memory_is_read_again(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observations_module, "MOST_CHAINS", 1)
    for _ in range(3):
        await rig.append(BOB)
        await rig.append(EVE)
    assert len(await rig.chain(BOB)) == len(await rig.chain(EVE)) == 3


async def test_a_full_disk_is_told_to_who_asks_and_counted_and_the_chain_goes_on(rig: Rig) -> None:
    await rig.append()
    with structlog.testing.capture_logs() as logs:
        with full_disk(rig.engine):
            for _ in range(2):
                with pytest.raises(StorageFull):
                    await rig.append(payload=text_of(150_000))
            rig.observations.tell(AppendObservation(BOB, NewObservation("k", "p", text_of(150_000))))
            await rig.observations.ask(FlushObservations())
        await rig.append()
    assert [entry["log_level"] for entry in logs] == ["warning", "info"]
    assert rig.failures.total == 3
    assert [record.seq for record in await rig.chain()] == [0, 1]


async def test_a_crash_of_the_store_breaks_no_chain(rig: Rig) -> None:
    await rig.append()
    commit = rig.engine.commit

    async def crash_once(commands: Sequence[Message[Any]], now_us: int) -> Outcomes:
        rig.engine.commit = commit
        raise ZeroDivisionError("a bug")

    rig.engine.commit = crash_once
    with pytest.raises(ActorFailed):
        await rig.append()
    await rig.append()
    assert (len(await rig.chain()), rig.failures.total) == (2, 1)


async def test_a_store_that_cannot_be_read_fails_the_append_and_not_the_actor(rig: Rig) -> None:
    def unreadable(message: Message[Any]) -> object:
        raise StorageUnavailable("the disk is away")

    read_now, rig.engine.read_now = rig.engine.read_now, unreadable
    with pytest.raises(StorageUnavailable):
        await rig.append()
    rig.engine.read_now = read_now
    await rig.append()
    assert (len(await rig.chain()), rig.observations.figures.restarts) == (1, 0)


async def test_a_commit_whose_answer_came_too_late_is_built_upon(mock_clock: trio.testing.MockClock, rig: Rig) -> None:
    """It lands after the next append has read the tip: that one is refused once, and made anew."""
    await rig.append()

    async def append_too_late() -> None:
        with pytest.raises(NoAnswer):
            await rig.append()

    gate = kept_back(rig.engine)
    async with trio.open_nursery() as waiting:
        waiting.start_soon(append_too_late)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(ASK_DEADLINE_S + LOOK_S)
    seqs: list[int] = []

    async def append_next() -> None:
        seqs.append((await rig.append()).seq)

    async with trio.open_nursery() as waiting:
        waiting.start_soon(append_next)
        await trio.testing.wait_all_tasks_blocked()
        assert len(await rig.chain()) == 1
        gate.set()
    assert seqs == [2]
    assert len(await rig.chain()) == 3
    assert rig.failures.total == 1


async def test_an_observation_like_the_last_one_of_its_mark_is_left_out(rig: Rig) -> None:
    async def marked(mark: str, session: ObservedSession = BOB, kind: str = "offer") -> bool:
        return await rig.observations.ask(AppendObservation(session, NewObservation(kind, "p"), mark)) is not None

    assert [await marked(mark) for mark in ("a", "a", "b", "b", "a")] == [True, False, True, False, True]
    assert [await marked("a", session=EVE), await marked("a", kind="other")] == [True, True]
    await rig.append()
    assert not await marked("a")


async def test_marks_of_one_batch_are_compared_with_each_other(rig: Rig) -> None:
    for mark in ("a", "a", "b", "a", "a"):
        rig.observations.tell(AppendObservation(BOB, NewObservation("offer", "p"), mark))
    await rig.observations.ask(FlushObservations())
    assert len(rig.batches) == 1
    assert len(await rig.chain()) == 3


async def test_a_mark_that_was_not_kept_does_not_count(rig: Rig) -> None:
    new = NewObservation("offer", "p", text_of(150_000))
    with full_disk(rig.engine), pytest.raises(StorageFull):
        await rig.observations.ask(AppendObservation(BOB, new, "a"))
    assert await rig.observations.ask(AppendObservation(BOB, new, "a")) is not None


async def test_the_ledger_of_a_passport_holds_its_calls_and_each_new_offer(rig: Rig) -> None:
    lost = FailureCount("ledger entries")
    ledger = Ledger(rig.observations, lost)
    entry = trace_of("query", Effect.FACT_READ, {}, b"{}", ok=True, ts_us=1).entry()
    for names in (["a"], ["a"], ["a", "b"]):
        ledger.record(offer("bob", names, SurfaceMode.FULL))
        ledger.record(invocation(entry, {}, b"{}", label="query", passport="bob", result_bytes=1, elapsed_s=0))
    ledger.record(offer("eve", ["a"], SurfaceMode.FULL))
    await rig.observations.ask(FlushObservations())
    offered, invoked = "agent.tools_offered.v1", "agent.tool_invocation.v1"
    assert [record.kind for record in await rig.chain(ledger_of("bob"))] == [
        offered,
        invoked,
        invoked,
        offered,
        invoked,
    ]
    assert [record.session_id for record in await rig.chain(ledger_of("eve"))] == ["ledger::eve"]
    assert lost.total == 0


async def test_an_entry_that_finds_the_mailbox_full_is_counted_and_nothing_is_raised(tmp_path: Path) -> None:
    lost = FailureCount("ledger entries")
    async with running(tmp_path, capacity=2) as rig:
        ledger = Ledger(rig.observations, lost)
        with structlog.testing.capture_logs() as logs:
            for number in range(4):
                ledger.record(offer("bob", [str(number)], SurfaceMode.FULL))
            await rig.observations.ask(FlushObservations())
            ledger.record(offer("bob", [], SurfaceMode.FULL))
        assert (lost.total, rig.observations.figures.dropped) == (2, 2)
        assert [entry["log_level"] for entry in logs] == ["warning", "info"]
        await rig.observations.ask(FlushObservations())
        assert len(await rig.chain(ledger_of("bob"))) == 3
