"""The session handshake over HTTP (coordination contract 2.1): what `cuecrux_session` does, for scripts."""

from __future__ import annotations

from attrs import frozen

from crux.domain.commands import Head
from crux.domain.session_plan import PLAN_KEY, PLAN_PREFIX, plan_cbor, plan_json
from crux.errors import NotFound
from crux.tools.registry import Call
from crux.tools.schema import arg, parameters_of, parser_of, shortened
from crux.tools.session import Hints, open_session
from crux.transport.rest.route import NO_SCOPE, HttpCall, Reply, route

CBOR = "application/cbor"

_NOT_KEPT = {"Cache-Control": "no-store"}


@frozen
class SessionBody:
    """What a client asks for. Its own name and version are read for their form only: a plan does not hold them."""

    client_id: str | None = arg("Which program asks", default=None)
    client_version: str | None = arg("Which version of it", default=None)
    accepts: tuple[str, ...] = arg("Content types that it reads", default=())
    intent: str | None = arg("What it is about to do", default=None)
    hints: Hints = arg("Wishes for the plan", default=Hints())


_session_body = parser_of(SessionBody, parameters_of(SessionBody))


@route("POST", "/session", NO_SCOPE)
async def post_session(call: HttpCall) -> Reply:
    """Mint a sealed plan for the caller, as canonical JSON, or as canonical CBOR where it accepts that."""
    body = _session_body(await call.json_object())
    caller = Call(call.principal.passport, call.principal.viewer_for_write, call.api.services)
    plan = await open_session(caller, body.intent, body.hints, call.ask)
    headers = {
        "X-CueCrux-Session-Id": plan.session_id.hex(),
        "X-CueCrux-Plan-Hash": plan.receipt.hash.hex(),
        **_NOT_KEPT,
    }
    if CBOR in body.accepts:
        return Reply(plan_cbor(plan), content_type=CBOR, headers=headers)
    return Reply(plan_json(plan), headers=headers)


@route("GET", "/v1/sessions/<text:session_id>/plan", NO_SCOPE)
async def get_plan(call: HttpCall, session_id: str) -> Reply:
    """Read a plan again, as it was sealed; its id is known to whoever minted it and those it told."""
    kept = await call.ask(call.api.services.recall, Head(PLAN_PREFIX + session_id, PLAN_KEY))
    if kept is None:
        raise NotFound(f"no session plan {shortened(session_id)}: mint one with POST /session")
    return Reply(kept.value.encode(), headers=_NOT_KEPT)


ROUTES = (post_session, get_plan)
