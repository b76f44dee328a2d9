"""Session states: JSON that an agent keeps under an id of its own choice, to go on later (coordination contract 3).

A record is a private fact of the daemon's own. Its name holds whose session it is, escaped as in the names of private
facts, so that no two callers' ids can ever meet; callers without a name share one scope.
"""

from typing import Final

import msgspec

from crux.domain.facts import Draft, Fact
from crux.domain.instants import parse_rfc3339, rfc3339
from crux.domain.privacy import owned
from crux.domain.tokens import utf8_size
from crux.errors import InvalidArgument

SESSION_PREFIX = "__session_state__::"
SESSION_KEY = "state"
MOST_ID_BYTES = 512

# What the ids of an agent's sessions start with where the agent is not known otherwise. Taken as an id it would look
# like a way to another agent's session.
AGENT_SESSION_PREFIX = "__agent_session::"
_BYTES_PER_TOKEN = 4


class SessionState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record as it is stored and shown: instants are RFC 3339, `state` is compact JSON."""

    session_id: str
    state: msgspec.Raw
    updated_at: str
    total_tokens: int
    expires_at: str | None = None
    archived: bool = False
    archived_at: str | None = None
    archive_reason: str | None = None


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(SessionState).decode


def check_session_id(session_id: str) -> None:
    """Raise `InvalidArgument` for an id that no session can have."""
    if not 0 < utf8_size(session_id) <= MOST_ID_BYTES or "\0" in session_id:
        raise InvalidArgument(
            f"a session id has 1 to {MOST_ID_BYTES} bytes of UTF-8 without NUL, got {utf8_size(session_id)}",
            data={"param": "session_id"},
        )
    if session_id.startswith(AGENT_SESSION_PREFIX):
        raise InvalidArgument(
            f"a session id must not start with '{AGENT_SESSION_PREFIX}': pass the id as you chose it",
            data={"param": "session_id"},
        )


def session_scope(owner: str | None) -> str:
    """What the stored names of an owner's sessions start with; None is every caller without a name."""
    return owned(SESSION_PREFIX, owner or "", "")


def session_entity(owner: str | None, session_id: str) -> str:
    """The stored name of a session."""
    return session_scope(owner) + session_id


def saved(session_id: str, state: object, *, now_us: int, ttl_s: int | None = None) -> SessionState:
    """The record of `state` (any JSON) saved now, in place of an earlier one with its archive marks and lifetime.

    Raises `InvalidArgument` for a lifetime that ends after the year 9999.
    """
    text = _encode(state)
    return SessionState(
        session_id=session_id,
        state=msgspec.Raw(text),
        updated_at=rfc3339(now_us),
        total_tokens=-(-len(text) // _BYTES_PER_TOKEN),
        expires_at=None if ttl_s is None else _end(now_us, ttl_s),
    )


def archived(record: SessionState, reason: str | None, *, now_us: int) -> SessionState:
    """`record` hidden from the default listing; its state and `updated_at` stay."""
    return msgspec.structs.replace(record, archived=True, archived_at=rfc3339(now_us), archive_reason=reason)


def unarchived(record: SessionState) -> SessionState:
    """`record` without its archive marks."""
    return msgspec.structs.replace(record, archived=False, archived_at=None, archive_reason=None)


def session_draft(owner: str | None, record: SessionState) -> Draft:
    """The fact that keeps `record`."""
    return Draft(
        entity=session_entity(owner, record.session_id),
        key=SESSION_KEY,
        value=_encode(record).decode(),
        private=True,
        actor=owner,
    )


def session_kept_in(fact: Fact | None, *, now_us: int) -> SessionState | None:
    """The record that `fact` keeps; None where there is none, or its lifetime is over."""
    if fact is None:
        return None
    record = _decode(fact.value)
    return record if record.expires_at is None or now_us < parse_rfc3339(record.expires_at) else None


def _end(now_us: int, ttl_s: int) -> str:
    try:
        return rfc3339(now_us + ttl_s * 1_000_000)
    except OverflowError:
        raise InvalidArgument(
            f"a session cannot live for {ttl_s} seconds: leave its lifetime out to keep it",
            data={"param": "ttl_seconds"},
        ) from None
