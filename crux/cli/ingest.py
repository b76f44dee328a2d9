"""`crux ingest`: files into the retrieval index of a tenant."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import msgspec
from attrs import define, field

from crux.cli.client import Api, Credentials, Refused, Target, credential_options, pass_api, url_option
from crux.cli.inputs import text
from crux.cli.lazy import Failed
from crux.cli.reading import Skipped, Text, files_under, is_hidden, read
from crux.cli.text import safe
from crux.domain.facts import DEFAULT_TENANT
from crux.errors import CruxError

# What one request carries: the progress bar moves with each.
REQUEST_FILES = 64
REQUEST_BYTES = 1024 * 1024
WATCH_MS = 250

_INGEST = "/v1/local/ingest"
_DOCUMENTS = "/v1/local/documents"


class Kept(msgspec.Struct):
    """What became of one document."""

    id: str
    status: str
    passages: int


class Answer(msgspec.Struct):
    """What the daemon says of one request."""

    documents: list[Kept]


@define
class Tally:
    """How a run went: documents by what became of them, and files that were skipped by why."""

    kept: Counter[str] = field(factory=Counter)
    skipped: Counter[str] = field(factory=Counter)

    def __str__(self) -> str:
        counts = ", ".join(f"{self.kept[status]} {status}" for status in ("stored", "updated", "unchanged"))
        skips = ", ".join(f"{count} {reason}" for reason, count in sorted(self.skipped.items()))
        return f"{counts}{f'; skipped {self.skipped.total()}: {skips}' if skips else ''}"


@click.command(short_help="Put files into the retrieval index.")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=text)
@click.option("--tenant", default=DEFAULT_TENANT, show_default=True, type=text, help="Whose index they go into.")
@click.option("--watch", is_flag=True, help="Go on with every change, removals included, until interrupted.")
@click.option("--remove", is_flag=True, help="Remove documents instead; PATH... are then their ids.")
@url_option
@credential_options
@click.pass_context
def ingest(
    context: click.Context,
    *,
    paths: tuple[str, ...],
    tenant: str,
    watch: bool,
    remove: bool,
    url: str | None,
    token: str | None,
    scopes: str | None,
    passport: str | None,
) -> None:
    """Put text, Markdown, HTML and source code into the index that `query` searches: files, and all that is below a
    directory.

    A file's absolute path is its document's id. A file that has not changed is left alone, so the same command again
    goes on where an interrupted one stopped. Binaries and other files that are no UTF-8 text are skipped and named; so
    are hidden ones below a directory.
    """
    context.obj = Target(url, Credentials(token, scopes, passport))
    if remove and watch:
        raise click.UsageError("--remove takes ids and --watch watches files: choose one")
    if remove:
        _remove(tenant, paths)
        return
    missing = [path for path in paths if not Path(path).exists()]
    if missing:
        raise click.UsageError(f"no such file or directory: {', '.join(map(safe, missing))}")
    _ingest(tenant, [Path(path) for path in paths], watch)


@pass_api
def _ingest(api: Api, tenant: str, roots: list[Path], watch: bool) -> None:
    watched = changes(roots) if watch else iter(())
    next(watched, None)  # so that no change from here on is missed
    files = list(files_under(roots))
    tally = Tally()
    with click.progressbar(
        length=len(files), label="ingesting", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as progress:
        try:
            for done in send(api, tenant, files, tally):
                progress.update(done)
        except CruxError as error:
            raise Failed(f"{error.message}. So far: {tally}; run the same command again to go on") from error
    click.echo(f"tenant {tenant}: {tally}")
    if watch:
        click.echo("watching; interrupt to stop", err=True)
        for changed in watched:
            follow(api, tenant, changed, roots)


def send(api: Api, tenant: str, files: Iterable[Path], tally: Tally) -> Iterator[int]:
    """Ingest files in requests of a bounded size; yields how many files each has done with.

    Skipped ones are named on standard error. Raises `CruxError` where a request fails; what was sent before it is kept.
    """
    texts: list[Text] = []
    done = 0
    for file in files:
        found = read(file)
        done += 1
        if isinstance(found, Skipped):
            tally.skipped[found.reason.partition(":")[0]] += 1
            click.echo(f"skipped {safe(str(found.path))}: {found.reason}", err=True)
            continue
        texts.append(found)
        if len(texts) == REQUEST_FILES or sum(text.size_bytes for text in texts) >= REQUEST_BYTES:
            _post(api, tenant, texts, tally)
            yield done
            texts, done = [], 0
    if texts:
        _post(api, tenant, texts, tally)
    yield done


def follow(api: Api, tenant: str, changed: Iterable[Path], roots: Iterable[Path]) -> None:
    """Bring the index up to what files are after a change; those that are gone are removed. A failure is told, and the
    next change is another try."""
    tally, removed = Tally(), 0
    wanted = [file for file in sorted(changed) if not is_hidden(file, roots)]
    try:
        for _ in send(api, tenant, [file for file in wanted if file.is_file()], tally):
            pass
        removed = sum(_delete(api, tenant, str(file)) for file in wanted if not file.exists())
    except CruxError as error:
        click.echo(f"crux: {safe(error.message)}", err=True)
        return
    if tally.kept.total() > tally.kept["unchanged"] or removed:
        click.echo(f"{tally}{f'; removed {removed}' if removed else ''}")


def changes(roots: Iterable[Path]) -> Iterator[set[Path]]:
    """The files that changed since the last time, until the program is interrupted; none at first, and now and then."""
    from watchfiles import watch as watch_files  # noqa: PLC0415 - only watching needs it

    for found in watch_files(*roots, raise_interrupt=False, yield_on_timeout=True, rust_timeout=WATCH_MS):
        yield {Path(name) for _, name in found}


def _post(api: Api, tenant: str, texts: Iterable[Text], tally: Tally) -> None:
    documents: list[dict[str, Any]] = [
        {"id": text.document_id, "title": text.title, "text": text.text, "uri": text.path.as_uri()} for text in texts
    ]
    answer = api.read(Answer, api.call("POST", _INGEST, body={"tenant_id": tenant, "documents": documents}))
    tally.kept.update(document.status for document in answer.documents)


@pass_api
def _remove(api: Api, tenant: str, ids: Iterable[str]) -> None:
    for document_id in ids:
        if not _delete(api, tenant, document_id):
            raise Failed(f"tenant {tenant} has no document {document_id}")
        click.echo(f"removed {safe(document_id)}")


def _delete(api: Api, tenant: str, document_id: str) -> bool:
    """Remove a document; whether there was one."""
    try:
        api.call("DELETE", f"{_DOCUMENTS}/{quote(document_id, safe='')}", params={"tenant_id": tenant})
    except Refused as refused:
        if refused.http_status != 404:
            raise
        return False
    return True
