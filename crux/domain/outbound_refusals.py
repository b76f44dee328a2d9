"""Why a call of an extension's tool came to nothing: one class for one step of the pipeline (seed 002 section 5.3)."""

from __future__ import annotations

from typing import ClassVar, Final

from crux.errors import CruxError, RateLimited

# What the audit says where no step of the pipeline refused: the daemon failed, or nobody waits for the answer any more.
INTERNAL: Final = "internal"
CANCELLED: Final = "cancelled"
_RATE_LIMITED: Final = "rate_limited"


class DispatchRefused(CruxError):
    """Root of these refusals. `reason` is the audit's word for the situation, which never changes (seed 5.6)."""

    status = 502
    reason: ClassVar[str]


class NotExternalTool(DispatchRefused):
    """The extension is of another kind, or has no endpoint (steps 1 and 2)."""

    reason = "not_external_tool"


class PlainHttpBlocked(DispatchRefused):
    """The endpoint is not HTTPS, and nothing permits that (step 3)."""

    reason = "plain_http_blocked"


class InvalidEndpoint(DispatchRefused):
    """The endpoint is no URL with a host (step 4)."""

    reason = "invalid_endpoint"


class EndpointNotAllowed(DispatchRefused):
    """The manifest does not list the endpoint's host, or its address is none to call (step 5, and at the connect)."""

    reason = "endpoint_not_allowed"


class ToolNotInManifest(DispatchRefused):
    """The extension declares no such tool (step 6)."""

    reason = "tool_not_in_manifest"


class NoGrant(DispatchRefused):
    """The grant at hand is another's, or for another extension (step 7)."""

    status = 403
    reason = "no_grant"


class ToolNotInGrant(DispatchRefused):
    """The grant does not reach the tool (step 8)."""

    status = 403
    reason = "tool_not_in_grant"


class RequestTooLarge(DispatchRefused):
    """What would be sent is above the daemon's cap (step 11)."""

    reason = "request_too_large"


class NotEncodable(DispatchRefused):
    """The arguments cannot be written as JSON (step 11)."""

    reason = "json"


class Transport(DispatchRefused):
    """The endpoint could not be reached, or did not answer in time, or not in HTTP (step 12)."""

    reason = "transport"


class ResponseTooLarge(DispatchRefused):
    """The answer is above the cap; what came of it is not kept (step 13)."""

    reason = "response_too_large"


class UpstreamError(DispatchRefused):
    """The endpoint answered with another status than 2xx (step 14)."""

    reason = "upstream_error"


class MalformedResponse(DispatchRefused):
    """The answer is not of the documented shape (step 15)."""

    reason = "malformed_response"


def audit_reason(error: Exception) -> str:
    """The audit's word for a dispatch that `error` ended."""
    if isinstance(error, DispatchRefused):
        return error.reason
    return _RATE_LIMITED if isinstance(error, RateLimited) else INTERNAL
