"""`crux facts export`: facts as JSON lines."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

import click
import msgspec

from crux.cli.client import Api, Refused, pass_api
from crux.cli.inputs import standard_output
from crux.domain.instants import parse_rfc3339
from crux.errors import CruxError, InvalidArgument

PAGE_FACTS = 1000


class Page(msgspec.Struct):
    """One page of an export, each fact as it was sent."""

    facts: list[msgspec.Raw]
    has_more: bool
    next_cursor: str | int | None = None


def _instant(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    # The daemon ignores a time that it cannot read, and would export everything.
    if value is not None:
        try:
            parse_rfc3339(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return value


@click.command(short_help="Write all public facts as JSON lines.")
@click.option("--since", metavar="TIME", callback=_instant, help="Only what was stored at this RFC 3339 time or later.")
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write to FILE, which appears (or changes) only once the export is whole.",
)
@pass_api
def export(api: Api, since: str | None, output: Path | None) -> None:
    """Write all public facts, earlier versions included, oldest first, one JSON object a line."""
    count = 0
    with replacing(output) if output else nullcontext(standard_output()) as file:
        for fact in _facts(api, since):
            file.write(msgspec.json.format(fact, indent=-1) + b"\n")
            count += 1
        file.flush()
    click.echo(f"exported {count} facts{f' to {output}' if output else ''}", err=True)


def _facts(api: Api, since: str | None) -> Iterator[msgspec.Raw]:
    """All pages' facts; raises `Refused` when the daemon's cursor leads nowhere."""
    params: dict[str, str | int] = {"limit": PAGE_FACTS, **({"since": since} if since else {})}
    while True:
        page = api.read(Page, api.call("GET", "/v1/facts/export", params=params))
        yield from page.facts
        if not page.has_more:
            return
        if page.next_cursor is None or page.next_cursor == params.get("cursor"):
            raise Refused(f"{api.url} has more facts and gives no cursor to go on from; the export is not whole")
        params["cursor"] = page.next_cursor


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` when the block ends well, synced and readable by its owner alone.

    When the block raises, `path` is as before. Raises `CruxError` where the file cannot be written.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        raise InvalidArgument(f"{path} is no regular file; leave -o out to write to standard output")
    try:
        with NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as draft:
            try:
                yield draft
                draft.flush()
                os.fsync(draft.fileno())
                Path(draft.name).replace(target)
            except BaseException:
                Path(draft.name).unlink()
                raise
    except OSError as error:
        raise CruxError(f"{path} cannot be written: {error.strerror}") from error
