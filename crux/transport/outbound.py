"""The way out to the endpoints of extensions: one request, one answer, within one deadline (seed 002 section 5.3)."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final
from weakref import WeakValueDictionary

import h11
import trio

from crux.domain.addresses import check_addresses
from crux.domain.endpoints import Endpoint
from crux.domain.outbound import Answer
from crux.domain.outbound_config import OutboundConfig
from crux.domain.outbound_refusals import Transport
from crux.tools.dispatch import Party
from crux.transport.connections import Connection, Connections
from crux.transport.exchange import exchange

# Calls under way at once, each of them on a connection; more of them wait, within their own deadlines.
MOST_CALLS: Final = 512

# Characters of a failure's text: h11 quotes what came.
MOST_SAID: Final = 120
# Look-ups of one name at a time.
LOOKUPS_EACH: Final = 2

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class Resolver:
    """Asks the machine's resolver, in threads that each host has of its own.

    A look-up cannot be given up: its thread hangs for as long as the name's servers do. So it takes none from others.
    """

    def __init__(self) -> None:
        # A limiter lives for as long as a thread or a waiting call has it.
        self._threads: WeakValueDictionary[str, trio.CapacityLimiter] = WeakValueDictionary()

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """The addresses of `host`, best first; raises `OSError` where it has none."""
        if (threads := self._threads.get(host)) is None:
            threads = self._threads[host] = trio.CapacityLimiter(LOOKUPS_EACH)
        look_up = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        found = await trio.to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=threads)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


def trusted() -> ssl.SSLContext:
    """What certificates are held against: the authorities of SSL_CERT_FILE or SSL_CERT_DIR, else those of certifi."""
    from httpx import create_ssl_context  # noqa: PLC0415  # most daemons never need httpx

    return create_ssl_context()


class HttpPost:
    """The `Post` of the daemon. It follows no redirect, uses no proxy, keeps no cookie, and sends nothing twice.

    A name is resolved once for each call. Its addresses are judged (design Decision 23) and then connected to as they
    are, so that a name that changes meanwhile changes nothing; the certificate is held against the name. A connection
    that stands from an earlier call is used where it leads to one of these addresses.
    """

    def __init__(self, connections: Connections, resolve: Resolve) -> None:
        self._connections = connections
        self._resolve = resolve
        self._room = trio.CapacityLimiter(MOST_CALLS)

    async def __call__(
        self,
        endpoint: Endpoint,
        body: bytes,
        *,
        party: Party,
        timeout_s: float,
        max_response_bytes: int,
        config: OutboundConfig,
    ) -> Answer:
        """Post `body`; the answer comes with whatever status it has, and compressed where the endpoint does that
        unasked.

        Raises `Transport` where no whole answer came in `timeout_s`, which covers everything from the resolver on;
        `ResponseTooLarge` as soon as more came than `max_response_bytes`; `EndpointNotAllowed`. Cancellation closes
        the connection and leaves nothing behind.
        """
        with trio.move_on_after(timeout_s):
            try:
                async with self._room:
                    addresses = await self._judged(endpoint, config)
                    connection = await self._connections.to(party, endpoint, addresses)
                    return await self._answer(connection, endpoint, body, max_response_bytes)
            except (OSError, UnicodeError, trio.BrokenResourceError, h11.ProtocolError) as error:
                raise Transport(f"the call to '{endpoint.authority}' failed: {_said(error)}") from error
        raise Transport(f"no answer from '{endpoint.authority}' within {timeout_s:g} s")

    async def _judged(self, endpoint: Endpoint, config: OutboundConfig) -> Sequence[str]:
        """The addresses to call; raises `EndpointNotAllowed` where any of them is none to call."""
        if endpoint.address is not None:
            addresses: Sequence[str] = [endpoint.host]
        else:
            addresses = await self._resolve(endpoint.host, endpoint.port)
        check_addresses(endpoint, addresses, config.private_hosts)
        return addresses

    async def _answer(self, connection: Connection, endpoint: Endpoint, body: bytes, most: int) -> Answer:
        at_rest = False
        try:
            exchanged = await exchange(connection.stream, endpoint, body, most)
            at_rest = exchanged.at_rest
        finally:
            if not at_rest:
                await trio.aclose_forcefully(connection.stream)
        if at_rest:
            self._connections.keep(connection)
        return exchanged.answer


@asynccontextmanager
async def http_post_of(
    resolve: Resolve | None = None, tls: Callable[[], ssl.SSLContext] = trusted
) -> AsyncIterator[HttpPost]:
    """The `Post` of a daemon, for as long as it runs; connections at rest are closed at the end."""
    async with trio.open_nursery() as nursery:
        yield HttpPost(Connections(nursery, tls), resolve or Resolver())
        nursery.cancel_scope.cancel()


def _said(error: Exception) -> str:
    """What a failure is about: trio tells of TLS by the error underneath."""
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return cause.verify_message
    if isinstance(cause, ssl.SSLError):
        return cause.reason or "TLS failed"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)[:MOST_SAID] or type(error).__name__
