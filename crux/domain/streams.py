"""The rules of push streams: whose session is whose, and how many there may be (protocol contract 2.3)."""

from attrs import frozen

from crux.errors import CruxError

GLOBAL = "global"
OWNER = "owner"


class SessionOwnerMismatch(CruxError):
    """The session id belongs to somebody else's live stream."""

    status = 403


class StreamLimit(CruxError):
    """There are as many streams as there may be; `scope` says whose."""

    status = 429

    def __init__(self, scope: str, limit: int) -> None:
        super().__init__(f"at most {limit} streams ({scope}) may be open")
        self.scope = scope
        self.limit = limit


@frozen
class StreamLimits:
    """Most live streams, of all and of one owner; 0 is no limit (seed 11.1)."""

    sessions: int = 1024
    per_owner: int = 64


def owner_key(agent: str | None, peer_address: str | None) -> str:
    """Who owns a stream: the agent, else the address it comes from, else nobody in particular (seed 11.1)."""
    if agent is not None:
        return f"agent:{agent}"
    return f"ip:{peer_address}" if peer_address else "anonymous"


def check_admission(limits: StreamLimits, *, owner: str, holder: str | None, live: int, others_of_owner: int) -> None:
    """Whether a stream may open for `owner`, in the documented order of checks.

    `holder` is who owns the live stream of the same session id (None: there is none), `live` counts all live streams,
    and
    `others_of_owner` those of `owner` under other ids. Raises `SessionOwnerMismatch` or `StreamLimit`.
    """
    if holder is not None and holder != owner:
        raise SessionOwnerMismatch("this session id belongs to a live stream of another owner: connect without one")
    if holder is None and 0 < limits.sessions <= live:
        raise StreamLimit(GLOBAL, limits.sessions)
    if 0 < limits.per_owner <= others_of_owner:
        raise StreamLimit(OWNER, limits.per_owner)
