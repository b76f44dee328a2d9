"""Installations for the checks to look at."""

from pathlib import Path

from crux.cli.checks import Site
from crux.cli.checks.site import Occupant, Port
from crux.cli.client import Credentials
from crux.config import Settings

FREE = Port("CORECRUXD_HTTP_PORT", "127.0.0.1:14800", Occupant.NOBODY)


def site(
    data_dir: Path = Path("/nowhere"),
    *,
    held: bool = False,
    holder: dict[str, object] | None = None,
    http: Port = FREE,
    mcp: Port | None = None,
    **settings: object,
) -> Site:
    """A site on which no daemon runs, unless the arguments say otherwise."""
    chosen = Settings(data_dir=data_dir, **settings)  # type: ignore[arg-type]
    return Site(chosen, Credentials(), held, holder or {}, http, mcp)
