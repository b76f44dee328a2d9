"""What a daemon is made of, put together from its settings. Nothing here runs: `daemon` starts the parts and stops
them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from attrs import frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crux.actors.accounts import GatheringMailbox
from crux.actors.acknowledgements import Acknowledgements
from crux.actors.actor import Actor
from crux.actors.audit import AuditFigures, AuditSink
from crux.actors.clock import Clock
from crux.actors.extensions import Extensions
from crux.actors.facts import FactStore
from crux.actors.failures import FailureCount
from crux.actors.gaps import Gaps
from crux.actors.intents import IntentMap
from crux.actors.introspection import Introspector
from crux.actors.ledger import Ledger
from crux.actors.limiter import RateLimiter
from crux.actors.mailbox import Mailbox
from crux.actors.meter import Meter
from crux.actors.observations import Observations
from crux.actors.recall import Recall
from crux.actors.sessions import SessionRegistry
from crux.actors.supervisor import Supervised
from crux.actors.sweeper import Sweeper
from crux.actors.topology import ASKS
from crux.actors.traces import TraceRing
from crux.config import ServerKind, Settings
from crux.domain.agents import AgentRegistry
from crux.domain.decay import DecayPolicy
from crux.domain.inline_receipts import ReceiptSigner
from crux.domain.outbound_config import OutboundConfig
from crux.domain.privacy import PrivacyRules
from crux.domain.router import Router
from crux.domain.streams import StreamLimits
from crux.storage.engine import Engine
from crux.storage.preparing import Preparer
from crux.tools.dispatch import Dispatcher, Post
from crux.tools.extensions import Invoker
from crux.tools.listing import Listing
from crux.tools.recording import Recorder
from crux.tools.registry import Catalogue, Services
from crux.tools.spans import span_of_calls
from crux.transport.auth import HttpAuthenticator
from crux.transport.front import Front, Limits, Load
from crux.transport.gates import GuardPolicy
from crux.transport.listening import address
from crux.transport.mcp import McpApp, render_gate
from crux.transport.mcp_auth import McpAuthenticator, OAuth
from crux.transport.metrics import Metrics
from crux.transport.rest import Api, correlated, create_app, render_problem
from crux.transport.serving import Server, server_of
from crux.transport.sse import EventStreams
from crux.transport.well_known import WellKnown, documents_of
from crux.transport.wire import WireCounts

# Actors that are told of every call and asked now and then.
ACCOUNTS = frozenset({"traces", "meter"})

Sockets = Sequence[socket.socket]


@frozen(kw_only=True)
class Resources:
    """What the parts stand on: what was read, opened and bound for them.

    `key` is the daemon's own and `node_id` its name. `mcp` is empty where MCP is off; without a `router` every tool may
    be called; `introspector` builds that actor where OAuth is on; `post` calls the endpoints of extensions.
    """

    settings: Settings
    registry: AgentRegistry
    authenticator: HttpAuthenticator
    catalogue: Catalogue
    clock: Clock
    key: Ed25519PrivateKey
    node_id: str
    router: Router | None
    engine: Engine
    http: Sockets
    mcp: Sockets
    introspector: Callable[[], Introspector] | None
    post: Post
    redactions: Mapping[str, int]


@frozen(kw_only=True)
class Composition:
    """The parts: mailboxes by name, actors in the order in which they start, and a server for each port."""

    mailboxes: Mapping[str, Mailbox]
    services: Services
    actors: Sequence[Supervised]
    servers: Sequence[Server]


def compose(given: Resources) -> Composition:
    """Put a daemon together."""
    mailboxes = _mailboxes(given.settings, given.introspector is not None)
    losses = {"mailbox_full": FailureCount("the ledger"), "storage": FailureCount("observations")}
    trail = AuditFigures()
    loads = {"http": Load(), "mcp": Load()}
    wires = {"http": WireCounts(), "mcp": WireCounts()}
    metrics = Metrics(
        tuple(mailboxes.values()),
        loads,
        given.engine.sizes,
        redactions=given.redactions,
        wires=wires,
        losses=losses,
        trail=trail,
    )
    services = _services(given, mailboxes, metrics)
    guard = GuardPolicy(given.settings.allowed_hosts, given.settings.allowed_origins)
    limits = Limits(given.settings.max_body_bytes, given.settings.max_inflight)
    rest = correlated(
        Front(create_app(_api(given, services, mailboxes, metrics)), guard, limits, loads["http"], render_problem)
    )
    servers = [server_of(given.settings.http_server, rest, given.http, given.settings, wires["http"])]
    if given.mcp:
        ledger = Ledger(mailboxes["observations"], losses["mailbox_full"]) if given.settings.tool_ledger else None
        app = _mcp_app(given, services, mailboxes, guard, metrics=metrics, ledger=ledger)
        front = Front(app, guard, limits, loads["mcp"], render_gate)
        servers.append(server_of(given.settings.mcp_server, front, given.mcp, given.settings, wires["mcp"]))
    return Composition(
        mailboxes=mailboxes,
        services=services,
        actors=_actors(given, mailboxes, losses["storage"], trail),
        servers=servers,
    )


def _mailboxes(settings: Settings, with_oauth: bool) -> Mapping[str, Mailbox]:
    """One for each actor; the Introspector runs where it has work."""
    names = [name for name in ASKS if with_oauth or name != "introspection"]
    kinds = {name: GatheringMailbox if name in ACCOUNTS else Mailbox for name in names}
    return {name: kind(name, settings.mailbox_capacity, settings.request_timeout_s) for name, kind in kinds.items()}


def _services(given: Resources, mailboxes: Mapping[str, Mailbox], metrics: Metrics) -> Services:
    settings = given.settings
    privacy = PrivacyRules(settings.always_private_prefixes, settings.share_prefixes)
    return Services(
        facts=mailboxes["facts"],
        recall=mailboxes["recall"],
        intents=mailboxes["intents"],
        traces=mailboxes["traces"],
        gaps=mailboxes["gaps"],
        acknowledgements=mailboxes["acknowledgements"],
        preparation=Preparer(),
        extensions=mailboxes["extensions"],
        audit=mailboxes["audit"],
        extension_calls=Invoker(
            mailboxes["extensions"],
            mailboxes["facts"],
            Dispatcher(
                limiter=mailboxes["limiter"],
                audit=mailboxes["audit"],
                post=given.post,
                clock=given.clock,
                config=_outbound,
            ).dispatch,
            privacy,
        ),
        outbound=_outbound,
        clock=given.clock,
        privacy=privacy,
        decay=decay_policy(settings),
        node_id=given.node_id,
        base_url=f"http://{address(given.http)}",
        mcp_url=f"http://{address(given.mcp)}/mcp" if given.mcp else None,
        catalogue=given.catalogue,
        truncated=metrics.observe_truncation,
        router=given.router,
        span=span_of_calls(),
        audit_envelope=settings.audit_envelope,
        salience=settings.memory_salience,
        reversible_budget=settings.reversible_budget,
        switched_off=settings.switched_off,
    )


def _outbound() -> OutboundConfig:
    """What the environment says now (Decision 24)."""
    return OutboundConfig.from_env(os.environ)


def decay_policy(settings: Settings) -> DecayPolicy:
    """After how long facts are stale."""
    return DecayPolicy(settings.decay_volatile_hours, settings.decay_medium_days, settings.decay_stable_days)


def _actors(
    given: Resources, mailboxes: Mapping[str, Mailbox], failures: FailureCount, trail: AuditFigures
) -> list[Supervised]:
    """Every actor, in the order in which they start; `ASKS` names them all."""
    facts, recall, signer = mailboxes["facts"], mailboxes["recall"], ReceiptSigner(given.key)
    builders: dict[str, Callable[[], Actor]] = {
        "facts": partial(FactStore, given.engine, given.clock),
        "recall": partial(Recall, given.engine),
        "sessions": SessionRegistry,
        "intents": partial(IntentMap, given.clock),
        "traces": partial(TraceRing, given.clock, given.settings.tool_traces_ttl_s),
        "meter": Meter,
        "observations": partial(Observations, facts, recall, given.clock, signer, failures=failures),
        "gaps": partial(Gaps, facts, recall),
        "acknowledgements": Acknowledgements,
        "sweeper": partial(Sweeper, facts),
        "limiter": RateLimiter,
        "audit": partial(AuditSink, facts, recall, trail),
        "extensions": partial(
            Extensions,
            facts,
            recall,
            mailboxes["audit"],
            mailboxes["sessions"],
            given.clock,
            builtins=frozenset(given.catalogue.by_name),
        ),
    }
    if given.introspector is not None:
        builders["introspection"] = given.introspector
    return [Supervised(mailbox, builders[name]) for name, mailbox in mailboxes.items()]


def _api(given: Resources, services: Services, mailboxes: Mapping[str, Mailbox], metrics: Metrics) -> Api:
    return Api(
        services=services,
        authenticator=given.authenticator,
        mailboxes=tuple(mailboxes.values()),
        metrics=metrics,
        max_body_bytes=given.settings.max_body_bytes,
        request_timeout_s=given.settings.request_timeout_s,
        mcp_enabled=given.settings.mcp_enabled,
    )


def _mcp_app(
    given: Resources,
    services: Services,
    mailboxes: Mapping[str, Mailbox],
    guard: GuardPolicy,
    *,
    metrics: Metrics,
    ledger: Ledger | None,
) -> McpApp:
    settings = given.settings
    lean = settings.mcp_server is ServerKind.WIRE
    auth = McpAuthenticator(
        given.registry,
        OAuth(mailboxes["introspection"], settings.mcp_oauth_tenant) if given.introspector else None,
        required=settings.mcp_require_auth,
        resource_url=settings.mcp_resource_url,
    )
    documents = documents_of(settings, auth, given.catalogue, node_id=services.node_id, base_url=services.base_url)
    return McpApp(
        services,
        auth,
        guard,
        settings.max_body_bytes,
        record=Recorder(
            metrics.observe_tool,
            mailboxes["meter"],
            mailboxes["traces"] if settings.tool_traces else None,
            ledger,
            raw_args=settings.tool_ledger_raw_args,
        ),
        listing=Listing(given.catalogue, services.router, settings.tool_surface, ledger, settings.extension_names),
        streams=EventStreams(
            mailboxes["sessions"],
            StreamLimits(settings.sse_max_sessions, settings.sse_max_sessions_per_owner),
            watch_peers=not lean,
        ),
        well_known=WellKnown(documents, guard),
        body_timeout_s=None if lean else settings.request_timeout_s,
    )
