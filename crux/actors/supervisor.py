"""Keeps actors running: fail the asker, rebuild, restart with backoff, and give up loudly when that does not help."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Sequence

import trio
from attrs import frozen

from crux.actors.actor import Actor
from crux.actors.mailbox import Mailbox
from crux.errors import ActorFailed
from crux.logs import get_logger

log = get_logger("crux.supervisor")


@frozen
class RestartPolicy:
    """How often an actor may be rebuilt: at most `max_restarts` in any `window_s` seconds.

    The wait before a restart starts at `backoff_s` and doubles with each restart in the window, up to `backoff_cap_s`.
    """

    max_restarts: int = 5
    window_s: float = 60.0
    backoff_s: float = 0.05
    backoff_cap_s: float = 2.0

    def wait_s(self, restarts_in_window: int) -> float:
        return float(min(self.backoff_cap_s, self.backoff_s * 2 ** (restarts_in_window - 1)))


class RestartsExhausted(Exception):
    """An actor keeps failing; the daemon cannot go on without it."""


@frozen
class Supervised:
    """One actor: the mailbox that others reach it by, and how to build it anew."""

    mailbox: Mailbox
    build: Callable[[], Actor]


async def supervise(
    actor: Supervised,
    policy: RestartPolicy,
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Run one actor until cancelled; `started` once it has rebuilt its state for the first time.

    An exception before that leaves through here, since nothing serves yet. Later ones restart the actor; raises
    `RestartsExhausted` when there were too many.
    """
    mailbox = actor.mailbox
    current = actor.build()
    await current.start()
    task_status.started()
    failures: deque[float] = deque()
    while True:
        try:
            await current.serve(mailbox)
            raise RuntimeError(f"{mailbox.name} stopped serving")
        except Exception as error:
            incident = secrets.token_hex(6)
            log.exception("an actor failed", actor=mailbox.name, incident=incident)
            mailbox.fail_in_hand(ActorFailed(f"internal error, logged as {incident}", data={"incident": incident}))
            await _back_off(mailbox, policy, failures, error)
        mailbox.figures.restarts += 1
        current = await _rebuild(actor, policy, failures)


async def _rebuild(actor: Supervised, policy: RestartPolicy, failures: deque[float]) -> Actor:
    while True:
        fresh = actor.build()
        try:
            await fresh.start()
        except Exception as error:
            log.exception("an actor could not be rebuilt", actor=actor.mailbox.name)
            await _back_off(actor.mailbox, policy, failures, error)
        else:
            return fresh


async def _back_off(mailbox: Mailbox, policy: RestartPolicy, failures: deque[float], error: Exception) -> None:
    now = trio.current_time()
    failures.append(now)
    while failures[0] <= now - policy.window_s:
        failures.popleft()
    if len(failures) > policy.max_restarts:
        raise RestartsExhausted(
            f"{mailbox.name} failed {len(failures)} times in {policy.window_s:g} s; last: {error!r}"
        ) from error
    await trio.sleep(policy.wait_s(len(failures)))


async def start_all(nursery: trio.Nursery, actors: Sequence[Supervised], policy: RestartPolicy | None = None) -> None:
    """Start `actors` in order, each once the one before it is ready."""
    for actor in actors:
        nursery.start_soon(actor.mailbox.keep_time)
        await nursery.start(supervise, actor, policy or RestartPolicy())
