"""Where the checks look: the settings, who holds the data directory, and what is at the two ports."""

import errno
import socket
from collections.abc import Callable, Mapping
from enum import Enum

import httpx
import msgspec
from attrs import frozen

from crux.cli.client import Api, Credentials, authority, connect
from crux.config import Settings
from crux.errors import CruxError
from crux.storage.directory import holder_of, is_held

# A daemon on this machine answers in milliseconds; a port that does not is another program's.
LOOK_TIMEOUT = httpx.Timeout(5.0, connect=2.0)


class Occupant(Enum):
    """Who is at a port."""

    NOBODY = "nobody"
    CRUX = "a Crux daemon"
    STRANGER = "another program"
    UNKNOWN = "unknown: the port is chosen at start"
    IMPOSSIBLE = "nobody, and nobody can be"


@frozen
class Port:
    """One listener as configured, who is there, and the daemon's version or the reason why nobody can be."""

    setting: str
    place: str
    occupant: Occupant
    detail: str = ""


@frozen
class Site:
    """One installation. `mcp` is None where MCP is switched off; `holder` is what the lock's last holder wrote."""

    settings: Settings
    credentials: Credentials
    held: bool
    holder: Mapping[str, object]
    http: Port
    mcp: Port | None


class _Build(msgspec.Struct):
    version: str


class _Health(msgspec.Struct):
    """The answer of `GET /healthz`."""

    ok: bool
    build: _Build


class _ServerInfo(msgspec.Struct):
    version: str


class _Discovery(msgspec.Struct, rename="camel"):
    """The answer of `GET /mcp`."""

    protocol_version: str
    server_info: _ServerInfo


def survey(settings: Settings, credentials: Credentials) -> Site:
    """Look around once; connects to nothing but the configured ports, and changes nothing."""
    return Site(
        settings=settings,
        credentials=credentials,
        held=is_held(settings.data_dir),
        holder=holder_of(settings.data_dir),
        http=_look("CORECRUXD_HTTP", settings.http_host, settings.http_port, _http_version),
        mcp=_look("CORECRUXD_MCP", settings.mcp_host, settings.mcp_port, _mcp_version)
        if settings.mcp_enabled
        else None,
    )


def _look(setting: str, host: str, port: int, version_of: Callable[[Api], str]) -> Port:
    place = authority(host, port)
    if not port:
        return Port(f"{setting}_PORT", place, Occupant.UNKNOWN)
    try:
        if _is_free(host, port):
            return Port(f"{setting}_PORT", place, Occupant.NOBODY)
    except OSError as error:
        return Port(f"{setting}_HOST or {setting}_PORT", place, Occupant.IMPOSSIBLE, error.strerror or str(error))
    try:
        # No token goes along: whoever is at the port has not shown yet that it is ours.
        with connect(f"http://{place}", Credentials(), LOOK_TIMEOUT) as api:
            return Port(f"{setting}_PORT", place, Occupant.CRUX, version_of(api))
    except CruxError:
        return Port(f"{setting}_PORT", place, Occupant.STRANGER)


def _is_free(host: str, port: int) -> bool:
    """Whether a daemon could listen there; raises `OSError` where nobody can."""
    for family, kind, protocol, _, address in socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    ):
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind(address)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
                raise
    return True


def _http_version(api: Api) -> str:
    return api.read(_Health, api.call("GET", "/healthz")).build.version


def _mcp_version(api: Api) -> str:
    return api.read(_Discovery, api.call("GET", "/mcp")).server_info.version
