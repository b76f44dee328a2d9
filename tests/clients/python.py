"""The official Python SDK and FastMCP, each with its own defaults, on an event loop in a thread of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from functools import partial
from threading import Condition
from typing import Any
from unittest.mock import patch

import fastmcp
import fastmcp.client.messages
import fastmcp.client.transports
import httpx2
import mcp
import mcp.client.session
import mcp.client.stdio
import mcp.client.streamable_http
import mcp_types
from anyio.from_thread import BlockingPortal, start_blocking_portal
from attrs import define, field, frozen

from tests.clients.client import BRIDGE, REOPEN_MS, TIMEOUT_S, Client, Exchange, Refused

Async = Callable[..., Awaitable[Any]]


@frozen
class Sdk:
    """What is used of a connected SDK client."""

    server: mcp_types.Implementation | None
    protocol: str | None
    list_tools: Callable[[], Awaitable[Sequence[mcp_types.Tool]]]
    call_tool: Async
    list_resources: Async


@define
class News:
    """How often an SDK has told its user of a changed tool list; counted on one thread, awaited on another."""

    _times: int = field(default=0, init=False)
    _more: Condition = field(factory=Condition, init=False)

    def add(self) -> None:
        with self._more:
            self._times += 1
            self._more.notify_all()

    def wait(self, times: int) -> int:
        with self._more:
            assert self._more.wait_for(lambda: self._times >= times, TIMEOUT_S), f"heard {self._times} of {times}"
            return self._times


OpenSdk = Callable[[News], AbstractAsyncContextManager[Sdk]]


@define
class PythonClient:
    """Waits, from outside the event loop, for what an SDK does inside."""

    server: str
    protocol: str | None
    _sdk: Sdk
    _news: News
    _portal: BlockingPortal

    def tools(self) -> list[dict[str, Any]]:
        return [tool.model_dump(by_alias=True, exclude_unset=True) for tool in self._wait(self._sdk.list_tools)]

    def call(self, tool: str, **arguments: object) -> Any:
        (item,) = self._wait(self._sdk.call_tool, tool, arguments).content
        return json.loads(item.text)

    def resources(self) -> None:
        self._wait(self._sdk.list_resources)

    def heard(self, times: int) -> int:
        return self._news.wait(times)

    def _wait(self, function: Async, *args: object) -> Any:
        try:
            return self._portal.call(function, *args)
        except mcp.MCPError as error:
            raise _refusal(error) from error


@asynccontextmanager
async def _official(transport: mcp.client.Transport, news: News) -> AsyncIterator[Sdk]:
    async def hear(message: mcp.client.session.IncomingMessage) -> None:
        if isinstance(message, mcp_types.ToolListChangedNotification):
            news.add()

    async with mcp.Client(transport, read_timeout_seconds=TIMEOUT_S, message_handler=hear) as client:

        async def list_tools() -> Sequence[mcp_types.Tool]:
            return (await client.list_tools()).tools

        yield Sdk(client.server_info, client.protocol_version, list_tools, client.call_tool, client.list_resources)


@asynccontextmanager
async def _official_http(url: str, token: str | None, wire: list[Exchange], news: News) -> AsyncIterator[Sdk]:
    async with _http(wire, headers={} if token is None else {"Authorization": f"Bearer {token}"}) as http:
        transport = mcp.client.streamable_http.streamable_http_client(url, http_client=http)
        async with _official(transport, news) as sdk:
            yield sdk


def _official_bridge(environ: Mapping[str, str], news: News) -> AbstractAsyncContextManager[Sdk]:
    server = mcp.client.stdio.StdioServerParameters(command=sys.executable, args=[*BRIDGE], env={**environ})
    return _official(mcp.client.stdio.stdio_client(server, errlog=sys.stderr), news)


@define
class _FastNews(fastmcp.client.messages.MessageHandler):
    news: News

    async def on_tool_list_changed(self, message: mcp_types.ToolListChangedNotification) -> None:
        self.news.add()


@asynccontextmanager
async def _fast(transport: fastmcp.client.transports.ClientTransport, news: News) -> AsyncIterator[Sdk]:
    async with fastmcp.Client(transport, timeout=TIMEOUT_S, message_handler=_FastNews(news)) as client:
        yield Sdk(
            client.server_info, client.protocol_version, client.list_tools, client.call_tool, client.list_resources
        )


def _fast_http(url: str, token: str | None, wire: list[Exchange], news: News) -> AbstractAsyncContextManager[Sdk]:
    transport = fastmcp.client.transports.StreamableHttpTransport(
        url, auth=token, httpx_client_factory=partial(_http, wire)
    )
    return _fast(transport, news)


def _fast_bridge(environ: Mapping[str, str], news: News) -> AbstractAsyncContextManager[Sdk]:
    transport = fastmcp.client.transports.StdioTransport(sys.executable, [*BRIDGE], env={**environ}, keep_alive=False)
    return _fast(transport, news)


def _http(wire: list[Exchange], **settings: Any) -> httpx2.AsyncClient:
    """The HTTP client of an SDK, which notes down every exchange."""

    async def note(response: httpx2.Response) -> None:
        request = response.request
        sent = json.loads(await request.aread() or b"{}")
        is_json = response.headers.get("content-type") == "application/json"
        answer = json.loads(await response.aread()) if is_json else {}
        error = answer.get("error")
        wire.append(
            Exchange(
                verb=request.method,
                method=sent.get("method"),
                session=request.headers.get("mcp-session-id"),
                status=response.status_code,
                error=error["code"] if isinstance(error, dict) else None,
            )
        )

    # The environment may name a proxy, which knows nothing of this machine's loopback. No URL here is an https one.
    return httpx2.AsyncClient(
        **{"timeout": TIMEOUT_S} | settings, event_hooks={"response": [note]}, trust_env=False, verify=False
    )


@contextmanager
def _connect(open_sdk: OpenSdk, reopen_ms: int = REOPEN_MS) -> Iterator[Client]:
    news = News()
    with ExitStack() as stack:
        # FastMCP stands on the official SDK, which has no option for it.
        stack.enter_context(patch.object(mcp.client.streamable_http, "DEFAULT_RECONNECTION_DELAY_MS", reopen_ms))
        portal = stack.enter_context(start_blocking_portal("asyncio"))
        try:
            opened = stack.enter_context(portal.wrap_async_context_manager(open_sdk(news)))
        except (mcp.MCPError, ExceptionGroup) as error:
            raise _refusal(error) from error
        assert opened.server is not None
        yield PythonClient(f"{opened.server.name} {opened.server.version}", opened.protocol, opened, news, portal)


def _refusal(error: Exception) -> Refused:
    """The one error inside the groups of the SDK's own tasks."""
    while isinstance(error, ExceptionGroup):
        (error,) = error.exceptions
    if not isinstance(error, mcp.MCPError):
        raise error
    return Refused(error.code, error.message, error.data)


def official(
    url: str, token: str | None, wire: list[Exchange], /, *, reopen_ms: int = REOPEN_MS
) -> AbstractContextManager[Client]:
    return _connect(partial(_official_http, url, token, wire), reopen_ms)


def official_bridge(environ: Mapping[str, str]) -> AbstractContextManager[Client]:
    return _connect(partial(_official_bridge, environ))


def fast(
    url: str, token: str | None, wire: list[Exchange], /, *, reopen_ms: int = REOPEN_MS
) -> AbstractContextManager[Client]:
    return _connect(partial(_fast_http, url, token, wire), reopen_ms)


def fast_bridge(environ: Mapping[str, str]) -> AbstractContextManager[Client]:
    return _connect(partial(_fast_bridge, environ))
