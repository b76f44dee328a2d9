"""The Introspector: asks the authorization server about bearer tokens, and remembers for a moment what it said."""

from __future__ import annotations

from typing import Protocol

import trio
from attrs import field, frozen

from crux.actors.actor import Actor, settle
from crux.actors.clock import Clock
from crux.actors.expiring import Expiring
from crux.actors.mailbox import Envelope, Mailbox
from crux.domain.agents import token_digest
from crux.domain.allowance import Allowance
from crux.domain.messages import Message
from crux.domain.oauth import AccessRules, OAuthIdentity, TokenState, lifetime_s, may_be_token, read_introspection
from crux.errors import Overloaded
from crux.logs import get_logger

log = get_logger("crux.introspection")

INTROSPECTION_S = 10.0
CACHED = 4096
UNDER_WAY = 32
# Callers that may wait for the introspections under way, all together.
WAITING = 1024
SWEEP_S = 60.0

# Tokens that were never vouched for: so many may be asked about at once, and so many a second after that. Whoever sends
# invented ones uses this up, and neither floods the authorization server nor locks out tokens that were good lately.
UNKNOWN_BURST = 100
UNKNOWN_PER_S = 10
VOUCHED_S = 600.0


class Introspect(Protocol):
    """Asks the authorization server about one token."""

    async def __call__(self, token: str) -> bytes | None:
        """The body of its answer; None where it gave none that may be believed. Takes as long as the server does."""
        ...


@frozen
class Introspected:
    """Whom a token stands for; None: nobody who may come in."""

    identity: OAuthIdentity | None


@frozen
class IntrospectToken(Message[Introspected]):
    """Find out whom a bearer token stands for. Raises `Overloaded` when too much is being asked already."""

    token: str = field(repr=False)


NOBODY = Introspected(None)


class Introspector(Actor):
    """Owns the answers that still count, the introspections under way, and what strangers may still ask.

    Answers from memory at once and introspects apart, once for all who present the same token meanwhile. Tokens are
    known by their digests. Survives a restart with nothing remembered. Asks no actor.
    """

    def __init__(self, introspect: Introspect, rules: AccessRules, clock: Clock) -> None:
        self._introspect = introspect
        self._rules = rules
        self._clock = clock
        self._answers: Expiring[Introspected] = Expiring(CACHED)
        self._vouched: Expiring[bool] = Expiring(CACHED)
        self._under_way: dict[bytes, list[Envelope]] = {}
        self._waiting = 0
        self._unknown = Allowance.full(UNKNOWN_BURST, UNKNOWN_PER_S, trio.current_time())

    async def serve(self, mailbox: Mailbox) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._sweep)
            while True:
                envelope = await mailbox.receive()
                began = trio.current_time()
                message = envelope.message
                assert isinstance(message, IntrospectToken)
                reply = self._consider(message.token, envelope, mailbox, nursery)
                if reply is not None:
                    settle(envelope, reply, mailbox)
                    mailbox.figures.handling.observe(trio.current_time() - began)

    def _consider(
        self, token: str, envelope: Envelope, mailbox: Mailbox, nursery: trio.Nursery
    ) -> Introspected | Overloaded | None:
        """The reply, or None: it comes later."""
        if not may_be_token(token):
            return NOBODY
        digest = token_digest(token)
        now = trio.current_time()
        if (known := self._answers.get(digest, now)) is not None:
            return known
        if self._waiting >= WAITING:
            return Overloaded(f"{WAITING} callers wait for the authorization server; try again")
        if digest not in self._under_way:
            if len(self._under_way) >= UNDER_WAY:
                return Overloaded(f"{UNDER_WAY} tokens are being looked up; try again")
            stranger = self._vouched.get(digest, now) is None
            if stranger:
                left = self._unknown.spend(now)
                if left is None:
                    return Overloaded("too many unknown tokens were presented of late; try again")
                self._unknown = left
            self._under_way[digest] = []
            nursery.start_soon(self._look_up, token, digest, stranger, mailbox)
        self._under_way[digest].append(envelope)
        self._waiting += 1
        return None

    async def _look_up(self, token: str, digest: bytes, stranger: bool, mailbox: Mailbox) -> None:
        began = trio.current_time()
        try:
            state = await self._ask(token)
            reply = Introspected(self._rules.identity_of(state)) if state and state.active else NOBODY
        except Exception:
            for envelope in self._under_way[digest]:
                mailbox.resume(envelope)  # the crash is about these; what else is under way gets a new turn
            raise
        self._remember(digest, state, reply, stranger)
        waiting = self._under_way.pop(digest)
        self._waiting -= len(waiting)
        for envelope in waiting:
            settle(envelope, reply, mailbox)
        mailbox.figures.handling.observe(trio.current_time() - began, len(waiting))

    async def _ask(self, token: str) -> TokenState | None:
        """What the server says of the token; None where it gave no answer that can be read."""
        with trio.move_on_after(INTROSPECTION_S):
            body = await self._introspect(token)
            state = None if body is None else read_introspection(body)
            if body is not None and state is None:
                log.warning("the authorization server's answer is not understood", size_bytes=len(body))
            return state
        log.warning("the authorization server did not answer in time", deadline_s=INTROSPECTION_S)
        return None

    def _remember(self, digest: bytes, state: TokenState | None, reply: Introspected, stranger: bool) -> None:
        if state is None:  # no answer says nothing of the token
            return
        if not state.active:
            self._vouched.drop(digest)
            return
        now = trio.current_time()
        self._vouched.put(digest, True, now + VOUCHED_S)
        if stranger:
            self._unknown = self._unknown.give_back()
        lifetime = lifetime_s(state, self._clock.now_us())
        if lifetime > 0:
            self._answers.put(digest, reply, now + lifetime)

    async def _sweep(self) -> None:
        while True:
            await trio.sleep(SWEEP_S)
            now = trio.current_time()
            self._answers.sweep(now)
            self._vouched.sweep(now)
