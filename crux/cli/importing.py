"""`crux facts import`: facts from JSON lines."""

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Annotated

import click
import msgspec
from attrs import frozen

from crux.cli.client import Api, pass_api
from crux.cli.inputs import InputFile
from crux.cli.lazy import Failed
from crux.domain.decay import Horizon
from crux.domain.privacy import reserved_prefix
from crux.domain.raw_json import LONE_SURROGATE, NUL
from crux.errors import CruxError, InvalidArgument
from crux.transport.json_text import holds_nul, too_deep, with_lone_surrogates

BATCH_FACTS = 500
# Well under the daemon's limit for a body, 16 MiB. A fact that is larger goes alone.
BATCH_BYTES = 4 * 1024 * 1024

_LINES_NAMED = 8


class Line(msgspec.Struct):
    """What is read of a line. An exported fact has more members, which the daemon decides anew."""

    entity: Annotated[str, msgspec.Meta(min_length=1)]
    key: Annotated[str, msgspec.Meta(min_length=1)]
    value: str
    confidence: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    source_receipt: str | None = None
    horizon_class: Horizon | None = None
    private: bool = False
    deleted: bool = False
    fact_id: str | None = None
    superseded_by: str | None = None


class Draft(msgspec.Struct, omit_defaults=True):
    """One member of the body of `PUT /v1/facts/bulk`."""

    entity: str
    key: str
    value: str
    confidence: float = 1.0
    source_receipt: str | None = None
    horizon_class: Horizon | None = None


@frozen
class Numbered:
    """A draft as JSON, and the number of its line."""

    line: int
    draft: msgspec.Raw


@click.command("import", short_help="Store facts from JSON lines.")
@click.argument("file", type=InputFile())
@pass_api
def import_(api: Api, file: IO[bytes]) -> None:
    """Store the facts of FILE (- for standard input): JSON lines as exported, or with entity, key and value at least.

    The file is checked whole before the first fact is stored. Facts that are deleted, retired, private or the daemon's
    own are left out and counted. The rest get new ids, versions and times: in a daemon that has them already they
    become further versions.
    """
    drafts, left_out = choose(read_lines(file))
    stored = 0
    with click.progressbar(
        length=len(drafts), label="importing", file=sys.stderr, hidden=not sys.stderr.isatty()
    ) as progress:
        for batch in batches(drafts):
            try:
                api.call("PUT", "/v1/facts/bulk", body=[numbered.draft for numbered in batch])
            except CruxError as error:
                raise Failed(
                    f"storing lines {batch[0].line} to {batch[-1].line} failed: {error.message}; "
                    f"the {stored} facts before them are stored, those after them are not"
                ) from error
            stored += len(batch)
            progress.update(len(batch))
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
    click.echo(f"imported {stored} facts{f'; left out {reasons}' if reasons else ''}")


def read_lines(lines: Iterable[bytes]) -> list[tuple[int, Line]]:
    """Every line that is not blank, with its number.

    Raises `InvalidArgument` that says what is wrong with the first bad line and which others are bad.
    """
    decoder = msgspec.json.Decoder(Line)
    found: list[tuple[int, Line]] = []
    problems: dict[int, str] = {}
    for number, content in enumerate(lines, start=1):
        if not content.strip():
            continue
        try:
            line = decoder.decode(content)
        except RecursionError:
            problems[number] = too_deep().message
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            problems[number] = str(error) if with_lone_surrogates(content) is None else LONE_SURROGATE
        else:
            if holds_nul(content, [line.entity, line.key, line.value, line.source_receipt]):
                problems[number] = NUL
            found.append((number, line))
    if problems:
        raise InvalidArgument(_complaint(problems))
    return found


def choose(lines: Sequence[tuple[int, Line]]) -> tuple[list[Numbered], Counter[str]]:
    """What is to be stored, in order, and how many lines are left out for which reason."""
    drafts: list[Numbered] = []
    left_out: Counter[str] = Counter()
    chains: dict[str, tuple[str, str]] = {}
    for number, line in reversed(lines):  # what replaces a fact stands after it
        if (reason := _left_out(line, chains)) is not None:
            left_out[reason] += 1
            continue
        if line.fact_id is not None:
            chains[line.fact_id] = (line.entity, line.key)
        draft = Draft(line.entity, line.key, line.value, line.confidence, line.source_receipt, line.horizon_class)
        drafts.append(Numbered(number, msgspec.Raw(msgspec.json.encode(draft))))
    drafts.reverse()
    return drafts, left_out


def _left_out(line: Line, chains: Mapping[str, tuple[str, str]]) -> str | None:
    """Why `line` is not stored; None where it is. `chains` has the ids of the facts after it that are."""
    if line.deleted:
        return "deleted"
    if line.private:  # it would come back public
        return "private"
    if reserved_prefix(line.entity) is not None:
        return "of the daemon's own"
    # An earlier version becomes history when the next one is stored. Without that one, it would come back to life.
    if line.superseded_by is not None and chains.get(line.superseded_by) != (line.entity, line.key):
        return "retired"
    return None


def batches(drafts: Iterable[Numbered]) -> Iterator[list[Numbered]]:
    """`drafts` in order, in batches of at most `BATCH_FACTS` and, unless one alone is larger, `BATCH_BYTES`."""
    batch: list[Numbered] = []
    size = 0
    for numbered in drafts:
        length = len(memoryview(numbered.draft))
        if batch and (len(batch) == BATCH_FACTS or size + length > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(numbered)
        size += length
    if batch:
        yield batch


def _complaint(problems: dict[int, str]) -> str:
    (first, problem), *others = problems.items()
    text = f"line {first}: {problem}"
    if others:
        named = ", ".join(str(number) for number, _ in others[:_LINES_NAMED])
        more = len(others) - _LINES_NAMED
        text += f"; lines {named}{f' and {more} more' if more > 0 else ''} are wrong too"
    return f"{text}. Nothing was imported"
