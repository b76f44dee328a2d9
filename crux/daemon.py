"""The one place that knows everything: it starts the actors bottom-up, then the listeners, and takes them down in
reverse."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType

import trio
from attrs import frozen

from crux import __version__
from crux.actors.clock import Clock, SystemClock
from crux.actors.facts import FactStore
from crux.actors.failures import FailureCount
from crux.actors.intents import IntentMap
from crux.actors.ledger import Ledger
from crux.actors.mailbox import Mailbox
from crux.actors.meter import Meter
from crux.actors.observations import FlushObservations, Observations
from crux.actors.recall import Recall
from crux.actors.sessions import EndStreams, SessionRegistry
from crux.actors.supervisor import RestartPolicy, Supervised, start_all
from crux.actors.topology import ASKS
from crux.actors.traces import TraceRing
from crux.config import AuthMode, Loaded, ServerKind, Settings
from crux.domain.agents import AgentRegistry
from crux.domain.bootstrap import STOCK
from crux.domain.commands import Seed
from crux.domain.decay import DecayPolicy, default_horizon
from crux.domain.facts import Draft
from crux.domain.inline_receipts import ReceiptSigner
from crux.domain.privacy import PrivacyRules
from crux.domain.streams import StreamLimits
from crux.logs import get_logger
from crux.routing import router_of
from crux.storage.directory import hold
from crux.storage.engine import Engine, SqliteEngine
from crux.storage.keys import install_id, root_key
from crux.tools.catalogue import CATALOGUE
from crux.tools.listing import Listing
from crux.tools.recording import Recorder
from crux.tools.registry import Catalogue, Services
from crux.tools.spans import span_of_calls
from crux.transport.auth import McpAuthenticator, authenticator_of
from crux.transport.front import Front, Limits, Load
from crux.transport.gates import GuardPolicy
from crux.transport.hypercorn_server import CUT_GRACE_S
from crux.transport.listening import address, bind
from crux.transport.mcp import McpApp, render_gate
from crux.transport.metrics import Metrics
from crux.transport.rest import Api, correlated, create_app, render_problem
from crux.transport.serving import Server, server_of
from crux.transport.sse import EventStreams
from crux.transport.wire import WireCounts

log = get_logger("crux.daemon")

# The writer's thread lets go of the interpreter around every step of SQLite and must get it back soon, also when the
# event loop is busy; Python's own 5 ms would make a batch wait for each of its statements.
SWITCH_INTERVAL_S = 0.0005
# What is left to the store once the listeners have drained.
CLOSE_GRACE_S = 10.0
# What the last entries of the ledger get, once no call can make another.
FLUSH_S = 5.0
# What marks a fact as the daemon's own text, which a newer version may renew.
STOCK_RECEIPT = "crux:stock"


@frozen
class Ready:
    """Where a daemon that serves can be reached."""

    http: str
    mcp: str | None
    data_dir: Path
    version: str
    warnings: tuple[str, ...]


Announce = Callable[[Ready], None]


def run(loaded: Loaded, *, announce: Announce, redactions: Mapping[str, int] = MappingProxyType({})) -> None:
    """Serve until SIGTERM or SIGINT, then drain. Raises `StartRefused` where it does not start.

    `redactions` is the live count of what was removed from the log, by rule, for the metrics.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        trio.run(_until_signalled, loaded, announce, redactions)
    except BaseExceptionGroup as group:
        raise _only(group) from None


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one exception inside nested groups, or the group where there are several."""
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
        (inner,) = inner.exceptions
    return inner


async def _until_signalled(loaded: Loaded, announce: Announce, redactions: Mapping[str, int]) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        stop = trio.Event()

        async def watch() -> None:
            async for number in signals:
                log.info("stopping", signal=signal.Signals(number).name)
                stop.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await serve(loaded.settings, stop=stop, announce=announce, warnings=loaded.warnings, redactions=redactions)
            nursery.cancel_scope.cancel()


async def serve(
    settings: Settings,
    *,
    stop: trio.Event,
    announce: Announce,
    warnings: Sequence[str] = (),
    redactions: Mapping[str, int] = MappingProxyType({}),
    clock: Clock | None = None,
    policy: RestartPolicy | None = None,
    catalogue: Catalogue = CATALOGUE,
) -> None:
    """Serve until `stop`, then drain within `settings.shutdown_drain_s` and close the store.

    Raises `StartRefused` where a listener, the data directory or the configuration does not allow a start, and
    `RestartsExhausted` (in an exception group) when an actor cannot be kept running. Whatever happens, nothing stays
    open.
    """
    clock = clock or SystemClock()
    registry = AgentRegistry.parse(settings.agent_token, settings.agent_tokens)
    authenticator = authenticator_of(settings, registry)
    guard = GuardPolicy(settings.allowed_hosts, settings.allowed_origins)
    holder = {"pid": os.getpid(), "started": datetime.now(UTC).isoformat(timespec="seconds")}
    async with AsyncExitStack() as stack:
        describe = stack.enter_context(hold(settings.data_dir, holder))
        node_id, key = install_id(settings.data_dir), root_key(settings.data_dir)
        http = await _listen(stack, settings.http_host, settings.http_port, "CORECRUXD_HTTP_PORT")
        mcp = []
        if settings.mcp_enabled:
            mcp = await _listen(stack, settings.mcp_host, settings.mcp_port, "CORECRUXD_MCP_PORT")
        describe({**holder, "http": address(http), "mcp": address(mcp) if mcp else None})
        decay = DecayPolicy(settings.decay_volatile_hours, settings.decay_medium_days, settings.decay_stable_days)
        engine = await SqliteEngine.open(settings.data_dir, decay)
        stack.push_async_callback(_close, engine)
        mailboxes = {name: Mailbox(name, settings.mailbox_capacity, settings.request_timeout_s) for name in ASKS}
        services = Services(
            facts=mailboxes["facts"],
            recall=mailboxes["recall"],
            clock=clock,
            privacy=PrivacyRules(settings.always_private_prefixes, settings.share_prefixes),
            decay=decay,
            node_id=node_id,
            base_url=f"http://{address(http)}",
            mcp_url=f"http://{address(mcp)}/mcp" if mcp else None,
            catalogue=catalogue,
            intents=mailboxes["intents"],
            traces=mailboxes["traces"],
            router=router_of(settings, catalogue, key, node_id=node_id, now_s=clock.now_us() // 1_000_000),
            span=span_of_calls(),
            audit_envelope=settings.audit_envelope,
        )
        losses = {"mailbox_full": FailureCount("the ledger"), "storage": FailureCount("observations")}
        ledger = Ledger(mailboxes["observations"], losses["mailbox_full"]) if settings.tool_ledger else None
        loads = {"http": Load(), "mcp": Load()}
        wire = {"http": WireCounts(), "mcp": WireCounts()}
        metrics = Metrics(
            tuple(mailboxes.values()), loads, engine.sizes, redactions=redactions, wires=wire, losses=losses
        )
        limits = Limits(settings.max_body_bytes, settings.max_inflight)
        api = Api(
            services=services,
            authenticator=authenticator,
            mailboxes=tuple(mailboxes.values()),
            metrics=metrics,
            max_body_bytes=settings.max_body_bytes,
            request_timeout_s=settings.request_timeout_s,
            mcp_enabled=settings.mcp_enabled,
        )
        rest = correlated(Front(create_app(api), guard, limits, loads["http"], render_problem))
        servers = [server_of(settings.http_server, rest, http, settings, wire["http"])]
        if mcp:
            lean = settings.mcp_server is ServerKind.WIRE
            app = McpApp(
                services,
                McpAuthenticator(registry),
                guard,
                settings.max_body_bytes,
                record=Recorder(
                    metrics.observe_tool,
                    mailboxes["meter"],
                    mailboxes["traces"] if settings.tool_traces else None,
                    ledger,
                    raw_args=settings.tool_ledger_raw_args,
                ),
                listing=Listing(catalogue, services.router, settings.tool_surface, ledger),
                streams=EventStreams(
                    mailboxes["sessions"],
                    StreamLimits(settings.sse_max_sessions, settings.sse_max_sessions_per_owner),
                    watch_peers=not lean,
                ),
                body_timeout_s=None if lean else settings.request_timeout_s,
            )
            front = Front(app, guard, limits, loads["mcp"], render_gate)
            servers.append(server_of(settings.mcp_server, front, mcp, settings, wire["mcp"]))
        async with trio.open_nursery() as nursery:
            observations = partial(
                Observations,
                services.facts,
                services.recall,
                clock,
                ReceiptSigner(key),
                failures=losses["storage"],
            )
            traces = partial(TraceRing, clock, settings.tool_traces_ttl_s)
            await start_all(nursery, _actors(mailboxes, services, engine, traces, observations), policy)
            await services.facts.ask(Seed(_stock()))
            for server in servers:
                await nursery.start(server.run)
            announce(
                Ready(
                    http=f"http://{address(http)}",
                    mcp=services.mcp_url,
                    data_dir=settings.data_dir,
                    version=__version__,
                    warnings=(*warnings, *_doubts(settings)),
                )
            )
            await stop.wait()
            await mailboxes["sessions"].ask(EndStreams())
            await _drain(servers, settings.shutdown_drain_s)
            await mailboxes["observations"].ask(FlushObservations(), deadline_s=FLUSH_S)
            nursery.cancel_scope.cancel()
    log.info("stopped")


def _doubts(settings: Settings) -> Iterator[str]:
    """What the operator may not have meant."""
    if settings.agent_token is not None and settings.agent_tokens is not None:
        yield "CRUX_AGENT_TOKEN is not used, because CRUX_AGENT_TOKENS is set: add the operator's token there"
    if settings.auth_mode is AuthMode.OFF and (settings.agent_token or settings.agent_tokens):
        yield "CORECRUXD_AUTH_MODE=off shows the private facts of every agent to whoever reaches the HTTP API"


def _actors(
    mailboxes: Mapping[str, Mailbox],
    services: Services,
    engine: Engine,
    traces: Callable[[], TraceRing],
    observations: Callable[[], Observations],
) -> list[Supervised]:
    """Every actor, in the order in which they start; `ASKS` names them all."""
    return [
        Supervised(mailboxes["facts"], lambda: FactStore(engine, services.clock)),
        Supervised(mailboxes["recall"], lambda: Recall(engine)),
        Supervised(mailboxes["sessions"], SessionRegistry),
        Supervised(mailboxes["intents"], lambda: IntentMap(services.clock)),
        Supervised(mailboxes["traces"], traces),
        Supervised(mailboxes["meter"], Meter),
        Supervised(mailboxes["observations"], observations),
    ]


async def _listen(stack: AsyncExitStack, host: str, port: int, setting: str) -> list[socket.socket]:
    listeners = await bind(host, port, setting)
    for listener in listeners:
        stack.callback(listener.close)
    return listeners


async def _close(engine: Engine) -> None:
    with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_GRACE_S):
        await trio.to_thread.run_sync(engine.close, abandon_on_cancel=True)


async def _drain(servers: Sequence[Server], drain_s: int) -> None:
    """Let every listener finish what is in flight, all until one deadline; 0 waits for ever."""
    deadline = trio.current_time() + max(drain_s - CUT_GRACE_S * 2, drain_s / 2) if drain_s else float("inf")
    async with trio.open_nursery() as nursery:
        for server in servers:
            nursery.start_soon(server.drain, deadline)


def _stock() -> tuple[Draft, ...]:
    """The stock entries of the bootstrap surface, as facts (seed 11.12)."""
    return tuple(
        Draft(
            entry.entity,
            entry.key,
            entry.value,
            source_receipt=STOCK_RECEIPT,
            horizon=default_horizon(entry.entity),
            private=True,
        )
        for entry in STOCK
    )
