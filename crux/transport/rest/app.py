"""The HTTP API as one ASGI application: Quart finds the route, and everything that all routes share is here."""

from __future__ import annotations

import secrets
from functools import partial
from typing import cast

import trio
from quart import Response, request
from quart_trio import QuartTrio
from werkzeug.exceptions import MethodNotAllowed as WrongMethod
from werkzeug.exceptions import NotFound as NoSuchRoute
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.routing import BaseConverter

from crux.errors import ActorFailed, CruxError, NotFound
from crux.logs import get_logger
from crux.tools.schema import shortened
from crux.transport.asgi import App, Message, Receive, RequestTimeout, Scope, Send, discard_body, too_large
from crux.transport.auth import NOBODY
from crux.transport.rest import (
    extensions,
    facts,
    handshake,
    health,
    integrations,
    memory,
    retrieval,
    sessions,
    substrate,
)
from crux.transport.rest.correlation import REQUEST_ID, TRACEPARENT, request_id, traceparent
from crux.transport.rest.problems import MethodNotAllowed, problem
from crux.transport.rest.queries import check_text
from crux.transport.rest.route import PUBLIC, AllOf, Api, HttpCall, Route

log = get_logger("crux.rest")

NO_CONTENT = 204

ROUTES = (
    *health.ROUTES,
    *handshake.ROUTES,
    *facts.ROUTES,
    *retrieval.ROUTES,
    *memory.ROUTES,
    *substrate.ROUTES,
    *sessions.ROUTES,
    *extensions.ROUTES,
    *integrations.ROUTES,
)


class _AnyText(BaseConverter):
    """A variable of a path that may hold anything, slashes as well."""

    regex = r"(?s:.+?)"
    part_isolating = False
    weight = 200


def create_app(api: Api) -> App:
    """The application. It answers every failure itself, with a problem document, and nothing else leaves it.

    Expects `front.Front` around it, which has settled who may talk to this daemon and how much.
    """
    quart = QuartTrio("crux", static_folder=None)
    quart.config.update(
        MAX_CONTENT_LENGTH=api.max_body_bytes or None,
        BODY_TIMEOUT=None,  # the request's own deadline holds
        RESPONSE_TIMEOUT=None,  # the server's deadline for a send holds
        PROVIDE_AUTOMATIC_OPTIONS=False,
    )
    quart.url_map.merge_slashes = False
    quart.url_map.converters["text"] = _AnyText
    for route in ROUTES:
        view = partial(_serve, route, api)
        quart.add_url_rule(route.path, f"{route.method} {route.path}", view, methods=[route.method])
    quart.register_error_handler(Exception, _answer_failure)
    return partial(_border, cast("App", quart), api.max_body_bytes)


def correlated(app: App) -> App:
    """`app`, each of whose responses carries the ids that the request and its trace go by."""

    async def mark(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        headers = scope["headers"]
        marks = [(REQUEST_ID, request_id(headers))]
        # From here on the request carries its id, whoever gave it.
        scope = {**scope, "headers": [*(pair for pair in headers if pair[0] != REQUEST_ID), *marks]}
        if (trace := traceparent(headers)) is not None:
            marks.append((TRACEPARENT, trace))

        async def send_marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *marks]}
            await send(message)

        await app(scope, receive, send_marked)

    return mark


async def _border(app: App, max_body_bytes: int, scope: Scope, receive: Receive, send: Send) -> None:
    """Turn web sockets away, and see to it that a peer with too large a body hears so."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await app(scope, _discarding(receive, max_body_bytes) if max_body_bytes else receive, send)


def _discarding(receive: Receive, limit: int) -> Receive:
    """`receive` for a body that has at most `limit` bytes; of a longer one, some is thrown away before that is told."""
    size = 0

    async def receive_counting() -> Message:
        nonlocal size
        message = await receive()
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > limit and message.get("more_body", False):
                await discard_body(receive, limit)
                return {**message, "more_body": False}
        return message

    return receive_counting


async def _serve(route: Route, api: Api, **variables: str) -> Response:
    """Carry out one request: who is it, may it, and what does the handler say, all before its time is up."""
    principal = NOBODY
    if route.scopes is not PUBLIC:
        headers = list(request.scope["headers"])
        if route.scopes:
            principal = api.authenticator.authenticate(headers)
            require = principal.require_all if isinstance(route.scopes, AllOf) else principal.require_any
            require(*route.scopes)
            if route.for_operators:
                principal.require_operator()
        else:
            principal = api.authenticator.recognise(headers)
    query = request.args.to_dict()
    check_text(query | variables)
    with trio.move_on_after(api.request_timeout_s) as limit:
        read_body = partial(_read_body, api.max_body_bytes)
        reply = await route.handle(HttpCall(api, principal, query, read_body, limit.deadline), **variables)
        response = Response(reply.body, reply.status, dict(reply.headers), content_type=reply.content_type)
        if reply.status == NO_CONTENT:
            # What has no body says nothing of one (RFC 9110 section 8.6).
            response.headers.remove("Content-Length")
            response.headers.remove("Content-Type")
        return response
    raise RequestTimeout(
        f"the request was not whole, or not answered, within {api.request_timeout_s:g} s; "
        "a write may still be kept: read before you retry"
    )


async def _read_body(limit: int) -> bytes:
    try:
        return await request.get_data(cache=False, as_text=False, parse_form_data=False)
    except RequestEntityTooLarge:
        raise too_large(limit) from None


async def _answer_failure(error: Exception) -> Response:
    refusal = _refusal(error)
    body, headers = problem(refusal)
    return Response(body, refusal.status, headers)


def _refusal(error: Exception) -> CruxError:
    """What the caller is told of `error`; what nobody foresaw is in the log, under a number that the caller gets."""
    match error:
        case CruxError():
            return error
        case WrongMethod():
            return MethodNotAllowed(request.method, sorted(error.valid_methods or ()))
        case NoSuchRoute():
            return NotFound(f"there is no route {shortened(request.path)}")
    incident = secrets.token_hex(6)
    log.error(
        "a request failed",
        method=request.method,
        path=request.path,
        request_id=request.headers.get("X-Request-Id"),
        incident=incident,
        exc_info=error,
    )
    return ActorFailed(f"internal error, logged as {incident}", data={"incident": incident})
