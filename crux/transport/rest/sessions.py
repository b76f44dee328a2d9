"""Session states over HTTP (HTTP API contract 4.2, coordination contract 3).

A passport's sessions are its own, the same ones that the agent of that name has over MCP; callers without a passport
share theirs. Storing a state un-archives its session.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from crux.domain.commands import Head, Put
from crux.domain.sessions import (
    SESSION_KEY,
    SessionState,
    archived,
    check_session_id,
    saved,
    session_draft,
    session_entity,
    session_kept_in,
    unarchived,
)
from crux.errors import Conflict, NotFound
from crux.tools.schema import arg, parameters_of, parser_of, shortened
from crux.transport.rest.route import READ, WRITE_SESSIONS, HttpCall, Reply, json_reply, route

# A marking that meets another write of the same session is tried again; so many in a row are no accident.
MOST_TRIES = 5


@frozen
class ArchiveBody:
    """Why a session is archived."""

    reason: str | None = arg("Why", default=None)


_archive_body = parser_of(ArchiveBody, parameters_of(ArchiveBody))


@route("PUT", "/v1/sessions/<text:session_id>/state", WRITE_SESSIONS)
async def put_state(call: HttpCall, session_id: str) -> Reply:
    """Store any JSON as the state of a session, in place of what was there."""
    check_session_id(session_id)
    record = saved(session_id, await call.json(), now_us=call.api.services.clock.now_us())
    await call.ask(call.api.services.facts, Put(session_draft(call.principal.passport, record), keep_history=False))
    return json_reply(record)


@route("GET", "/v1/sessions/<text:session_id>/state", READ)
async def get_state(call: HttpCall, session_id: str) -> Reply:
    """Read the state of a session, archived or not."""
    record, _ = await _read(call, session_id)
    return json_reply(record)


@route("POST", "/v1/sessions/<text:session_id>/archive", WRITE_SESSIONS)
async def archive(call: HttpCall, session_id: str) -> Reply:
    """Hide a session from the default listing; its state stays. May be repeated: the last reason holds."""
    reason, now_us = _archive_body(await call.json_object()).reason, call.api.services.clock.now_us()
    return await _mark(call, session_id, lambda record: archived(record, reason, now_us=now_us))


@route("POST", "/v1/sessions/<text:session_id>/unarchive", WRITE_SESSIONS)
async def unarchive(call: HttpCall, session_id: str) -> Reply:
    """Show a session in the default listing again."""
    return await _mark(call, session_id, unarchived)


ROUTES = (put_state, get_state, archive, unarchive)


async def _read(call: HttpCall, session_id: str) -> tuple[SessionState, int]:
    """The record and the version of the fact that keeps it; raises `NotFound`."""
    check_session_id(session_id)
    services = call.api.services
    fact = await call.ask(services.recall, Head(session_entity(call.principal.passport, session_id), SESSION_KEY))
    record = session_kept_in(fact, now_us=services.clock.now_us())
    if fact is None or record is None:
        raise NotFound(f"no session {shortened(session_id)} of yours: store its state first")
    return record, fact.version


async def _mark(call: HttpCall, session_id: str, change: Callable[[SessionState], SessionState]) -> Reply:
    tries = 0
    while True:
        record, version = await _read(call, session_id)
        record = change(record)
        draft = session_draft(call.principal.passport, record)
        try:
            await call.ask(call.api.services.facts, Put(draft, expected_version=version, keep_history=False))
        except Conflict:
            tries += 1
            if tries == MOST_TRIES:
                raise
        else:
            return json_reply(record)
