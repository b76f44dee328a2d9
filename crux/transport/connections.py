"""Connections to the endpoints of extensions: opened to an address that was judged, kept a while for the next call."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import trio
from attrs import define, field, frozen

from crux.domain.endpoints import Endpoint
from crux.tools.dispatch import Party

# Common servers close a connection that was quiet for five seconds. Ours is gone before that, so that no request
# crosses with the end of it: nobody could tell whether that one arrived.
KEPT_S: Final = 4.0
# Connections that no call uses; with more of them the oldest is closed.
MOST_KEPT: Final = 256


@frozen(eq=False)
class Connection:
    """One to `address`, over TLS where the scheme is https.

    It is of one `party` alone: an endpoint that says more than it was asked, and too late to be seen, mixes up answers.
    """

    party: Party
    scheme: str
    host: str
    port: int
    address: str
    stream: trio.abc.Stream

    def serves(self, party: Party, endpoint: Endpoint, addresses: Sequence[str]) -> bool:
        wanted = (party, endpoint.scheme, endpoint.host, endpoint.port)
        return (self.party, self.scheme, self.host, self.port) == wanted and self.address in addresses


@define(eq=False)
class _Rest:
    """A connection that no call uses. Its time is `scope`; `over` is set when it is taken, or closed."""

    connection: Connection
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    over: trio.Event = field(factory=trio.Event)
    wanted: bool = False

    @property
    def is_good(self) -> bool:
        """Whether it was taken before the peer closed it, or said anything unasked."""
        return self.wanted and self.scope.cancelled_caught


class Connections:
    """Those at rest, each watched by a task in `nursery`. `tls` makes the context that all of them share."""

    def __init__(self, nursery: trio.Nursery, tls: Callable[[], ssl.SSLContext]) -> None:
        self._nursery = nursery
        self._make_tls = tls
        self._tls: ssl.SSLContext | None = None
        self._resting: list[_Rest] = []

    async def to(self, party: Party, endpoint: Endpoint, addresses: Sequence[str]) -> Connection:
        """One to any of the addresses that was kept for the party, or a new one to the first that takes it.

        Raises `OSError` or `trio.BrokenResourceError` where none does.
        """
        while (kept := await self._taken(party, endpoint, addresses)) is not None:
            if kept.is_good:
                return kept.connection
        address, plain = await _connected(addresses, endpoint.port)
        stream = plain if endpoint.scheme == "http" else await self._secured(plain, endpoint.host)
        return Connection(party, endpoint.scheme, endpoint.host, endpoint.port, address, stream)

    def keep(self, connection: Connection) -> None:
        """Have it ready for the next call."""
        rest = _Rest(connection)
        rest.scope.deadline = trio.current_time() + KEPT_S
        self._resting.append(rest)
        self._nursery.start_soon(self._watch, rest)
        if len(self._resting) > MOST_KEPT:
            self._resting.pop(0).scope.cancel()

    async def _taken(self, party: Party, endpoint: Endpoint, addresses: Sequence[str]) -> _Rest | None:
        for rest in reversed(self._resting):
            if rest.connection.serves(party, endpoint, addresses):
                self._resting.remove(rest)
                rest.wanted = True
                rest.scope.cancel()
                # Shielded, since from now on the connection is the caller's; the watch ends at once.
                with trio.CancelScope(shield=True):
                    await rest.over.wait()
                return rest
        return None

    async def _watch(self, rest: _Rest) -> None:
        try:
            with rest.scope, suppress(trio.BrokenResourceError):
                await rest.connection.stream.receive_some(1)
        finally:
            if rest in self._resting:
                self._resting.remove(rest)
            if not rest.is_good:
                await trio.aclose_forcefully(rest.connection.stream)
            rest.over.set()

    async def _secured(self, plain: trio.SocketStream, host: str) -> trio.abc.Stream:
        if self._tls is None:
            self._tls = self._make_tls()
        # A certificate has its names without the dot that ends a full one.
        name = host.removesuffix(".")
        secured = trio.SSLStream(plain, self._tls, server_hostname=name, https_compatible=True)
        try:
            await secured.do_handshake()
        except BaseException:
            await trio.aclose_forcefully(secured)
            raise
        return secured


async def _connected(addresses: Sequence[str], port: int) -> tuple[str, trio.SocketStream]:
    """A connection to the first address that takes one; each may use its share of the time that is left for all."""
    error = OSError("the name has no address")
    for index, address in enumerate(addresses):
        left_s = max(trio.current_effective_deadline() - trio.current_time(), 0.0)
        with trio.move_on_after(left_s / (len(addresses) - index)) as share:
            try:
                return address, await _connect(address, port)
            except OSError as refused:
                error = refused
        if share.cancelled_caught:
            error = OSError("no connection in time")
    raise error


async def _connect(address: str, port: int) -> trio.SocketStream:
    opened = trio.socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        await opened.connect((address, port))
    except BaseException:
        opened.close()
        raise
    return trio.SocketStream(opened)
