"""The push stream of the MCP port: `GET /mcp` with an event-stream `Accept` (seed 11.1, protocol contract 2.3)."""

from __future__ import annotations

import msgspec
import trio
from attrs import frozen

from crux.actors.mailbox import Mailbox
from crux.actors.outbox import Outbox
from crux.actors.sessions import AnnounceTools, CloseStream, OpenStream
from crux.domain.streams import SessionOwnerMismatch, StreamLimit, StreamLimits, owner_key
from crux.errors import CruxError
from crux.logs import get_logger
from crux.transport.asgi import JSON, Pairs, Receive, Scope, Send, respond, retry_after
from crux.transport.front import release_slot

EVENT_STREAM = b"text/event-stream"
# How long the answer to a call waits for the news of it to be on its way.
NEWS_DEADLINE_S = 1.0

log = get_logger("crux.streams")


@frozen
class EventStreams:
    """Opens streams and carries what the SessionRegistry puts into them; owns nothing itself.

    `watch_peers`: whether a peer's leaving has to be asked for. The lean listener cancels a stream whose peer left.
    """

    sessions: Mailbox
    limits: StreamLimits
    watch_peers: bool

    async def serve(
        self, scope: Scope, receive: Receive, send: Send, *, agent: str | None, session: str | None, headers: Pairs
    ) -> None:
        """Answer one request for a stream, until either side ends it."""
        client = scope.get("client")
        owner = owner_key(agent, client[0] if client else None)
        try:
            opened = await self.sessions.ask(OpenStream(owner, self.limits, session))
        except CruxError as refusal:
            await _refuse(send, refusal, headers)
            return
        release_slot(scope)
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [
                        (b"content-type", EVENT_STREAM),
                        (b"cache-control", b"no-cache"),
                        (b"mcp-session-id", opened.session_id.encode()),
                        *headers,
                    ],
                }
            )
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            if self.watch_peers:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_end_with_peer, receive, opened.outbox)
                    await _carry(opened.outbox, send)
                    nursery.cancel_scope.cancel()
            else:
                await _carry(opened.outbox, send)
        finally:
            opened.outbox.end()  # should the registry be too busy to hear of it at once
            self.sessions.tell(CloseStream(opened.session_id, opened.outbox))

    async def tell_list_changed(self, session: str) -> None:
        """Put the news that its tool list has changed on a session's stream, if it has one. Never fails."""
        try:
            await self.sessions.ask(AnnounceTools(session), deadline_s=NEWS_DEADLINE_S)
        except CruxError as error:
            log.warning("a stream was not told that its tool list changed", why=error.message)


async def _carry(outbox: Outbox, send: Send) -> None:
    while frames := await outbox.take():
        await send({"type": "http.response.body", "body": frames, "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _end_with_peer(receive: Receive, outbox: Outbox) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    outbox.end()


async def _refuse(send: Send, refusal: CruxError, headers: Pairs) -> None:
    body: dict[str, object]
    match refusal:
        case StreamLimit():
            body = {"error": "sse_session_limit", "scope": refusal.scope, "limit": refusal.limit}
        case SessionOwnerMismatch():
            body = {"error": "sse_session_owner_mismatch", "detail": refusal.message}
        case _:
            body = {"error": "service-unavailable", "hint": refusal.message}
    await respond(send, refusal.status, msgspec.json.encode(body), [JSON, *retry_after(refusal), *headers])
