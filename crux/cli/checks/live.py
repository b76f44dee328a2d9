"""The two ports and whoever is there, and whether what is written can be read again."""

import os
import secrets
import tempfile
from pathlib import Path

import msgspec

from crux import __version__
from crux.cli.checks.finding import Finding, fail, ok, warn
from crux.cli.checks.site import Occupant, Port, Site
from crux.cli.client import Api, Refused, connect
from crux.domain.surface import ExtensionNames

# No credentials, no permission, no such route in that version.
_NOT_FOR_US = (401, 403, 404, 405, 501)

_SESSION = "/v1/sessions/doctor-probe/state"


def http_port(site: Site) -> Finding:
    """Who is at the port of the HTTP API."""
    return _port(site, site.http)


def mcp_port(site: Site) -> Finding:
    """Who is at the port of MCP."""
    return ok("switched off (CORECRUXD_MCP_ENABLED)") if site.mcp is None else _port(site, site.mcp)


def _port(site: Site, port: Port) -> Finding:
    restart = f"restart it, or set {port.setting} as it has it"
    match port.occupant, site.held:
        case Occupant.UNKNOWN, _:
            return ok("0: the daemon takes a free port and prints it")
        case Occupant.IMPOSSIBLE, _:
            return fail(f"{port.place} cannot be listened on: {port.detail}", f"set {port.setting}")
        case Occupant.NOBODY, False:
            return ok(f"{port.place} is free")
        case Occupant.NOBODY, True:
            return fail(f"{port.place} has no listener, though a daemon holds the data directory", restart)
        case Occupant.CRUX, False:
            return fail(
                f"{port.place} is taken by a Crux daemon on another data directory",
                f"stop it, or set CORECRUXD_DATA_DIR as it has it, or {port.setting} to another port",
            )
        case Occupant.CRUX, True:
            text = f"{port.place} is answered by Crux {port.detail}"
            if port.detail != __version__:
                return warn(f"{text}, and this is {__version__}", "restart the daemon")
            return ok(text)
        case _:
            return fail(f"{port.place} is taken by another program", f"stop it, or set {port.setting} to another port")


def write_and_read(site: Site) -> Finding:
    """Whether what is written is kept: over the API where a daemon runs, else by a file in the data directory."""
    if site.held:
        if site.http.occupant is not Occupant.CRUX:
            return warn("not tried: the daemon that holds the data directory is not at the configured port")
        with connect(f"http://{site.http.place}", site.credentials) as api:
            return _through_daemon(api)
    if not site.settings.data_dir.is_dir():
        return ok("not tried: there is no data directory yet")
    return _through_file(site.settings.data_dir)


class _Check(msgspec.Struct):
    name: str
    error: str = ""


class _Readiness(msgspec.Struct):
    """The answer of `GET /readyz` where something is wrong."""

    checks: list[_Check]


class _Declared(msgspec.Struct):
    name: str


class _Manifest(msgspec.Struct):
    tools: list[_Declared] = []


class _Installed(msgspec.Struct):
    manifest: _Manifest


class _Extensions(msgspec.Struct):
    """The answer of `GET /v1/extensions`, as far as it matters here."""

    extensions: list[_Installed]


def external_tools(site: Site) -> Finding:
    """Under which names agents see the tools of extensions, since some hosts refuse a list for one dot in a name."""
    names = site.settings.extension_names
    said = f"CRUX_EXTENSION_NAMES is {names}"
    if not site.held or site.http.occupant is not Occupant.CRUX:
        return ok(f"{said}; what is installed was not asked, since no daemon runs there")
    with connect(f"http://{site.http.place}", site.credentials) as api:
        try:
            found = msgspec.json.decode(api.call("GET", "/v1/extensions"), type=_Extensions)
        except Refused as refusal:
            if refusal.http_status not in _NOT_FOR_US:
                return fail(f"what is installed could not be read: {refusal.message}")
            return ok(f"{said}; what is installed is not for this caller to see")
        except msgspec.MsgspecError as error:
            return fail(f"what is installed could not be read: {error}")
    dotted = sum("." in tool.name for installed in found.extensions for tool in installed.manifest.tools)
    if dotted and names is ExtensionNames.VERBATIM:
        return warn(
            f"{dotted} tools of extensions are listed with dots in their names",
            "where a host refuses the list, set CRUX_EXTENSION_NAMES=safe; both names can be called",
        )
    return ok(f"{said}; extensions: {len(found.extensions)}")


def _through_daemon(api: Api) -> Finding:
    try:
        api.call("GET", "/readyz")
    except Refused as refusal:
        return fail(f"the daemon is not ready: {_reasons(refusal)}", "mend that; it recovers by itself")
    value = secrets.token_hex(8)
    try:
        api.call("PUT", _SESSION, body={"probe": value})
        kept = api.call("GET", _SESSION)
    except Refused as refusal:
        if refusal.http_status not in _NOT_FOR_US:
            return fail(f"a write over the API failed: {refusal.message}")
        return ok(f"the daemon says that it can write; a write from here was not possible ({refusal.message})")
    if value.encode() not in kept:
        return fail("what was written over the API was not what was read again", "stop the daemon and check the disk")
    return ok("written and read again over the API")


def _reasons(refusal: Refused) -> str:
    try:
        checks = msgspec.json.decode(refusal.content, type=_Readiness).checks
    except msgspec.MsgspecError:
        return refusal.message
    return "; ".join(f"{check.name}: {check.error}" for check in checks)


def _through_file(directory: Path) -> Finding:
    value = secrets.token_bytes(32)
    try:
        descriptor, name = tempfile.mkstemp(prefix=".doctor-", dir=directory)
        try:
            os.write(descriptor, value)
            os.fsync(descriptor)
            kept = os.pread(descriptor, len(value), 0)
        finally:
            os.close(descriptor)
            Path(name).unlink()
    except OSError as error:
        return fail(f"a file in the data directory could not be written: {error.strerror}")
    if kept != value:
        return fail("a file in the data directory was not what was written", "check the disk")
    return ok("a file in the data directory was written, synced, read again and removed")
