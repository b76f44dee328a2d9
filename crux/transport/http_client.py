"""The way out over HTTP, for requests that may be given up."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx


class HttpTransport(httpx.AsyncHTTPTransport):
    """httpx's layer below its client, which sends a body of `bytes` from a plain iterator.

    httpx sends it from an asynchronous generator, and a request that is cancelled meanwhile would leave that to the
    garbage collector, which trio reports.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if isinstance(request.stream, httpx.ByteStream):
            request.stream = _Body(request.content)
        return await super().handle_async_request(request)


class _Body(httpx.AsyncByteStream):
    def __init__(self, content: bytes) -> None:
        self._content = content

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Whole(self._content)


class _Whole:
    """Iterates over one part."""

    def __init__(self, part: bytes) -> None:
        self._rest = iter((part,))

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        for part in self._rest:
            return part
        raise StopAsyncIteration
