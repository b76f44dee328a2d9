"""JSON-RPC 2.0 as the MCP port speaks it: read once, write once (seed 11.5, protocol contract 1.3)."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from crux.domain.raw_json import LONE_SURROGATE, NUL
from crux.errors import CruxError, InvalidArgument
from crux.transport.json_text import (
    check_containers,
    check_nesting,
    holds_nul,
    refusal_of,
    too_deep,
    with_lone_surrogates,
)

_NULL = msgspec.Raw(b"null")


class Request(msgspec.Struct):
    """A request as sent. `id` keeps the very bytes, so that it is echoed unchanged; null counts as absent."""

    jsonrpc: str
    method: str
    id: msgspec.Raw = _NULL
    params: Any = None

    @property
    def is_notification(self) -> bool:
        return bytes(self.id) == b"null"


_decode = msgspec.json.Decoder(Request).decode
_decode_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def read_request(body: bytes) -> Request:
    """The request in `body`.

    Raises `ParseError` for anything that is no JSON object with a string `jsonrpc` and `method`, is nested more than
    `MOST_NESTED` deep or has more than `MOST_CONTAINERS` arrays and objects; `BadText` where a string holds NUL or a
    lone surrogate.
    """
    check_containers(body)
    try:
        request = _decode(body)
        identity = _identity(request)
    except msgspec.ValidationError as error:
        raise refusal_of("a JSON-RPC request", error) from None
    except RecursionError:
        raise too_deep() from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        if (notification := _refuse_lone_surrogates(body)) is not None:
            return notification
        raise refusal_of("JSON", error) from None
    check_nesting(body, [request.params, identity])  # the list stands for the request around them
    if holds_nul(body, [request.method, request.params, identity]) and not request.is_notification:
        raise BadText(NUL, request.id)
    return request


def _identity(request: Request) -> object:
    """The id as a value, where it is more than a number or a word: what is echoed has to be JSON too."""
    raw = bytes(request.id)
    return _decode_any(raw) if raw[:1] in (b'"', b"[", b"{") else None


class BadText(InvalidArgument):
    """A well-formed request with text that is not taken; knows the request's id."""

    def __init__(self, message: str, request_id: msgspec.Raw) -> None:
        super().__init__(message)
        self.request_id = request_id


def result_response(request_id: msgspec.Raw, result: bytes) -> bytes:
    """A response with an encoded result."""
    return b'{"jsonrpc":"2.0","id":' + bytes(request_id) + b',"result":' + result + b"}"


def error_response(request_id: msgspec.Raw | None, error: CruxError) -> bytes:
    """A response with an error; an unknown method or tool has no `data` (seed 11.4)."""
    body: dict[str, object] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    return b'{"jsonrpc":"2.0","id":' + bytes(request_id or _NULL) + b',"error":' + _encode(body) + b"}"


def _refuse_lone_surrogates(body: bytes) -> Request | None:
    """Raise `BadText` where lone surrogates are what is wrong with `body`; of a notification, nothing is looked at."""
    found = with_lone_surrogates(body)
    if not (isinstance(found, dict) and isinstance(found.get("jsonrpc"), str) and isinstance(found.get("method"), str)):
        return None
    if found.get("id") is None:
        return Request(found["jsonrpc"], "")
    raise BadText(LONE_SURROGATE, msgspec.Raw(json.dumps(found["id"], allow_nan=False).encode()))
