"""The one place that knows everything: it starts the actors bottom-up, then the listeners, and takes them down in
reverse."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import structlog
import trio
from attrs import frozen

from crux import __version__
from crux.actors.clock import Clock, SystemClock
from crux.actors.facts import FactStore
from crux.actors.mailbox import Mailbox
from crux.actors.recall import Recall
from crux.actors.supervisor import RestartPolicy, Supervised, start_all
from crux.config import AuthMode, Loaded, Settings
from crux.domain.agents import AgentRegistry
from crux.domain.bootstrap import STOCK
from crux.domain.commands import Seed
from crux.domain.decay import DecayPolicy, default_horizon
from crux.domain.facts import Draft
from crux.domain.posture import check_bind_posture
from crux.domain.privacy import PrivacyRules
from crux.storage.directory import hold
from crux.storage.engine import SqliteEngine
from crux.tools.catalogue import CATALOGUE
from crux.tools.registry import Services
from crux.transport.auth import HttpAuthenticator, JwtRules, McpAuthenticator
from crux.transport.front import Front, Limits, Load
from crux.transport.gates import GuardPolicy
from crux.transport.hypercorn_server import CUT_GRACE_S, HypercornServer, address, bind
from crux.transport.mcp import McpApp, render_gate
from crux.transport.metrics import Metrics
from crux.transport.rest import Api, correlated, create_app, render_problem

log = structlog.get_logger("crux.daemon")

# The writer's thread lets go of the interpreter around every step of SQLite and must get it back soon, also when the
# event loop is busy; Python's own 5 ms would make a batch wait for each of its statements.
SWITCH_INTERVAL_S = 0.0005
# What is left to the store once the listeners have drained.
CLOSE_GRACE_S = 10.0


@frozen
class Ready:
    """Where a daemon that serves can be reached."""

    http: str
    mcp: str | None
    data_dir: Path
    version: str
    warnings: tuple[str, ...]


Announce = Callable[[Ready], None]


def run(loaded: Loaded, *, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT, then drain. Raises `StartRefused` where it does not start."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        trio.run(_until_signalled, loaded, announce)
    except BaseExceptionGroup as group:
        raise _only(group) from None


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one exception inside nested groups, or the group where there are several."""
    inner: BaseException = group
    while isinstance(inner, BaseExceptionGroup) and len(inner.exceptions) == 1:
        (inner,) = inner.exceptions
    return inner


async def _until_signalled(loaded: Loaded, announce: Announce) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        stop = trio.Event()

        async def watch() -> None:
            async for number in signals:
                log.info("stopping", signal=signal.Signals(number).name)
                stop.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch)
            await serve(loaded.settings, stop=stop, announce=announce, warnings=loaded.warnings)
            nursery.cancel_scope.cancel()


