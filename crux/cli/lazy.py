"""A group of commands whose modules are imported when they are called, so that the daemon carries no other's."""

import os
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click
from attrs import frozen

from crux.cli.text import safe
from crux.errors import CruxError


@frozen
class Lazy:
    """Where a command is found: `attribute` of `module`. `summary` is its line in the group's help."""

    module: str
    attribute: str
    summary: str


class Failed(click.ClickException):
    """A command that did not do what was asked: one line on standard error and exit code 1."""

    def show(self, file: object = None) -> None:
        click.echo(f"crux: {safe(' '.join(self.message.split()))}", err=True)


class LazyGroup(click.Group):
    """The top of the command line. A `CruxError` that leaves a command becomes `Failed`."""

    def __init__(self, *args: object, lazy: Mapping[str, Lazy], **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # handed through as click's decorator gives them
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self._lazy.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(import_module(entry.module), entry.attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self._lazy.items()])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program, as click does; a device that fails, such as a full one behind standard output, is
        `Failed`."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            Failed(": ".join(str(part) for part in (error.filename, error.strerror) if part)).show()
            _drop_unwritable()
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except CruxError as error:
            raise Failed(error.message) from error


def _drop_unwritable() -> None:
    """Let go of what standard output does not take: the interpreter's last flush would fail on it once more."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
