"""Every failure Crux tells a caller about, one class for one situation.

A class knows how each edge words it: `code` is the JSON-RPC error code (seed 11.5), `status` the HTTP status. The text
of the exception is public: it says what was expected, what came (shortened) and what to do next. `data` carries
machine-readable members beside the text and never the only copy of a fact the caller needs.
"""

from collections.abc import Mapping
from typing import ClassVar

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CAPABILITY_DENIED = -32030
UPSTREAM_ERROR = -32000


class CruxError(Exception):
    """Root of all failures that a caller may be told about."""

    code: ClassVar[int] = INTERNAL_ERROR
    status: ClassVar[int] = 500
    retry_after_s: int | None = None

    def __init__(self, message: str, *, data: Mapping[str, object] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.data = data


class StartRefused(CruxError):
    """The daemon will not start; the text is one line an operator can act on."""


class SettingError(StartRefused):
    """A setting has a value that cannot be used."""


class ParseError(CruxError):
    """A body that is not the JSON that was expected."""

    code = PARSE_ERROR
    status = 400


class InvalidArgument(CruxError):
    """An argument is missing, has the wrong type, or lies outside its range."""

    code = INVALID_PARAMS
    status = 400


class Unauthorized(CruxError):
    """No credential, or one that does not hold."""

    status = 401


class Forbidden(CruxError):
    """The caller is known and may not do this."""

    code = INVALID_PARAMS
    status = 403


class Denied(CruxError):
    """The store refuses to touch this record, whoever asks (JSON-RPC -32030)."""

    code = CAPABILITY_DENIED
    status = 403


class NotFound(CruxError):
    """No such thing, or not for this caller to see."""

    status = 404


class MethodNotFound(CruxError):
    """A method that this server does not have, or a tool that is switched off."""

    code = METHOD_NOT_FOUND
    status = 404


class UnknownTool(CruxError):
    """A tool name that is in no list of this caller."""

    code = METHOD_NOT_FOUND
    status = 404


class Conflict(CruxError):
    """The record is not in the state that the request expected."""

    status = 409


class PayloadTooLarge(CruxError):
    """A body above the limit."""

    status = 413


class RateLimited(CruxError):
    """A caller has used up what it may do in this stretch of time."""

    status = 429


class Overloaded(CruxError):
    """A mailbox stayed full, or an answer did not come, until the deadline; the caller may try again."""

    status = 503
    retry_after_s = 1


class ResultTooLarge(CruxError):
    """What was asked for does not fit one answer."""

    status = 413


class SwitchedOff(CruxError):
    """A part that the operator of this daemon has switched off (Decisions 17 and 36)."""

    status = 404


class NotBuilt(CruxError):
    """Something that this daemon has no means for."""

    status = 501


class StorageFull(CruxError):
    """The disk took no more; nothing of the write was kept."""

    status = 507


class StorageUnavailable(CruxError):
    """The database cannot be written or read now; nothing of the write was kept."""

    status = 503
    retry_after_s = 5


class ActorFailed(CruxError):
    """An actor raised while it worked on this request; the text carries the id of the log entry."""


class NoAnswer(CruxError):
    """An actor was still at work on the request when its deadline came; what becomes of it is not known."""

    status = 504
