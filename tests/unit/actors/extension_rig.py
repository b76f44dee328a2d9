"""The Extensions and those that they ask, over a database, and agents that listen."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trio
import trio.testing
from attrs import define

from crux.actors.audit import AuditFigures, AuditSink, AuditTail
from crux.actors.extension_messages import (
    Install,
    IssueGrant,
    ToolsFor,
    TrustKey,
)
from crux.actors.extensions import Extensions
from crux.actors.facts import FactStore
from crux.actors.mailbox import Mailbox
from crux.actors.outbox import Outbox
from crux.actors.recall import Recall
from crux.actors.sessions import LIST_CHANGED, OpenStream, SessionRegistry
from crux.actors.supervisor import RestartPolicy, Supervised, start_all
from crux.domain.commands import Put, Records, Transact
from crux.domain.decay import DecayPolicy
from crux.domain.extensions import (
    ExtensionGrant,
    InstalledExtension,
    TrustedKey,
    TrustTier,
)
from crux.domain.facts import Draft
from crux.domain.messages import Message
from crux.domain.streams import StreamLimits, owner_key
from crux.errors import StorageFull
from crux.storage.engine import SqliteEngine
from crux.storage.writer import Outcomes
from tests.conftest import HandClock
from tests.manifests import PUBLIC_KEY_HEX, SIGNER, manifest_json, manifest_of
from tests.unit.actors.stores import noted

NOW_MS = HandClock().us // 1000


@define
class Rig:
    """The actor and those that it asks, over a database."""

    extensions: Mailbox
    facts: Mailbox
    recall: Mailbox
    audit: Mailbox
    sessions: Mailbox
    engine: SqliteEngine
    batches: list[Sequence[Message[Any]]]

    async def install(self, document: dict[str, Any] | None = None, by: str | None = None) -> InstalledExtension:
        return await self.extensions.ask(Install(manifest_of(document or manifest_json()), by, allow_unsigned=True))

    async def grant(self, extension_id: str = "ext.quote", passport: str = "alice", **terms: Any) -> ExtensionGrant:
        return await self.extensions.ask(IssueGrant(extension_id=extension_id, passport_fpr=passport, **terms))

    async def trust(self, fingerprint: str = SIGNER, tier: TrustTier = TrustTier.COMMUNITY_REVIEWED) -> TrustedKey:
        return await self.extensions.ask(TrustKey(fingerprint, PUBLIC_KEY_HEX, tier, "", None))

    async def tool_names(self, passport: str = "alice") -> list[str]:
        return [granted.tool.name for granted in await self.extensions.ask(ToolsFor(passport))]

    async def trail(self) -> list[tuple[str, str, str, str, str, Any]]:
        return [
            (event.action, event.pack_id, event.actor, event.version, event.outcome, json.loads(event.detail.text))
            for event in await self.audit.ask(AuditTail(1000))
            if event.detail is not None
        ]

    async def records(self) -> list[tuple[str, str, float]]:
        """What the store holds now under the names of extensions: entity, value and confidence."""
        kept = [
            fact
            for prefix in ("__extension__::", "__extension_grant__::", "__trusted_key__::")
            for fact in await self.recall.ask(Records(prefix))
        ]
        assert all(fact.private and fact.tenant == "default" and fact.key == "record" for fact in kept)
        return [(fact.entity, fact.value, fact.confidence) for fact in kept]

    async def store(self, *drafts: Draft) -> None:
        await self.facts.ask(Transact(tuple(map(Put, drafts))))

    def writes(self) -> list[Message[Any]]:
        """What was committed of extensions, in order; the trail apart."""
        return [
            command
            for batch in self.batches
            for command in batch
            if isinstance(command, Transact)
            and not any(isinstance(step, Put) and step.draft.entity.startswith("__audit__") for step in command.steps)
        ]

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        commit = self.engine.commit

        async def refuse(commands: Sequence[Message[Any]], now_us: int) -> Outcomes:
            await trio.lowlevel.checkpoint()
            return [StorageFull("the disk is full")] * len(commands)

        self.engine.commit = refuse
        yield
        self.engine.commit = commit


@asynccontextmanager
async def running(directory: Path, *, audit_capacity: int = 1024, audits: bool = True) -> AsyncIterator[Rig]:
    """The four actors; ends as a process does that is killed. With `audits` False nobody reads the audit's mailbox."""
    engine = await SqliteEngine.open(directory, DecayPolicy())
    facts, recall, extensions = Mailbox("facts"), Mailbox("recall"), Mailbox("extensions")
    audit, sessions, clock = Mailbox("audit", audit_capacity), Mailbox("sessions"), HandClock()
    rig = Rig(extensions, facts, recall, audit, sessions, engine, noted(engine))
    sink = Supervised(audit, lambda: AuditSink(facts, recall, AuditFigures()))

    def build() -> Extensions:
        return Extensions(facts, recall, audit, sessions, clock, builtins={"store_fact", "ext.builtin"})

    async with trio.open_nursery() as nursery:
        if not audits:
            nursery.start_soon(audit.keep_time)
        await start_all(
            nursery,
            [
                Supervised(facts, lambda: FactStore(engine, clock)),
                Supervised(recall, lambda: Recall(engine)),
                *([sink] if audits else []),
                Supervised(sessions, SessionRegistry),
                Supervised(extensions, build),
            ],
            RestartPolicy(backoff_s=0),
        )
        yield rig
        nursery.cancel_scope.cancel()
    engine.close()


async def listening(rig: Rig, agent: str) -> Outbox:
    return (await rig.sessions.ask(OpenStream(owner_key(agent, None), StreamLimits(0, 0), None))).outbox


async def were_told(*listeners: Outbox) -> list[bool]:
    """Which of the agents were told by now that their tools changed; what waited for them is taken."""
    await trio.testing.wait_all_tasks_blocked()
    return [listener.holds(LIST_CHANGED) and LIST_CHANGED in await listener.take() for listener in listeners]
