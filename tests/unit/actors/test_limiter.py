"""The RateLimiter: sixty seconds to the instant, and windows that stay few."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing

from crux.actors import limiter as limiter_module
from crux.actors.limiter import MOST_HELD, MOST_WINDOWS, Admit, RateLimiter
from crux.actors.mailbox import Mailbox
from crux.actors.supervisor import Supervised, start_all
from crux.domain.messages import Message
from crux.domain.windows import MOST_COUNTED
from crux.errors import ActorFailed, RateLimited


class Unknown(Message[None]):
    """Nothing that the actor knows."""


@pytest.fixture
async def mailbox(nursery: trio.Nursery) -> Mailbox:
    box = Mailbox("limiter")
    await start_all(nursery, [Supervised(box, RateLimiter)])
    return box


async def is_admitted(mailbox: Mailbox, cap: int, extension: str = "ext.a", passport: str = "alice") -> bool:
    try:
        await mailbox.ask(Admit(extension, passport, cap))
    except RateLimited:
        return False
    return True


def takes(limiter: RateLimiter, extension: str, passport: str, cap: int = 1) -> bool:
    try:
        limiter.admit(Admit(extension, passport, cap))
    except RateLimited:
        return False
    return True


@pytest.mark.parametrize("cap", [0, 1, 10])
async def test_so_many_calls_are_admitted_and_one_more_is_refused(mailbox: Mailbox, cap: int) -> None:
    assert [await is_admitted(mailbox, cap) for _ in range(cap + 1)] == [True] * cap + [False]
    with pytest.raises(RateLimited, match=rf"^rate limited \(cap {cap}/min\)$"):
        await mailbox.ask(Admit("ext.a", "alice", cap))


async def test_a_call_counts_for_sixty_seconds_and_a_refused_one_not_at_all(
    mailbox: Mailbox, mock_clock: trio.testing.MockClock
) -> None:
    assert await is_admitted(mailbox, 2)
    mock_clock.jump(20)
    assert [await is_admitted(mailbox, 2) for _ in range(3)] == [True, False, False]
    mock_clock.jump(39.75)
    with pytest.raises(RateLimited) as caught:
        await mailbox.ask(Admit("ext.a", "alice", 2))
    assert caught.value.retry_after_s == 1
    mock_clock.jump(0.25)
    assert [await is_admitted(mailbox, 2) for _ in range(2)] == [True, False], "the first has left, the second not"
    mock_clock.jump(20)
    assert [await is_admitted(mailbox, 2) for _ in range(2)] == [True, False]


async def test_each_extension_and_each_passport_has_a_window_of_its_own(mailbox: Mailbox) -> None:
    names = [("ext.a", "alice"), ("ext.a", "bob"), ("ext.b", "alice"), ("ext.a:", "alice"), ("ext.a", ":alice")]
    assert [await is_admitted(mailbox, 1, *name) for name in names] == [True] * 5
    assert [await is_admitted(mailbox, 1, *name) for name in names] == [False] * 5


async def test_the_cap_is_the_call_s(mailbox: Mailbox) -> None:
    assert [await is_admitted(mailbox, cap) for cap in (1, 1, 2, 2, 0, 3)] == [True, False, True, False, False, True]


async def test_a_restart_begins_with_empty_windows(mailbox: Mailbox, autojump_clock: trio.testing.MockClock) -> None:
    assert [await is_admitted(mailbox, 1) for _ in range(2)] == [True, False]
    with pytest.raises(ActorFailed):
        await mailbox.ask(Unknown())
    assert await is_admitted(mailbox, 1)


async def test_as_many_windows_are_held_as_fit_and_none_that_counts_makes_room(
    mock_clock: trio.testing.MockClock,
) -> None:
    limiter = RateLimiter()
    assert MOST_WINDOWS == 100_000
    assert takes(limiter, "ext.a", "0", cap=2)
    mock_clock.jump(10)
    for number in range(1, MOST_WINDOWS):
        limiter.admit(Admit("ext.a", str(number), 1))
    with pytest.raises(RateLimited, match="cap 1/min") as caught:
        limiter.admit(Admit("ext.b", "new", 1))
    assert caught.value.retry_after_s == 50, "when the first window empties"
    assert [takes(limiter, "ext.a", number) for number in ("0", "1", "99999")] == [False] * 3
    mock_clock.jump(5)
    assert takes(limiter, "ext.a", "0", cap=2), "who has a window goes on"
    mock_clock.jump(45)
    assert not takes(limiter, "ext.b", "new"), "that window holds a later attempt now"
    mock_clock.jump(10)
    assert takes(limiter, "ext.b", "new")
    assert (len(limiter._windows), limiter._held) == (2, 3), "both of its attempts are held, and the new one"
    mock_clock.jump(60)
    assert takes(limiter, "ext.c", "last")
    assert (len(limiter._windows), limiter._held) == (1, 1)


async def test_whoever_finds_no_room_is_told_when_a_window_empties(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter_module, "MOST_WINDOWS", 1)
    limiter = RateLimiter()
    for _ in range(2):
        assert takes(limiter, "ext.a", "alice", cap=2)
        mock_clock.jump(10)
    with pytest.raises(RateLimited) as caught:
        limiter.admit(Admit("ext.a", "bob", 5))
    assert (str(caught.value), caught.value.retry_after_s) == ("rate limited (cap 5/min)", 50)
    mock_clock.jump(50)
    assert takes(limiter, "ext.a", "bob", cap=5)


async def test_so_many_attempts_are_held_in_all(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_HELD == 25 * MOST_COUNTED
    monkeypatch.setattr(limiter_module, "MOST_HELD", 5)
    limiter = RateLimiter()
    assert [takes(limiter, "ext.a", "alice", cap=9) for _ in range(3)] == [True] * 3
    mock_clock.jump(30)
    assert [takes(limiter, "ext.a", "bob", cap=9) for _ in range(3)] == [True, True, False]
    assert not takes(limiter, "ext.a", "alice", cap=9)
    assert not takes(limiter, "ext.a", "eve")
    mock_clock.jump(30)
    assert [takes(limiter, "ext.a", "bob", cap=9) for _ in range(4)] == [True, True, True, False]
    assert limiter._held == 5


async def test_an_attempt_that_is_over_makes_room_for_its_own_caller(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limiter_module, "MOST_HELD", 2)
    limiter = RateLimiter()
    for _ in range(2):
        assert takes(limiter, "ext.a", "alice", cap=2)
        mock_clock.jump(30)
    assert [takes(limiter, "ext.a", "alice", cap=2) for _ in range(2)] == [True, False]
    assert limiter._held == 2


async def test_many_callers_at_once_share_one_cap(mailbox: Mailbox) -> None:
    outcomes: list[Any] = []

    async def call() -> None:
        outcomes.append(await is_admitted(mailbox, 10))

    async with trio.open_nursery() as callers:
        for _ in range(100):
            callers.start_soon(call)
    assert outcomes.count(True) == 10
