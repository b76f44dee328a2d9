"""`crux serve`."""

import os
import sys
from pathlib import Path

import click

from crux import daemon
from crux.config import load
from crux.errors import CruxError
from crux.logs import configure, get_logger

# sysexits.h: an internal error. Tells a supervisor a crash, worth a restart, from a refused start, which is not.
CRASHED = 70

_PRIVATE = 0o077

log = get_logger(__name__)


@click.command()
def serve() -> None:
    """Run the daemon in the foreground until SIGTERM or Ctrl-C; then finish what is in flight and stop.

    It takes no options: settings come from the environment and one YAML file, and `crux config` shows them. One line on
    standard output says that it is ready; the log goes to standard error.

    Exit codes: 0 stopped, 1 start refused, 2 wrong usage, 70 crashed.
    """
    loaded = load(os.environ, home=Path.home())
    settings = loaded.settings
    redactions = configure(settings.log_format, settings.log_level, settings.redact)
    os.umask(_PRIVATE)
    try:
        daemon.run(loaded, announce=announce, redactions=redactions)
    except CruxError:
        raise
    except Exception:
        log.exception("the daemon crashed")
        sys.exit(CRASHED)


def announce(ready: daemon.Ready) -> None:
    """Say that the daemon serves, on standard output, and log what is odd about its settings."""
    for warning in ready.warnings:
        log.warning(warning)
    click.echo(f"crux {ready.version} ready: http {ready.http}, mcp {ready.mcp or 'off'}, data {ready.data_dir}")
