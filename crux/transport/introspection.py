"""Asking an authorization server over HTTP about a token (protocol contract 4.2, in the manner of RFC 7662)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import msgspec
import trio
from attrs import field, frozen

from crux.actors.clock import Clock
from crux.actors.introspection import UNDER_WAY, Introspector
from crux.config import Settings
from crux.domain.oauth import AccessRules, introspection_endpoint
from crux.logs import get_logger
from crux.transport.http_client import HttpTransport

log = get_logger("crux.introspection")

MOST_ANSWERED_BYTES = 64 * 1024

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}


@frozen
class HttpIntrospection:
    """The `Introspect` of the daemon. It has no deadline of its own: who calls it sets one.

    `transport` is httpx's layer below its client, so no redirect is followed, no cookie kept, and no proxy of the
    environment used.
    """

    transport: httpx.AsyncBaseTransport
    endpoint: str
    client_id: str
    client_secret: str = field(repr=False)

    async def __call__(self, token: str) -> bytes | None:
        """The body of a 2xx answer of at most 64 KiB; None for any other answer, or none."""
        document = {"token": token, "client_id": self.client_id, "client_secret": self.client_secret}
        request = httpx.Request("POST", self.endpoint, headers=_HEADERS, content=msgspec.json.encode(document))
        try:
            response = await self.transport.handle_async_request(request)
            try:
                if response.is_success:
                    return await _read(response)
                log.warning("the authorization server refused to introspect", status=response.status_code)
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            log.warning("the authorization server cannot be asked", kind=type(error).__name__, reason=str(error))
        return None


async def _read(response: httpx.Response) -> bytes | None:
    """The body; None, and the connection is of no more use, where it is longer than `MOST_ANSWERED_BYTES`."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    body = b""
    # Left by cancellation, not by a break: that would leave httpx's nested generators to the garbage collector.
    with trio.CancelScope() as scope:
        async for part in response.stream:
            if len(body) <= MOST_ANSWERED_BYTES:
                body += part
            if len(body) > MOST_ANSWERED_BYTES:
                scope.cancel()
    if len(body) <= MOST_ANSWERED_BYTES:
        return body
    log.warning("the authorization server's answer is too long", limit_bytes=MOST_ANSWERED_BYTES)
    return None


@asynccontextmanager
async def introspector_of(settings: Settings, clock: Clock) -> AsyncIterator[Callable[[], Introspector]]:
    """What builds the Introspector that settings with `oauth_enabled` ask for, for as long as it runs.

    Of the environment it takes SSL_CERT_FILE and SSL_CERT_DIR, for certificate authorities of one's own.
    """
    resource_url = settings.mcp_resource_url
    client_id, client_secret = settings.mcp_introspect_client_id, settings.mcp_introspect_client_secret
    assert resource_url is not None
    assert client_id is not None
    assert client_secret is not None
    rules = AccessRules(resource_url, settings.mcp_oauth_tenant, settings.mcp_require_resource_aud)
    endpoint = introspection_endpoint(settings.mcp_auth_server, settings.mcp_introspect_url)
    # A question a minute for each token needs no open connections, and one that the server is just closing would look
    # like a refusal.
    limits = httpx.Limits(max_connections=UNDER_WAY, max_keepalive_connections=0)
    async with HttpTransport(limits=limits) as transport:
        ask = HttpIntrospection(transport, endpoint, client_id, client_secret)
        yield lambda: Introspector(ask, rules, clock)
