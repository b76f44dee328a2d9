"""`crux facts`: the facts of the running daemon, for people and scripts."""

from urllib.parse import quote

import click
import msgspec

from crux.cli import show
from crux.cli.client import Api, Credentials, Target, credential_options, pass_api, url_option
from crux.cli.export import export
from crux.cli.importing import import_
from crux.cli.inputs import Share, standard_input, text
from crux.cli.text import safe
from crux.domain.decay import Horizon

_FACTS = "/v1/facts"
# How many facts the daemon gives unless told otherwise, and at most.
USUAL, MOST = 10, 100


class Fact(msgspec.Struct):
    """A fact as the HTTP API gives it; members that are not shown are left out."""

    fact_id: str
    entity: str
    key: str
    value: str
    version: int
    confidence: float
    stored_at: str
    superseded_by: str | None = None


class RawFacts(msgspec.Struct):
    """The same list, each fact as it was sent."""

    facts: list[msgspec.Raw]


class Facts(msgspec.Struct):
    """A list of facts as the HTTP API gives it."""

    facts: list[Fact]


as_json_option = click.option("--json", "as_json", is_flag=True, help="Print the daemon's answer as JSON.")


@click.group()
@url_option
@credential_options
@click.pass_context
def facts(context: click.Context, url: str | None, token: str | None, scopes: str | None, passport: str | None) -> None:
    """Read and write facts through the running daemon."""
    context.obj = Target(url, Credentials(token, scopes, passport))


@facts.command(short_help="Find facts.")
@click.argument("query", nargs=-1, type=text)
@click.option("--entity", type=text, help="Only facts about this.")
@click.option("--all", "every", is_flag=True, help="Also facts about entities that start with __.")
@click.option("--top-k", type=click.IntRange(min=1), help=f"At most so many, up to {MOST}.  [default: {USUAL}]")
@click.option("--token-budget", type=click.IntRange(min=1), help="At most so many estimated tokens of values.")
@as_json_option
@pass_api
def get(
    api: Api,
    *,
    query: tuple[str, ...],
    entity: str | None,
    every: bool,
    top_k: int | None,
    token_budget: int | None,
    as_json: bool,
) -> None:
    """Find facts that contain any word of QUERY, the best first; without QUERY, the best 10 of all.

    Facts about entities that start with __, such as the daemon's own guidance, are left out and counted, unless --all,
    --entity or --json asks for them.

    Options such as --token and --url stand before get: crux facts --url URL get QUERY.
    """
    whole = every or as_json or entity is not None
    # The daemon cannot leave facts out: it is asked for more than will be shown.
    wanted = {
        "query": " ".join(query) or None,
        "entity": entity,
        "top_k": top_k if whole else MOST,
        "token_budget": token_budget,
    }
    answer = api.call("GET", _FACTS, params={name: value for name, value in wanted.items() if value is not None})
    if as_json:
        show.document(answer)
        return
    found = api.read(Facts, answer).facts
    shown = found if whole else [fact for fact in found if not fact.entity.startswith("__")]
    for fact in shown if whole else shown[: top_k or USUAL]:
        _title(fact)
        _body(fact)
    if not shown:
        click.echo("no facts found", err=True)
    if left_out := len(found) - len(shown):
        click.echo(f"left out {left_out} about entities that start with __; --all shows them", err=True)


@facts.command(short_help="Store a value.")
@click.argument("entity", type=text)
@click.argument("key", type=text)
@click.argument("value", type=text)
@click.option("--confidence", type=Share(), help="How sure it is, 0 to 1.  [default: 1]")
@click.option("--source-receipt", metavar="ID", type=text, help="Receipt of where it comes from.")
@click.option(
    "--horizon",
    type=click.Choice([horizon.value for horizon in Horizon], case_sensitive=False),
    help="How fast it goes stale.",
)
@as_json_option
@pass_api
def put(
    api: Api,
    *,
    entity: str,
    key: str,
    value: str,
    confidence: float | None,
    source_receipt: str | None,
    horizon: str | None,
    as_json: bool,
) -> None:
    """Store VALUE as the KEY of ENTITY; an earlier value becomes history.

    VALUE - is read from standard input, without its last newline. Put -- before a value that starts with a dash.
    """
    draft = {
        "entity": entity,
        "key": key,
        "value": _standard_input() if value == "-" else value,
        "confidence": confidence,
        "source_receipt": source_receipt,
        "horizon_class": horizon,
    }
    answer = api.call("PUT", _FACTS, body={name: member for name, member in draft.items() if member is not None})
    if as_json:
        show.document(answer)
        return
    fact = api.read(Fact, answer)
    click.echo(f"stored version {fact.version} of {safe(f'{fact.entity} {fact.key}')}, id {fact.fact_id}")


@facts.command(short_help="Show every version, oldest first.")
@click.argument("entity", type=text)
@click.argument("key", type=text, required=False)
@as_json_option
@pass_api
def history(api: Api, entity: str, key: str | None, as_json: bool) -> None:
    """Show every version of the facts about ENTITY, or of its KEY alone, oldest first; deleted ones are gone."""
    answer = api.call("GET", f"{_FACTS}/entity/{quote(entity, safe='')}")
    if as_json:
        raw = api.read(RawFacts, answer).facts
        show.document({"facts": [fact for fact in raw if key in (None, api.read(Fact, fact).key)]})
        return
    chains: dict[tuple[str, str], list[Fact]] = {}
    for fact in api.read(Facts, answer).facts:
        if key in (None, fact.key):
            chains.setdefault((fact.entity, fact.key), []).append(fact)
    for versions in chains.values():
        _title(versions[0])
        for fact in versions:
            _body(fact, "current" if fact.superseded_by is None else f"replaced by {fact.superseded_by}")
    if not chains:
        click.echo("no facts found", err=True)


@facts.command(short_help="Delete one version by its id.")
@click.argument("fact_id", type=text)
@as_json_option
@pass_api
def delete(api: Api, fact_id: str, as_json: bool) -> None:
    """Delete one version by its id. An earlier one does not take its place."""
    answer = api.call("DELETE", f"{_FACTS}/{quote(fact_id, safe='')}")
    if as_json:
        show.document(answer)
    else:
        click.echo(f"deleted {safe(fact_id)}")


def _title(fact: Fact) -> None:
    click.secho(safe(f"{fact.entity}  {fact.key}"), bold=True)


def _body(fact: Fact, state: str | None = None) -> None:
    """The value, and what else there is to know, under the title."""
    for line in safe(fact.value).split("\n"):
        click.echo(f"    {line}")
    known = [
        f"version {fact.version}",
        *([state] if state else []),
        f"confidence {fact.confidence:g}",
        f"stored {fact.stored_at}",
        f"id {fact.fact_id}",
    ]
    click.secho(f"    {safe(', '.join(known))}", dim=True)


def _standard_input() -> str:
    content = standard_input().read()
    try:
        return content.decode().removesuffix("\n")
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"standard input is not UTF-8 text (byte {error.start})", param_hint="VALUE") from None


facts.add_command(export)
facts.add_command(import_)