async def serve(
    settings: Settings,
    *,
    stop: trio.Event,
    announce: Announce,
    warnings: Sequence[str] = (),
    clock: Clock | None = None,
    policy: RestartPolicy | None = None,
) -> None:
    """Serve until `stop`, then drain within `settings.shutdown_drain_s` and close the store.

    Raises `StartRefused` where a listener, the data directory or the configuration does not allow a start, and
    `RestartsExhausted` (in an exception group) when an actor cannot be kept running.
    """
    registry = AgentRegistry.parse(settings.agent_token, settings.agent_tokens)
    mode = AuthMode(
        check_bind_posture(
            auth_mode=settings.auth_mode.value if settings.auth_mode else None,
            http_host=settings.http_host,
            mcp_host=settings.mcp_host if settings.mcp_enabled else None,
            has_agents=bool(registry),
            allow_insecure_bind=settings.allow_insecure_bind,
        )
    )
    authenticator = HttpAuthenticator(mode, registry, settings.agent_token_http_scopes, _jwt_rules(settings))
    guard = GuardPolicy(settings.allowed_hosts, settings.allowed_origins)
    holder = {"pid": os.getpid(), "started": datetime.now(UTC).isoformat(timespec="seconds")}
    with hold(settings.data_dir, holder) as describe:
        http_listeners = await bind(settings.http_host, settings.http_port, "CORECRUXD_HTTP_PORT")
        mcp_listeners = (
            await bind(settings.mcp_host, settings.mcp_port, "CORECRUXD_MCP_PORT") if settings.mcp_enabled else []
        )
        describe({**holder, "http": address(http_listeners), "mcp": address(mcp_listeners) if mcp_listeners else None})
        decay = DecayPolicy(settings.decay_volatile_hours, settings.decay_medium_days, settings.decay_stable_days)
        engine = await SqliteEngine.open(settings.data_dir, decay)
        wall = clock or SystemClock()
        facts, recall = (
            Mailbox(name, settings.mailbox_capacity, settings.request_timeout_s) for name in ("facts", "recall")
        )
        services = Services(
            facts=facts,
            recall=recall,
            clock=wall,
            privacy=PrivacyRules(settings.always_private_prefixes, settings.share_prefixes),
            decay=decay,
            console_url=f"http://{address(http_listeners)}/console#facts",
            catalogue=CATALOGUE,
        )
        loads = {"http": Load(), "mcp": Load()}
        metrics = Metrics(mailboxes=(facts, recall), loads=loads, sizes=engine.sizes)
        limits = Limits(settings.max_body_bytes, settings.max_inflight)
        api = Api(
            services=services,
            authenticator=authenticator,
            mailboxes=(facts, recall),
            metrics=metrics,
            max_body_bytes=settings.max_body_bytes,
            request_timeout_s=settings.request_timeout_s,
            mcp_enabled=settings.mcp_enabled,
        )
        servers = [
            HypercornServer(
                correlated(Front(create_app(api), guard, limits, loads["http"], render_problem)), http_listeners
            )
        ]
        if mcp_listeners:
            mcp = McpApp(services, McpAuthenticator(registry), guard, settings.max_body_bytes, metrics.observe_tool)
            servers.append(HypercornServer(Front(mcp, guard, limits, loads["mcp"], render_gate), mcp_listeners))
        actors = [
            Supervised(facts, lambda: FactStore(engine, wall)),
            Supervised(recall, lambda: Recall(engine)),
        ]
        try:
            async with trio.open_nursery() as nursery:
                await start_all(nursery, actors, policy)
                await facts.ask(Seed(_stock()))
                for server in servers:
                    await nursery.start(server.run)
                announce(
                    Ready(
                        http=f"http://{address(http_listeners)}",
                        mcp=f"http://{address(mcp_listeners)}/mcp" if mcp_listeners else None,
                        data_dir=settings.data_dir,
                        version=__version__,
                        warnings=tuple(warnings),
                    )
                )
                await stop.wait()
                await _drain(servers, settings.shutdown_drain_s)
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_GRACE_S):
                await trio.to_thread.run_sync(engine.close, abandon_on_cancel=True)
        log.info("stopped")


async def _drain(servers: Sequence[HypercornServer], drain_s: int) -> None:
    """Let every listener finish what is in flight, all until one deadline; 0 waits for ever."""
    deadline = trio.current_time() + max(drain_s - CUT_GRACE_S * 2, drain_s / 2) if drain_s else float("inf")
    async with trio.open_nursery() as nursery:
        for server in servers:
            nursery.start_soon(server.drain, deadline)


def _jwt_rules(settings: Settings) -> JwtRules | None:
    if settings.jwt_hs256_secret is None:
        return None
    return JwtRules(
        settings.jwt_hs256_secret, settings.jwt_issuer, settings.jwt_audience, settings.allow_weak_hs256_secret
    )


def _stock() -> tuple[Draft, ...]:
    """The stock entries of the bootstrap surface, as facts (seed 11.12)."""
    return tuple(
        Draft(entry.entity, entry.key, entry.value, private=True, horizon=default_horizon(entry.entity))
        for entry in STOCK
    )
