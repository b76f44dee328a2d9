"""How commands print: JSON documents and tables."""

from collections.abc import Iterable, Sequence

import click
import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from crux.cli.text import safe


def document(content: object) -> None:
    """Print plain data as indented JSON; the bytes of a JSON document as they are, indented."""
    encoded = content if isinstance(content, bytes) else msgspec.json.encode(content)
    click.echo(msgspec.json.format(encoded, indent=2))


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print a table as wide as the terminal; long cells go on in the next line and are never cut."""
    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        shown.add_column(column, overflow="fold")
    for row in rows:
        shown.add_row(*(Text(safe(cell)) if isinstance(cell, str) else cell for cell in row))
    Console(highlight=False).print(shown)
