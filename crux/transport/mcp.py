"""The MCP port: Streamable HTTP at `/mcp` (seed 11.1 to 11.6, protocol contract 1 and 2)."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import trio

from crux import __version__
from crux.domain.bounds import NAME_SHOWN
from crux.domain.capability import MODE_HEADER, REFUSED, CapabilityRefused
from crux.domain.oauth import ReadOnlyCaller, check_readable
from crux.domain.privacy import ANONYMOUS, Viewer
from crux.errors import CruxError, MethodNotFound, ParseError, PayloadTooLarge, Unauthorized
from crux.logs import get_logger
from crux.tools.listing import Listing
from crux.tools.pipeline import Record, call_tool
from crux.tools.registry import Call, Catalogue, Services
from crux.transport.asgi import (
    JSON,
    Pairs,
    PeerGone,
    Receive,
    Scope,
    Send,
    header,
    read_body,
    respond,
    retry_after,
)
from crux.transport.gates import SESSION, GuardPolicy, Refusal, cors_headers, session_header
from crux.transport.jsonrpc import (
    BadText,
    Request,
    error_response,
    read_request,
    result_response,
)
from crux.transport.mcp_auth import Caller, McpAuthenticator, Presented
from crux.transport.sse import EVENT_STREAM, EventStreams
from crux.transport.well_known import WellKnown

log = get_logger("crux.mcp")

PROTOCOL_VERSION = "2024-11-05"
SERVER = {"name": "crux", "version": __version__}
ALLOW = (b"allow", b"GET, HEAD, POST, OPTIONS")

HINTS = {
    "get_bootstrap": "Read get_bootstrap('patterns') before anything else.",
    "sync_status": "Look at the sync posture before remote work.",
    "update_status": "Look at the update posture before maintenance.",
    "cuecrux_session": "Open a session with cuecrux_session once: its plan gives each capability's route, lowest tier "
    "and cost class.",
}
# The first calls worth making, in order.
QUICKSTART = {
    "get_bootstrap": "get_bootstrap('patterns') - how to work well with this daemon",
    "sync_status": "sync_status() - whether remote work is possible",
    "update_status": "update_status() - whether this daemon is current",
    "store_fact": "store_fact(entity, key, value) - remember something",
    "query_facts": "query_facts(query) - find it again; pass token_budget",
}
DOCS = "https://github.com/CueCrux/Crux/blob/main/docs/agent-guide.md"


class _Refused(Exception):
    """A request that is refused before JSON-RPC, with what is answered."""

    def __init__(self, status: int, error: str, hint: str, headers: Pairs = ()) -> None:
        super().__init__(hint)
        self.status = status
        self.error = error
        self.hint = hint
        self.headers = headers


class McpApp:
    """An ASGI application for the MCP port.

    Holds nothing of a caller's between two requests. What never changes is made once, here. A body has at most
    `max_body` bytes (0: any number) and `body_timeout_s` seconds to come (None: the server sees to that).
    """

    def __init__(
        self,
        services: Services,
        auth: McpAuthenticator,
        policy: GuardPolicy,
        max_body: int,
        *,
        record: Record,
        streams: EventStreams,
        listing: Listing,
        well_known: WellKnown,
        body_timeout_s: float | None = None,
    ) -> None:
        self._auth = auth
        self._policy = policy
        self._max_body = max_body
        self._record = record
        self._streams = streams
        self._listing = listing
        self._well_known = well_known
        self._body_timeout_s = body_timeout_s
        encode = msgspec.json.encode
        self._discovery = encode({"protocolVersion": PROTOCOL_VERSION, "serverInfo": SERVER})
        handshake = {
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": SERVER,
            "_welcome": {
                "hint": " ".join(_served(HINTS, services.catalogue)),
                "quickstart": _served(QUICKSTART, services.catalogue),
                "docs": DOCS,
            },
        }
        self._results: Mapping[str, bytes] = {"initialize": encode(handshake), "notifications/initialized": b"null"}
        self._anonymous = Call(None, ANONYMOUS, services)
        self._calls = {name: Call(name, Viewer((name,)), services) for name in auth.names}
        self._methods: Mapping[str, Callable[[Scope, Receive, Send], Awaitable[None]]] = {
            "POST": self._post,
            "GET": self._get,
            "HEAD": self._get,
            "OPTIONS": self._options,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
        elif scope["path"] != "/mcp":
            await self._well_known(scope, receive, send)
        elif (method := self._methods.get(scope["method"])) is None:
            await respond(send, 405, headers=[ALLOW])
        else:
            try:
                await method(scope, receive, send)
            except _Refused as refusal:
                body = render_gate(refusal.status, refusal.error, refusal.hint)[1]
                cors = cors_headers(scope["headers"], self._policy)
                await respond(send, refusal.status, body, [JSON, *refusal.headers, *cors])

    async def _post(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller, session = await self._admit(scope)
        cors = cors_headers(scope["headers"], self._policy)
        try:
            request = read_request(await self._read_body(scope, receive))
        except PeerGone:
            return
        except ParseError as error:
            await respond(send, 200, error_response(None, error), [JSON, *cors])
            return
        except BadText as error:
            await respond(send, 200, error_response(error.request_id, error), [JSON, *_echo(session), *cors])
            return
        if request.is_notification:
            await respond(send, 202, headers=[*_echo(session), *cors])
            return
        if caller.read_only:
            try:
                check_readable(request.method, request.params)
            except ReadOnlyCaller as error:
                log.info("a caller that may only read was refused", refusal=error.message, subject=caller.subject_shown)
                await respond(send, 200, error_response(request.id, error), [JSON, *cors])
                return
        mode: Pairs = ()
        try:
            body = result_response(request.id, await self._dispatch(request, self._call_of(caller)))
        except CruxError as error:  # failures are in the body, under HTTP 200 (seed 11.4)
            body = error_response(request.id, error)
            mode = _mode_of(error)
        if session is not None and _declares_intent(request):
            await self._streams.tell_list_changed(session)
        if session is None and request.method == "initialize":
            session = uuid.uuid4().hex
        await respond(send, 200, body, [JSON, *_echo(session), *mode, *cors])

    async def _admit(self, scope: Scope) -> tuple[Caller, str | None]:
        """Who calls, and the session id that was sent. Raises `_Refused` (protocol contract 1.2, gates 1 and 2)."""
        headers = scope["headers"]
        try:
            caller = self._auth.authenticate(headers)
            if isinstance(caller, Presented):
                caller = await self._auth.introspect(caller)
        except Unauthorized as error:
            raise _Refused(401, "unauthorized", error.message, self._auth.challenge) from None
        except CruxError as error:
            raise _Refused(503, "service-unavailable", error.message, retry_after(error)) from None
        session = session_header(headers)
        if isinstance(session, Refusal):
            raise _Refused(session.status, session.error, session.hint)
        return caller, session

    def _call_of(self, caller: Caller) -> Call:
        return self._anonymous if caller.agent is None else self._calls[caller.agent.name]

    async def _read_body(self, scope: Scope, receive: Receive) -> bytes:
        try:
            if self._body_timeout_s is None:
                return await read_body(receive, self._max_body)
            with trio.move_on_after(self._body_timeout_s):
                return await read_body(receive, self._max_body)
        except PayloadTooLarge as error:
            raise _Refused(413, "payload-too-large", error.message) from None
        late = f"the body was not whole within {self._body_timeout_s:g} s: nothing was done, send it again"
        raise _Refused(408, "request-timeout", late, _closing(scope))

    async def _dispatch(self, request: Request, call: Call) -> bytes:
        """The encoded result of a request with an id. Raises `CruxError` where there is none."""
        if request.method == "tools/call":
            return await call_tool(request.params, call, self._record, bytes(request.id))
        if request.method == "tools/list":
            return await self._listing.of(call)
        result = self._results.get(request.method)
        if result is None:
            log.warning("unknown method", method=request.method[:NAME_SHOWN])
            raise MethodNotFound(f"method not found: {request.method[:NAME_SHOWN]}")
        return result

    async def _get(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "GET" and EVENT_STREAM in (header(scope, b"accept") or b""):
            await self._stream(scope, receive, send)
            return
        # Of a HEAD the server keeps the head alone.
        await respond(send, 200, self._discovery, [JSON, *cors_headers(scope["headers"], self._policy)])

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller, session = await self._admit(scope)
        cors = cors_headers(scope["headers"], self._policy)
        name = None if caller.agent is None else caller.agent.name
        await self._streams.serve(scope, receive, send, agent=name, session=session, headers=cors)

    async def _options(self, scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 204, headers=[ALLOW, *cors_headers(scope["headers"], self._policy, preflight=True)])


async def _lifespan(receive: Receive, send: Send) -> None:
    """Nothing starts or stops with the listener: the daemon does that."""
    while True:
        event = await receive()
        await send({"type": f"{event['type']}.complete"})
        if event["type"] == "lifespan.shutdown":
            return


def _served(texts: Mapping[str, str], catalogue: Catalogue) -> list[str]:
    """Those texts whose tool is in the catalogue."""
    return [text for tool, text in texts.items() if tool in catalogue.by_name]


def _echo(session: str | None) -> Pairs:
    return [] if session is None else [(SESSION, session.encode())]


def _declares_intent(request: Request) -> bool:
    """Whether the call, gone well or not, may change what its caller is shown (protocol contract 1.4)."""
    match request:
        case Request(method="tools/call", params={"name": "cuecrux_session", "arguments": {"intent": str(intent)}}):
            return bool(intent.strip())
        case _:
            return False


def _mode_of(error: CruxError) -> Pairs:
    """The header that a refusal for want of a capability carries (protocol contract 9.5)."""
    return [(MODE_HEADER.lower().encode(), REFUSED.encode())] if isinstance(error, CapabilityRefused) else []


def _closing(scope: Scope) -> Pairs:
    """What announces that the connection ends (RFC 9110 15.5.9); HTTP/2 has no such header (RFC 9113 8.2.2)."""
    return [(b"connection", b"close")] if scope["http_version"].startswith("1") else []


def render_gate(status: int, error: str, hint: str) -> tuple[bytes, bytes]:
    """A refusal before JSON-RPC, as the MCP port words it: content type and body."""
    return b"application/json", msgspec.json.encode({"error": error, "hint": hint})
