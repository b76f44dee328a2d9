"""`crux version`."""

import click

from crux import __version__


@click.command()
def version() -> None:
    """Print the version of this installation; `crux doctor` says which one a running daemon has."""
    click.echo(f"crux {__version__}")
