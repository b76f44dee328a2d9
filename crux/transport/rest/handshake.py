"""The session handshake over HTTP (coordination contract 2.1): what `cuecrux_session` does, for scripts."""

from __future__ import annotations

from attrs import frozen

from crux.domain.session_plan import plan_cbor, plan_json
from crux.tools.registry import Call
from crux.tools.schema import arg, parameters_of, parser_of
from crux.tools.session import Hints, open_session
from crux.transport.rest.route import NO_SCOPE, HttpCall, Reply, route

CBOR = "application/cbor"


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
        "Cache-Control": "no-store",
    }
    if CBOR in body.accepts:
        return Reply(plan_cbor(plan), content_type=CBOR, headers=headers)
    return Reply(plan_json(plan), headers=headers)


ROUTES = (post_session,)
