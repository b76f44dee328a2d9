"""The official Python SDK and FastMCP, each with its own defaults, on an event loop in a thread of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import fastmcp
import fastmcp.client.transports
import httpx2
import mcp
import mcp.client.streamable_http
import mcp_types
from anyio.from_thread import BlockingPortal, start_blocking_portal
from attrs import define, frozen

from tests.clients.client import TIMEOUT_S, Client, Exchange, Refused

Async = Callable[..., Awaitable[Any]]


@frozen
class Sdk:
    """What is used of a connected SDK client."""

    server: mcp_types.Implementation | None
    protocol: str | None
    list_tools: Callable[[], Awaitable[Sequence[mcp_types.Tool]]]
    call_tool: Async
    list_resources: Async


OpenSdk = Callable[[str, str | None, list[Exchange]], AbstractAsyncContextManager[Sdk]]


@define
class PythonClient:
    """Waits, from outside the event loop, for what an SDK does inside."""

    server: str
    protocol: str | None
    _sdk: Sdk
    _portal: BlockingPortal

    def tools(self) -> list[dict[str, Any]]:
        return [tool.model_dump(by_alias=True, exclude_unset=True) for tool in self._wait(self._sdk.list_tools)]

    def call(self, tool: str, **arguments: object) -> Any:
        (item,) = self._wait(self._sdk.call_tool, tool, arguments).content
        return json.loads(item.text)

    def resources(self) -> None:
        self._wait(self._sdk.list_resources)

    def _wait(self, function: Async, *args: object) -> Any:
        try:
            return self._portal.call(function, *args)
        except mcp.MCPError as error:
            raise _refusal(error) from error


@asynccontextmanager
async def _official(url: str, token: str | None, wire: list[Exchange]) -> AsyncIterator[Sdk]:
    async with _http(wire, headers={} if token is None else {"Authorization": f"Bearer {token}"}) as http:
        transport = mcp.client.streamable_http.streamable_http_client(url, http_client=http)
        async with mcp.Client(transport, read_timeout_seconds=TIMEOUT_S) as client:

            async def list_tools() -> Sequence[mcp_types.Tool]:
                return (await client.list_tools()).tools

            yield Sdk(client.server_info, client.protocol_version, list_tools, client.call_tool, client.list_resources)


@asynccontextmanager
async def _fast(url: str, token: str | None, wire: list[Exchange]) -> AsyncIterator[Sdk]:
    transport = fastmcp.client.transports.StreamableHttpTransport(
        url, auth=token, httpx_client_factory=partial(_http, wire)
    )
    async with fastmcp.Client(transport, timeout=TIMEOUT_S) as client:
        yield Sdk(
            client.server_info, client.protocol_version, client.list_tools, client.call_tool, client.list_resources
        )


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

    # The environment may name a proxy, which knows nothing of this machine's loopback.
    return httpx2.AsyncClient(**{"timeout": TIMEOUT_S} | settings, event_hooks={"response": [note]}, trust_env=False)


@contextmanager
def _connect(sdk: OpenSdk, url: str, token: str | None, wire: list[Exchange]) -> Iterator[Client]:
    with start_blocking_portal("asyncio") as portal, ExitStack() as stack:
        try:
            opened = stack.enter_context(portal.wrap_async_context_manager(sdk(url, token, wire)))
        except (mcp.MCPError, ExceptionGroup) as error:
            raise _refusal(error) from error
        assert opened.server is not None
        yield PythonClient(f"{opened.server.name} {opened.server.version}", opened.protocol, opened, portal)


def _refusal(error: Exception) -> Refused:
    """The one error inside the groups of the SDK's own tasks."""
    while isinstance(error, ExceptionGroup):
        (error,) = error.exceptions
    if not isinstance(error, mcp.MCPError):
        raise error
    return Refused(error.code, error.message, error.data)


official = partial(_connect, _official)
fast = partial(_connect, _fast)
