"""What every request meets first, on both listeners: who may talk to this daemon at all, and how much at once."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, frozen

from crux.errors import CruxError, Overloaded
from crux.transport.asgi import (
    App,
    Pairs,
    Receive,
    Scope,
    Send,
    declared_length,
    discard_body,
    respond,
    retry_after,
    too_large,
)
from crux.transport.gates import GuardPolicy, Refusal, passport_header

# Words a refusal as this listener does: status, short name, text -> content type and body.
Render = Callable[[int, str, str], tuple[bytes, bytes]]


@frozen
class Limits:
    """Bounds of one listener; 0 is none."""

    body_bytes: int
    inflight: int


@define
class Load:
    """Requests of one listener that are under way, for the gauge."""

    inflight: int = 0
    shed: int = 0


class _Slot:
    """One request's place among those under way; given back once."""

    __slots__ = ("_load",)

    def __init__(self, load: Load) -> None:
        self._load: Load | None = load
        load.inflight += 1

    def release(self) -> None:
        if self._load is not None:
            self._load.inflight -= 1
            self._load = None


_SLOT = "crux.slot"


def release_slot(scope: Scope) -> None:
    """Give the request's place to another one: what follows is a stream, which may last for days."""
    slot = scope.get(_SLOT)
    if slot is not None:
        slot.release()


class Front:
    """Checks Host and Origin, the passport header's shape, the number of requests under way, and the declared length.

    An ASGI application around another one. Each refusal is answered here and the inner application never sees it.
    """

    def __init__(self, app: App, policy: GuardPolicy, limits: Limits, load: Load, render: Render) -> None:
        self._app = app
        self._policy = policy
        self._limits = limits
        self._load = load
        self._render = render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = scope["headers"]
        refusal = self._policy.refusal(headers)
        if refusal is None:
            passport = passport_header(headers)
            if isinstance(passport, Refusal):
                refusal = passport
        if refusal is not None:
            await self._refuse(send, refusal.status, refusal.error, refusal.hint)
            return
        load = self._load
        if self._limits.inflight and load.inflight >= self._limits.inflight:
            load.shed += 1
            busy = Overloaded(f"{load.inflight} requests are under way (CORECRUXD_MAX_INFLIGHT); try again")
            await self._refuse_with(send, "service-unavailable", busy)
            return
        slot = scope[_SLOT] = _Slot(load)
        try:
            if self._limits.body_bytes and declared_length(scope) > self._limits.body_bytes:
                await discard_body(receive, self._limits.body_bytes)
                await self._refuse_with(send, "payload-too-large", too_large(self._limits.body_bytes))
                return
            await self._app(scope, receive, send)
        finally:
            slot.release()

    async def _refuse_with(self, send: Send, slug: str, error: CruxError) -> None:
        await self._refuse(send, error.status, slug, error.message, retry_after(error))

    async def _refuse(self, send: Send, status: int, slug: str, text: str, extra: Pairs = ()) -> None:
        content_type, body = self._render(status, slug, text)
        await respond(send, status, body, [(b"content-type", content_type), *extra])
