"""The one place that knows everything: it starts the actors bottom-up, then the listeners, and takes them down in
reverse."""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

import trio
from attrs import frozen

from crux import __version__
from crux.actors.clock import Clock, SystemClock
from crux.actors.introspection import Introspector
from crux.actors.mailbox import Mailbox
from crux.actors.observations import FlushObservations
from crux.actors.sessions import EndStreams
from crux.actors.supervisor import RestartPolicy, start_all
from crux.composition import Resources, compose, decay_policy
from crux.config import Loaded, Settings, doubts
from crux.domain.agents import AgentRegistry
from crux.domain.bootstrap import STOCK
from crux.domain.commands import Seed
from crux.domain.decay import default_horizon
from crux.domain.facts import Draft
from crux.errors import CruxError, StartRefused
from crux.logs import get_logger
from crux.routing import router_of, token_doubts
from crux.storage.directory import hold
from crux.storage.engine import Engine, SqliteEngine
from crux.storage.keys import install_id, root_key
from crux.tools.catalogue import CATALOGUE
from crux.tools.registry import Catalogue
from crux.transport.auth import authenticator_of
from crux.transport.hypercorn_server import CUT_GRACE_S
from crux.transport.listening import address, bind
from crux.transport.mcp_auth import check_token_to_require
from crux.transport.outbound import http_post_of
from crux.transport.serving import Server

log = get_logger("crux.daemon")

# The writer's thread lets go of the interpreter around every step of SQLite and must get it back soon, also when the
# event loop is busy; Python's own 5 ms would make a batch wait for each of its statements.
SWITCH_INTERVAL_S = 0.0005
OPEN_FILES = 65_536
# What is left to the store once the listeners have drained.
CLOSE_GRACE_S = 10.0
# What the last entries of the ledger get.
FLUSH_S = 2.0
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
    _allow_files()

    def settle(ready: Ready) -> None:
        _spare_the_collector()
        announce(ready)

    try:
        trio.run(_until_signalled, loaded, settle, redactions)
    except BaseExceptionGroup as group:
        raise _only(group) from None


def _allow_files() -> None:
    """Raise the soft limit of open files as far as it may go: each stream is one, and the usual 1,024 are soon gone."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _spare_the_collector() -> None:
    """Have the garbage collector look no more at what stays for as long as the daemon runs: modules, the catalogue, the
    parts. It stops everybody for the time of a pass, tens of milliseconds with all that."""
    gc.collect()
    gc.freeze()


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
    check_token_to_require(settings, registry)
    _check_ports(settings)
    holder = {"pid": os.getpid(), "started": datetime.now(UTC).isoformat(timespec="seconds")}
    async with AsyncExitStack() as stack:
        describe = stack.enter_context(hold(settings.data_dir, holder))
        key, node_id = root_key(settings.data_dir), install_id(settings.data_dir)
        http = await _listen(stack, settings.http_host, settings.http_port, "CORECRUXD_HTTP_PORT")
        mcp = []
        if settings.mcp_enabled:
            mcp = await _listen(stack, settings.mcp_host, settings.mcp_port, "CORECRUXD_MCP_PORT")
        describe({**holder, "http": address(http), "mcp": address(mcp) if mcp else None})
        engine = await SqliteEngine.open(settings.data_dir, decay_policy(settings))
        stack.push_async_callback(_close, engine)
        now_s = clock.now_us() // 1_000_000
        router = router_of(settings, catalogue, key, node_id=node_id, now_s=now_s)
        parts = compose(
            Resources(
                settings=settings,
                registry=registry,
                authenticator=authenticator,
                catalogue=catalogue,
                clock=clock,
                key=key,
                node_id=node_id,
                router=router,
                engine=engine,
                http=http,
                mcp=mcp,
                introspector=await _introspector(stack, settings, clock),
                post=await stack.enter_async_context(http_post_of()),
                redactions=redactions,
            )
        )
        async with trio.open_nursery() as nursery:
            await start_all(nursery, parts.actors, policy)
            await parts.services.facts.ask(Seed(_stock()))
            for server in parts.servers:
                await nursery.start(server.run)
            announce(
                Ready(
                    http=parts.services.base_url,
                    mcp=parts.services.mcp_url,
                    data_dir=settings.data_dir,
                    version=__version__,
                    warnings=(
                        *warnings,
                        *doubts(settings, registry),
                        *token_doubts(router, now_s=now_s),
                    ),
                )
            )
            await stop.wait()
            await parts.mailboxes["sessions"].ask(EndStreams())
            await _drain(parts.servers, settings.shutdown_drain_s)
            await _flush(parts.mailboxes["observations"])
            nursery.cancel_scope.cancel()
    log.info("stopped")


def _check_ports(settings: Settings) -> None:
    same = settings.http_port == settings.mcp_port and settings.http_host == settings.mcp_host
    if settings.mcp_enabled and settings.http_port and same:
        raise StartRefused(
            f"CORECRUXD_HTTP_PORT and CORECRUXD_MCP_PORT are both {settings.http_port}: give each a port of its own"
        )


async def _introspector(stack: AsyncExitStack, settings: Settings, clock: Clock) -> Callable[[], Introspector] | None:
    """What builds the Introspector; None where no OAuth tokens are taken."""
    if not (settings.mcp_enabled and settings.oauth_enabled):
        return None
    from crux.transport.introspection import introspector_of  # noqa: PLC0415  # most daemons never need httpx

    return await stack.enter_async_context(introspector_of(settings, clock))


async def _listen(stack: AsyncExitStack, host: str, port: int, setting: str) -> list[socket.socket]:
    listeners = await bind(host, port, setting)
    for listener in listeners:
        stack.callback(listener.close)
    return listeners


async def _flush(observations: Mailbox) -> None:
    """Wait for the ledger's last entries, now that no call can make another."""
    try:
        await observations.ask(FlushObservations(), deadline_s=FLUSH_S)
    except CruxError as error:
        log.warning("the last entries of the ledger may be lost", why=error.message)


async def _close(engine: Engine) -> None:
    with trio.CancelScope(shield=True, deadline=trio.current_time() + CLOSE_GRACE_S):
        # A limiter of its own: name look-ups that hang hold places of the common one.
        await trio.to_thread.run_sync(engine.close, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1))


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
