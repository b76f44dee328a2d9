"""What a route is, how one is declared, and what its handler works with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
import trio
from attrs import frozen

from crux.actors.mailbox import Mailbox
from crux.domain.messages import Message
from crux.errors import InvalidArgument
from crux.tools.registry import Services
from crux.tools.schema import shortened
from crux.transport.auth import HttpAuthenticator, Principal
from crux.transport.json_text import read_json
from crux.transport.metrics import Metrics

R = TypeVar("R")


class AllOf(tuple[str, ...]):
    """Scopes of which a caller needs each (extensions contract 3)."""

    __slots__ = ()


# Whoever has one of these scopes, or all of an `AllOf`, may call the route (HTTP API contract 4.2). None: anyone, and
# nobody looks who it is. Empty: no scope is asked for, and whoever says who it is acts as that.
Scopes = tuple[str, ...] | None
PUBLIC: Final = None
NO_SCOPE: Final = ()
READ: Final = ("query:read", "admin:read")
WRITE_FACTS: Final = ("facts:write", "admin:write")
WRITE_SESSIONS: Final = ("sessions:write", "admin:write")
ADMIN: Final = ("admin:read",)
WRITE_SUBSTRATE: Final = ("facts:write", "sessions:write", "admin:write")
ADMINISTER: Final = ("admin:write",)

# An actor gets this part of the time that a request has left, so that the caller hears what the actor was at.
_SHARE_FOR_ACTOR = 0.9

_encode: Final = msgspec.json.Encoder().encode


@frozen
class Api:
    """What the HTTP API stands on. `max_body_bytes` 0 is no limit; `mailboxes` are those of all actors."""

    services: Services
    authenticator: HttpAuthenticator
    mailboxes: Sequence[Mailbox]
    metrics: Metrics
    max_body_bytes: int
    request_timeout_s: float
    mcp_enabled: bool


@frozen
class HttpCall:
    """One request on its way: who makes it, and what it brings. `query` has the first value of each parameter."""

    api: Api
    principal: Principal
    query: Mapping[str, str]
    read_body: Callable[[], Awaitable[bytes]]
    deadline: float

    async def ask(self, mailbox: Mailbox, message: Message[R]) -> R:
        """Ask an actor, within the time that the request has left."""
        left_s = self.deadline - trio.current_time()
        return await mailbox.ask(message, deadline_s=left_s * _SHARE_FOR_ACTOR)

    async def json(self, *, default: object = msgspec.UNSET) -> Any:
        """The body's value, whatever content type it is sent as; `default`, where there is one, for an empty body.

        Raises `ParseError`, `InvalidArgument` for text that is not taken, and `PayloadTooLarge`.
        """
        body = await self.read_body()
        return read_json(body) if body.strip() or default is msgspec.UNSET else default

    async def json_object(self) -> dict[str, Any]:
        """The object that the body is, an empty one for an empty body; raises as `json` does."""
        given = await self.json(default={})
        if not isinstance(given, dict):
            raise InvalidArgument(f"the body must be an object, or empty, got {shortened(given)}")
        return given


@frozen
class Reply:
    """What a handler answers: a body that is ready to be sent."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = MappingProxyType({})


def json_reply(value: object, status: int = 200) -> Reply:
    return Reply(_encode(value), status)


Handler = Callable[..., Awaitable[Reply]]


@frozen
class Route:
    """One method of one path. Variables of the path are given to the handler by name. What is `for_operators` is not
    for agents, whatever their scopes."""

    method: str
    path: str
    scopes: Scopes
    handle: Handler
    for_operators: bool = False


def route(method: str, path: str, scopes: Scopes, *, for_operators: bool = False) -> Callable[[Handler], Route]:
    """Declare a handler's route. `<name>` in its path is a variable without slashes, `<text:name>` one with any."""

    def declare(handle: Handler) -> Route:
        return Route(method, path, scopes, handle, for_operators)

    return declare
