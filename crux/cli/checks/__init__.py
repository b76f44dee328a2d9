"""The checks of `crux doctor`, as data: names, and functions that return a `Finding`."""

from collections.abc import Callable, Mapping

from crux.cli.checks import data, live, start
from crux.cli.checks.finding import Finding, Verdict, fail, ok, warn
from crux.cli.checks.site import Site, survey

__all__ = ["HERE", "OF_SITE", "Finding", "Site", "Verdict", "fail", "ok", "survey", "warn"]

# What is true of this machine whatever the settings say.
HERE: Mapping[str, Callable[[], Finding]] = {"python": start.python, "sqlite": start.sqlite}

# What depends on the settings, in the order of a start.
OF_SITE: Mapping[str, Callable[[Site], Finding]] = {
    "authentication": start.auth,
    "addresses": start.addresses,
    "data directory": data.directory,
    "permissions": data.permissions,
    "keys": data.keys,
    "capability token": start.capability,
    "disk space": data.space,
    "lock": data.lock,
    "database": data.database,
    "http port": live.http_port,
    "mcp port": live.mcp_port,
    "write and read": live.write_and_read,
    "external tools": live.external_tools,
}
