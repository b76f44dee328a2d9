"""The command line: `crux` and its alias `corecruxd` (Decision 15)."""

import sys

import click

from crux import __version__
from crux.cli.lazy import Lazy, LazyGroup

__all__ = ["corecruxd", "main"]

_COMMANDS = {
    "serve": Lazy("crux.cli.serve", "serve", "Run the daemon."),
    "connect": Lazy("crux.cli.connect", "connect", "Make an agent's program use this daemon."),
    "config": Lazy("crux.cli.config", "config", "Show every setting and where its value comes from."),
    "doctor": Lazy("crux.cli.doctor", "doctor", "Find what is wrong and say how to mend it."),
    "facts": Lazy("crux.cli.facts", "facts", "Read and write facts through the running daemon."),
    "ingest": Lazy("crux.cli.ingest", "ingest", "Put files into the index that agents search."),
    "ext": Lazy("crux.cli.extensions", "ext", "Install external tools and say who may call them."),
    "mcp-stdio": Lazy("crux.cli.mcp_stdio", "mcp_stdio", "Speak MCP on standard input and output."),
    "version": Lazy("crux.cli.version", "version", "Print the version."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
@click.version_option(__version__, prog_name="crux", message="%(prog)s %(version)s")
def main() -> None:
    """Durable memory for AI agents: the daemon and its tools.

    Settings come from environment variables and one YAML file; `crux config` lists them all.
    """


def corecruxd() -> None:
    """The console script `corecruxd`: alone it serves, with arguments it is `crux`."""
    main.main(args=sys.argv[1:] or ["serve"], prog_name="corecruxd")
