"""`crux config`."""

import os
from collections.abc import Mapping
from pathlib import Path

import click

from crux.cli import show
from crux.cli.lazy import Failed
from crux.config import Row, Settings, declarations, describe, describe_calls, load
from crux.errors import SettingError


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def config(as_json: bool) -> None:
    """Show every setting, the value it has, and where that comes from. Secrets are masked.

    Exits 1 when a value cannot be used; the settings that can are shown all the same where possible.
    """
    problem, settings = _rows(os.environ, Path.home())
    rows = [*settings, *describe_calls(os.environ)] if settings else []
    if as_json:
        show.document([_plain(row) for row in rows])
    elif rows:
        show.table(("Setting", "Value", "Source"), [(row.env, row.value, row.source) for row in rows])
    if problem is not None:
        raise Failed(problem)


def _rows(environ: Mapping[str, str], home: Path) -> tuple[str | None, list[Row]]:
    """What is wrong, if anything, and the settings as far as they can be told."""
    try:
        return None, describe(load(environ, home=home))
    except SettingError as error:
        unusable = _unusable(environ, home)
        if unusable is None:
            return error.message, []
        rest = {name: value for name, value in environ.items() if name not in unusable}
        return error.message, [row for row in describe(load(rest, home=home)) if row.env not in unusable]


def _unusable(environ: Mapping[str, str], home: Path) -> frozenset[str] | None:
    """The variables without which the settings load: those that a complaint goes away with. None: it is the file."""
    left = dict(environ)
    while (complaint := _complaint(left, home)) is not None:
        for declaration in declarations(Settings).values():
            without = {name: value for name, value in left.items() if name != declaration.env}
            if len(without) < len(left) and _complaint(without, home) != complaint:
                left = without
                break
        else:
            return None
    return frozenset(environ) - frozenset(left)


def _complaint(environ: Mapping[str, str], home: Path) -> str | None:
    try:
        load(environ, home=home)
    except SettingError as error:
        return error.message
    return None


def _plain(row: Row) -> dict[str, str | None]:
    return {"name": row.name, "env": row.env, "file": row.file, "value": row.value, "source": row.source}
