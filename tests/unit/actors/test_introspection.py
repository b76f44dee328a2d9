"""The Introspector: one question for one token, answers that end, and bounds on what strangers can cause."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import trio
import trio.testing

from crux.actors import introspection
from crux.actors.introspection import (
    CACHED,
    INTROSPECTION_S,
    SWEEP_S,
    UNDER_WAY,
    UNKNOWN_BURST,
    UNKNOWN_PER_S,
    VOUCHED_S,
    WAITING,
    Introspected,
    Introspector,
    IntrospectToken,
)
from crux.actors.mailbox import Mailbox
from crux.actors.supervisor import Supervised, start_all
from crux.domain.oauth import AccessRules
from crux.errors import ActorFailed, Overloaded
from tests.conftest import HandClock

ACTIVE = {"active": True, "scope": "mcp:read", "sub": "s"}
INACTIVE = b'{"active":false}'


class Server:
    """An authorization server that knows the tokens it is told of; it hangs while `gate` is not set."""

    def __init__(self) -> None:
        self.gate = trio.Event()
        self.gate.set()
        self.answers: dict[str, bytes | None] = {}
        self.asked: Counter[str] = Counter()
        self.busy = 0

    def knows(self, token: str, **changes: object) -> None:
        self.answers[token] = json.dumps({**ACTIVE, **changes}).encode()

    async def __call__(self, token: str) -> bytes | None:
        self.asked[token] += 1
        if token == "bug":
            raise ZeroDivisionError("a bug")
        self.busy += 1
        try:
            await self.gate.wait()
        finally:
            self.busy -= 1
        return self.answers.get(token, INACTIVE)


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
async def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def actors() -> list[Introspector]:
    """The actor, as often as it was built."""
    return []


@pytest.fixture
async def mailbox(server: Server, clock: HandClock, actors: list[Introspector], nursery: trio.Nursery) -> Mailbox:
    box = Mailbox("introspection", 4 * WAITING)

    def build() -> Introspector:
        actors.append(Introspector(server, AccessRules("https://crux.example", "work"), clock))
        return actors[-1]

    await start_all(nursery, [Supervised(box, build)])
    return box


async def name_of(mailbox: Mailbox, token: str) -> str | None:
    found = await mailbox.ask(IntrospectToken(token))
    return None if found.identity is None else found.identity.name


class Askers:
    """Asks that wait in the background, and what came of them."""

    def __init__(self, mailbox: Mailbox, nursery: trio.Nursery) -> None:
        self.mailbox = mailbox
        self.nursery = nursery
        self.replies: list[object] = []

    async def ask(self, *tokens: str) -> None:
        for token in tokens:
            self.nursery.start_soon(self._ask, token)
        await trio.testing.wait_all_tasks_blocked()

    async def _ask(self, token: str) -> None:
        try:
            self.replies.append(await self.mailbox.ask(IntrospectToken(token)))
        except (Overloaded, ActorFailed) as error:
            self.replies.append(type(error))


@pytest.fixture
async def askers(mailbox: Mailbox, nursery: trio.Nursery) -> Askers:
    return Askers(mailbox, nursery)


async def test_a_token_stands_for_whom_the_server_says_and_a_message_does_not_show_it(
    mailbox: Mailbox, server: Server
) -> None:
    server.knows("good")
    server.knows("unscoped", scope="openid")
    assert [await name_of(mailbox, token) for token in ("good", "bad", "unscoped")] == ["work", None, None]
    assert "good" not in repr(IntrospectToken("good"))


async def test_what_cannot_be_a_token_costs_no_question(mailbox: Mailbox, server: Server) -> None:
    for text in ("", "two words", "a" * 10_000):
        assert await name_of(mailbox, text) is None
    assert not server.asked


async def test_all_who_present_one_token_share_one_question(askers: Askers, server: Server) -> None:
    server.knows("good")
    server.gate = trio.Event()
    await askers.ask(*["good"] * 50, "bad")
    assert server.asked == {"good": 1, "bad": 1}
    server.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    names = Counter(reply.identity is not None for reply in askers.replies if isinstance(reply, Introspected))
    assert names == {True: 50, False: 1}


@pytest.mark.parametrize(("expires_in", "lifetime"), [(None, 60), (61, 60), (60, 60), (30, 30), (1, 1)])
async def test_an_active_answer_is_used_until_its_time_is_over(
    mailbox: Mailbox,
    server: Server,
    clock: HandClock,
    mock_clock: trio.testing.MockClock,
    expires_in: int | None,
    lifetime: int,
) -> None:
    server.knows("good", exp=None if expires_in is None else clock.us // 1_000_000 + expires_in)
    assert await name_of(mailbox, "good") == "work"
    mock_clock.jump(lifetime - 0.001)
    assert await name_of(mailbox, "good") == "work"
    assert server.asked["good"] == 1
    mock_clock.jump(0.001)
    server.answers.clear()
    assert await name_of(mailbox, "good") is None, "it was revoked meanwhile"
    assert server.asked["good"] == 2


@pytest.mark.parametrize("expires_in", [0, -5])
async def test_a_token_at_its_end_is_honoured_and_asked_about_each_time(
    mailbox: Mailbox, server: Server, clock: HandClock, expires_in: int
) -> None:
    server.knows("good", exp=clock.us // 1_000_000 + expires_in)
    assert [await name_of(mailbox, "good") for _ in range(2)] == ["work", "work"]
    assert server.asked["good"] == 2


@pytest.mark.parametrize("answer", [INACTIVE, None, b"<html>", b'{"active":"yes"}'])
async def test_a_refusal_is_not_remembered(mailbox: Mailbox, server: Server, answer: bytes | None) -> None:
    server.answers["late"] = answer
    assert await name_of(mailbox, "late") is None
    server.knows("late")
    assert await name_of(mailbox, "late") == "work"


async def test_an_active_token_without_the_scope_is_remembered_as_such(mailbox: Mailbox, server: Server) -> None:
    server.knows("unscoped", scope="openid")
    for _ in range(3):
        assert await name_of(mailbox, "unscoped") is None
    assert server.asked["unscoped"] == 1


async def test_as_many_answers_are_kept_as_fit_and_all_go_in_time(
    mailbox: Mailbox, server: Server, actors: list[Introspector], mock_clock: trio.testing.MockClock
) -> None:
    for number in range(CACHED + 1):
        server.knows(f"t{number}")
        await name_of(mailbox, f"t{number}")
    held = actors[0]._answers, actors[0]._vouched
    assert [len(store) for store in held] == [CACHED, CACHED]
    for token in ("t1", f"t{CACHED}", "t0"):
        await name_of(mailbox, token)
    assert (server.asked["t1"], server.asked[f"t{CACHED}"], server.asked["t0"]) == (1, 1, 2), "the first one made room"
    for _ in range(int(VOUCHED_S // SWEEP_S) + 1):
        mock_clock.jump(SWEEP_S)
        await trio.testing.wait_all_tasks_blocked()
    assert [len(store) for store in held] == [0, 0]


async def test_so_many_tokens_are_looked_up_at_a_time_and_what_is_known_is_answered_meanwhile(
    askers: Askers, mailbox: Mailbox, server: Server
) -> None:
    server.knows("good")
    assert await name_of(mailbox, "good") == "work"
    server.gate = trio.Event()
    await askers.ask(*(f"t{number}" for number in range(UNDER_WAY)))
    assert server.busy == UNDER_WAY
    assert not askers.replies
    with pytest.raises(Overloaded, match="looked up"):
        await name_of(mailbox, "one-more")
    assert await name_of(mailbox, "good") == "work"
    await askers.ask("t0")
    assert not askers.replies, "who presents a token that is being looked up waits with the others"
    server.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert len(askers.replies) == UNDER_WAY + 1
    assert await name_of(mailbox, "one-more") is None


async def test_so_many_callers_wait_at_a_time(askers: Askers, mailbox: Mailbox, server: Server) -> None:
    server.gate = trio.Event()
    await askers.ask(*["slow"] * WAITING)
    assert not askers.replies
    for token in ("slow", "other"):
        with pytest.raises(Overloaded, match="wait"):
            await name_of(mailbox, token)
    server.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert len(askers.replies) == WAITING
    assert await name_of(mailbox, "other") is None


async def test_a_server_that_does_not_answer_in_time_vouches_for_nobody(
    askers: Askers, mailbox: Mailbox, server: Server, mock_clock: trio.testing.MockClock
) -> None:
    server.knows("good")
    server.gate = trio.Event()
    await askers.ask("good", "good")
    mock_clock.jump(INTROSPECTION_S - 0.001)
    await trio.testing.wait_all_tasks_blocked()
    assert (askers.replies, server.busy) == ([], 1)
    mock_clock.jump(0.001)
    await trio.testing.wait_all_tasks_blocked()
    assert (askers.replies, server.busy) == ([introspection.NOBODY] * 2, 0)
    server.gate.set()
    assert await name_of(mailbox, "good") == "work", "and it may come back"


async def test_invented_tokens_are_asked_about_up_to_a_rate_and_lock_out_no_token_that_was_good(
    mailbox: Mailbox, server: Server, mock_clock: trio.testing.MockClock
) -> None:
    server.knows("good")
    server.knows("fresh")
    for _ in range(UNKNOWN_BURST * 2):
        server.knows("expired", exp=0)
        assert await name_of(mailbox, "expired") == "work", "active tokens use nothing up"
    assert await name_of(mailbox, "good") == "work"
    for number in range(UNKNOWN_BURST):
        assert await name_of(mailbox, f"invented-{number}") is None
    for token in ("one-more", "fresh"):
        with pytest.raises(Overloaded, match="unknown tokens"):
            await name_of(mailbox, token)
    mock_clock.jump(60)
    for number in range(UNKNOWN_BURST):
        assert await name_of(mailbox, f"again-{number}") is None
    assert await name_of(mailbox, "good") == "work", "its answer has ended, and it is still asked about"
    assert server.asked["good"] == 2
    mock_clock.jump(1)
    for _ in range(UNKNOWN_PER_S):
        assert await name_of(mailbox, "invented") is None
    with pytest.raises(Overloaded):
        await name_of(mailbox, "fresh")


async def test_a_token_is_good_of_late_for_so_long_and_no_longer_once_it_was_refused(
    mailbox: Mailbox, server: Server, mock_clock: trio.testing.MockClock
) -> None:
    async def exhaust() -> None:
        for number in range(UNKNOWN_BURST):
            await name_of(mailbox, f"invented-{number}")
        with pytest.raises(Overloaded):
            await name_of(mailbox, "one-more")

    server.knows("good")
    server.knows("revoked", exp=0)
    assert [await name_of(mailbox, token) for token in ("good", "revoked")] == ["work", "work"]
    server.answers["revoked"] = INACTIVE
    mock_clock.jump(VOUCHED_S - 0.001)
    await exhaust()
    assert await name_of(mailbox, "revoked") is None
    with pytest.raises(Overloaded):
        await name_of(mailbox, "revoked")
    assert await name_of(mailbox, "good") == "work"
    mock_clock.jump(VOUCHED_S)
    await exhaust()
    with pytest.raises(Overloaded):
        await name_of(mailbox, "good")


@pytest.mark.parametrize("answer", [None, b"<html>", b'{"active":"yes"}'])
async def test_a_token_that_was_good_of_late_is_not_forgotten_while_the_server_is_away(
    mailbox: Mailbox, server: Server, mock_clock: trio.testing.MockClock, answer: bytes | None
) -> None:
    server.knows("good", exp=0)
    assert await name_of(mailbox, "good") == "work"
    good, server.answers["good"] = server.answers["good"], answer
    assert await name_of(mailbox, "good") is None
    for number in range(UNKNOWN_BURST):
        await name_of(mailbox, f"invented-{number}")
    with pytest.raises(Overloaded):
        await name_of(mailbox, "one-more")
    server.answers["good"] = good
    assert await name_of(mailbox, "good") == "work"


async def test_a_bug_fails_those_who_met_it_and_the_others_are_looked_up_again(
    askers: Askers, server: Server, actors: list[Introspector], autojump_clock: trio.testing.MockClock
) -> None:
    server.knows("good")
    server.gate = trio.Event()
    await askers.ask("good", "good", "bug")
    server.gate.set()
    await trio.sleep(1)
    assert len(actors) == 2
    assert askers.replies.count(ActorFailed) == 1
    assert len([reply for reply in askers.replies if isinstance(reply, Introspected) and reply.identity]) == 2


async def test_callers_that_leave_do_not_disturb_the_others(
    askers: Askers, mailbox: Mailbox, server: Server, autojump_clock: trio.testing.MockClock
) -> None:
    server.knows("good")
    server.gate = trio.Event()
    with trio.move_on_after(1) as left:
        await name_of(mailbox, "good")
    assert left.cancelled_caught
    await askers.ask("good")
    server.gate.set()
    await trio.testing.wait_all_tasks_blocked()
    assert len(askers.replies) == 1
    assert server.asked["good"] == 1
