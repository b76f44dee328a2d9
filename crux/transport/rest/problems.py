"""Refusals as problem documents (RFC 9457, HTTP API contract 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

import msgspec

from crux.errors import CruxError, Unauthorized

CONTENT_TYPE = "application/problem+json"

_TYPES = "https://errors.cuecrux.com/"
# Where the contract has other words than the status line.
_TITLES: Mapping[int, str] = {413: "Payload Too Large"}
_SLUGS: Mapping[int, str] = {429: "rate-limited", 500: "internal"}

_encode: Final = msgspec.json.Encoder().encode


class MethodNotAllowed(CruxError):
    """The path exists, and not for this method but for those `allowed`."""

    status = 405

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        self.allow = ", ".join(allowed)
        super().__init__(f"{method} is not served here: use one of {self.allow}", data={"allow": list(allowed)})


def render_problem(status: int, slug: str, text: str) -> tuple[bytes, bytes]:
    """A refusal that is made before the API is reached (`front.Render`): content type and body."""
    return CONTENT_TYPE.encode(), _document(status, slug, text, {})


def problem(error: CruxError) -> tuple[bytes, dict[str, str]]:
    """What the caller is told of `error`: the body and its headers. Members of `data` stand at the top level."""
    slug = _SLUGS.get(error.status) or _title(error.status).lower().replace(" ", "-")
    headers = {"content-type": CONTENT_TYPE}
    if error.retry_after_s is not None:
        headers["retry-after"] = str(error.retry_after_s)
    if isinstance(error, Unauthorized):  # RFC 9110 11.6.1
        headers["www-authenticate"] = "Bearer"
    if isinstance(error, MethodNotAllowed):  # RFC 9110 15.5.6
        headers["allow"] = error.allow
    return _document(error.status, slug, error.message, error.data or {}), headers


def _document(status: int, slug: str, detail: str, members: Mapping[str, object]) -> bytes:
    standard = {"type": _TYPES + slug, "title": _title(status), "status": status, "detail": detail}
    return _encode({**standard, **{name: value for name, value in members.items() if name not in standard}})


def _title(status: int) -> str:
    return _TITLES.get(status) or HTTPStatus(status).phrase
