"""What lets a caller and the log speak of the same request: its id, and the trace that it belongs to."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable

REQUEST_ID = b"x-request-id"
TRACEPARENT = b"traceparent"

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
# W3C Trace Context 3.2: version ff, and ids of zeros only, are not valid; a later version may add more after a dash.
_IDS = rb"(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"
_TRACEPARENT = re.compile(rb"00-%b|(?!00|ff)[0-9a-f]{2}-%b(?:-[!-~]*)?" % (_IDS, _IDS))


def request_id(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The caller's id for the request, where it is one and usable, else a new one."""
    return _single(headers, REQUEST_ID, _REQUEST_ID) or uuid.uuid4().hex.encode()


def traceparent(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The trace that the caller names, None where it names none or more than one, or not in the form it has to have."""
    return _single(headers, TRACEPARENT, _TRACEPARENT)


def _single(headers: Iterable[tuple[bytes, bytes]], name: bytes, form: re.Pattern[bytes]) -> bytes | None:
    values = [value for found, value in headers if found == name]
    return values[0] if len(values) == 1 and form.fullmatch(values[0]) else None
