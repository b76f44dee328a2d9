"""What the commands of `crux ext` share: paths, times, the option for JSON."""

from __future__ import annotations

from urllib.parse import quote

import click

from crux.domain.instants import rfc3339

EXTENSIONS = "/v1/extensions"

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print the daemon's answer as JSON.")


def path_of(name: str, under: str = f"{EXTENSIONS}/") -> str:
    """The path of `name`, which stays one part of it whatever is in it.

    Dots alone would be taken for a way up.
    """
    return under + (name.replace(".", "%2E") if name in {".", ".."} else quote(name, safe=""))


def at(unix_ms: int) -> str:
    """An instant to the second; the bare number where it is of no calendar year."""
    try:
        return rfc3339(unix_ms * 1000)[:19].replace("T", " ") + "Z"
    except OverflowError:
        return f"{unix_ms} ms"
