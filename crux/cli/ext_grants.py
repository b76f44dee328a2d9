"""`crux ext grant`, `grants` and `revoke`: who may call an extension, and what it may write for them."""

from __future__ import annotations

import click
import msgspec

from crux.cli import show
from crux.cli.client import Api, Refused, pass_api
from crux.cli.ext_wire import as_json_option, at, path_of
from crux.cli.inputs import text
from crux.cli.text import safe
from crux.domain.extensions import ExtensionGrant
from crux.domain.grants import MOST_RATE


class Grants(msgspec.Struct):
    """All grants of one extension."""

    grants: list[ExtensionGrant]


@click.command(short_help="Let a passport call it.")
@click.argument("extension_id", metavar="ID", type=text)
@click.argument("passport", type=text)
@click.option("--tool", "tools", metavar="NAME", type=text, multiple=True, help="Only this tool; may be repeated.")
@click.option("--write", metavar="PREFIX", type=text, multiple=True, help="Keep fact writes under this; repeatable.")
@click.option("--read", metavar="PREFIX", type=text, multiple=True, help="For modules of the kind wasm; repeatable.")
@click.option("--rate", type=click.IntRange(0, MOST_RATE), help="Calls a minute.  [default: the daemon's, 10]")
@as_json_option
@pass_api
def grant(
    api: Api,
    *,
    extension_id: str,
    passport: str,
    tools: tuple[str, ...],
    write: tuple[str, ...],
    read: tuple[str, ...],
    rate: int | None,
    as_json: bool,
) -> None:
    """Let PASSPORT call the extension ID: over MCP that is the agent's name, such as alice.

    Without --tool it may call every tool; without --write no fact write is kept. An entity is covered when it starts
    with the prefix, letter by letter: end a prefix with :: to stay inside one namespace.

    A grant is not changed: revoke it and give another.
    """
    wanted = {
        "passport_fpr": passport,
        "allowed_tool_names": tools,
        "allowed_prefixes_write": write,
        "allowed_prefixes_read": read,
        "rate_limit_per_min": rate,
    }
    body = {name: value for name, value in wanted.items() if value not in (None, ())}
    answer = api.call("POST", f"{path_of(extension_id)}/grants", body=body)
    if as_json:
        show.document(answer)
    else:
        given = api.read(ExtensionGrant, answer)
        click.echo(safe(f"granted {given.extension_id} to {given.passport_fpr}: {terms(given)}"))
    for prefix in (*write, *read):
        if not prefix.endswith("::"):
            click.echo(safe(f"the prefix {prefix} also covers {prefix}x; end it with :: to stay inside it"), err=True)


@click.command(short_help="List who may call it.")
@click.argument("extension_id", metavar="ID", type=text)
@as_json_option
@pass_api
def grants(api: Api, *, extension_id: str, as_json: bool) -> None:
    """List who may call the extension ID."""
    answer = api.call("GET", f"{path_of(extension_id)}/grants")
    if as_json:
        show.document(answer)
        return
    rows = [
        (
            each.passport_fpr,
            ", ".join(each.allowed_tool_names) or "all",
            ", ".join(each.allowed_prefixes_write) or "none",
            ", ".join(each.allowed_prefixes_read) or "none",
            "default" if each.rate_limit_per_min is None else str(each.rate_limit_per_min),
            at(each.granted_at_unix_ms),
            each.granted_by_passport or "",
        )
        for each in api.read(Grants, answer).grants
    ]
    if rows:
        show.table(("passport", "tools", "writes", "reads", "calls a minute", "granted", "by"), rows)
    else:
        click.echo(safe(f"nobody may call {extension_id}"), err=True)


@click.command(short_help="Take a grant back.")
@click.argument("extension_id", metavar="ID", type=text)
@click.argument("passport", type=text)
@as_json_option
@pass_api
def revoke(api: Api, *, extension_id: str, passport: str, as_json: bool) -> None:
    """Take the grant of PASSPORT back; it ends with the next call. Facts that were written stay."""
    listed = api.read(Grants, api.call("GET", f"{path_of(extension_id)}/grants")).grants
    ended = next((each for each in listed if each.passport_fpr == passport), None)
    if ended is None:
        raise Refused(f"{passport} has no grant for {extension_id}; crux ext grants {extension_id} lists who has", 404)
    api.call("DELETE", f"{path_of(extension_id)}/grants/{path_of(passport, '')}")
    if as_json:
        show.document({"revoked": True, "grant": ended})
    else:
        click.echo(safe(f"ended the grant of {passport} for {extension_id}: {terms(ended)}"))


def terms(given: ExtensionGrant) -> str:
    """What a grant allows, in one line."""
    rate = given.rate_limit_per_min
    return "; ".join(
        (
            f"tools: {', '.join(given.allowed_tool_names) or 'all'}",
            f"fact writes: {', '.join(given.allowed_prefixes_write) or 'none'}",
            *([f"reads: {', '.join(given.allowed_prefixes_read)}"] if given.allowed_prefixes_read else []),
            "the daemon's default rate" if rate is None else f"{rate} calls a minute",
        )
    )
