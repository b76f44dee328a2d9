"""What most tests above the domain stand on: real actors over a temporary database, a clock that is set by hand, and
a client for a daemon that serves."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import trio
from attrs import define, frozen

from crux.actors.acknowledgements import Acknowledgements
from crux.actors.audit import AuditFigures, AuditSink
from crux.actors.extensions import Extensions
from crux.actors.facts import FactStore
from crux.actors.gaps import Gaps
from crux.actors.intents import IntentMap
from crux.actors.mailbox import Mailbox
from crux.actors.recall import Recall
from crux.actors.sessions import SessionRegistry
from crux.actors.supervisor import Supervised, start_all
from crux.actors.traces import TraceRing
from crux.domain.decay import DecayPolicy
from crux.domain.outbound_config import OutboundConfig
from crux.domain.privacy import PrivacyRules
from crux.storage.engine import SqliteEngine
from crux.storage.preparing import Preparer
from crux.tools.catalogue import CATALOGUE
from crux.tools.registry import Services
from crux.transport.http_client import HttpTransport


@define
class HandClock:
    """Stands still until a test moves it."""

    us: int = 1_800_000_000_000_000

    def now_us(self) -> int:
        return self.us


@frozen
class Stack:
    """Everything below the edges."""

    services: Services
    clock: HandClock
    engine: SqliteEngine
    sessions: Mailbox

    @property
    def mailboxes(self) -> tuple[Mailbox, ...]:
        return mailboxes_of(self.services)


def mailboxes_of(services: Services) -> tuple[Mailbox, ...]:
    return (
        services.facts,
        services.recall,
        services.intents,
        services.traces,
        services.audit,
        services.extensions,
        services.gaps,
        services.acknowledgements,
    )


class NoCalls:
    """The `ExtensionCalls` of tests in which nothing is called."""

    async def invoke(self, extension_id: str, tool: str, args: object, passport: str) -> bytes:
        raise AssertionError(f"{extension_id} is called, which nobody expected")


def services_on(clock: HandClock) -> Services:
    return Services(
        facts=Mailbox("facts"),
        recall=Mailbox("recall"),
        intents=Mailbox("intents"),
        traces=Mailbox("traces"),
        gaps=Mailbox("gaps"),
        acknowledgements=Mailbox("acknowledgements"),
        preparation=Preparer(),
        extensions=Mailbox("extensions"),
        audit=Mailbox("audit"),
        extension_calls=NoCalls(),
        outbound=lambda: OutboundConfig.from_env(os.environ),
        clock=clock,
        privacy=PrivacyRules(),
        decay=DecayPolicy(),
        node_id="0123456789abcdef" * 2,
        base_url="http://127.0.0.1:14800",
        catalogue=CATALOGUE,
        truncated=lambda tool, reason: None,
        mcp_url="http://127.0.0.1:14801/mcp",
    )


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    """The store's actors, running, and the services that tools and routes work with."""
    engine = await SqliteEngine.open(tmp_path, DecayPolicy())
    clock = HandClock()
    services, sessions = services_on(clock), Mailbox("sessions")
    builtins = CATALOGUE.by_name.keys()

    def extensions() -> Extensions:
        return Extensions(services.facts, services.recall, services.audit, sessions, clock, builtins=builtins)

    async with trio.open_nursery() as nursery:
        actors = [
            Supervised(services.facts, lambda: FactStore(engine, clock)),
            Supervised(services.recall, lambda: Recall(engine)),
            Supervised(services.intents, lambda: IntentMap(clock)),
            Supervised(services.gaps, lambda: Gaps(services.facts, services.recall)),
            Supervised(services.acknowledgements, Acknowledgements),
            Supervised(services.traces, lambda: TraceRing(clock, ttl_s=3600)),
            Supervised(sessions, SessionRegistry),
            Supervised(services.audit, lambda: AuditSink(services.facts, services.recall, AuditFigures())),
            Supervised(services.extensions, extensions),
        ]
        await start_all(nursery, actors)
        yield Stack(services, clock, engine, sessions)
        nursery.cancel_scope.cancel()
    engine.close()


@pytest.fixture
async def deaf_services(nursery: trio.Nursery) -> Services:
    """Services whose actors never come to a message."""
    services = services_on(HandClock())
    for mailbox in mailboxes_of(services):
        nursery.start_soon(mailbox.keep_time)
    return services


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    transport = HttpTransport(trust_env=False, limits=httpx.Limits(max_connections=64))
    async with httpx.AsyncClient(timeout=20, trust_env=False, transport=transport) as opened:
        yield opened
