"""`crux ext`: external tools, from the manifest to the audit trail, for people and scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO

import click
import msgspec

from crux.cli import show
from crux.cli.client import Api, Credentials, Target, credential_options, pass_api, url_option
from crux.cli.ext_grants import Grants, grant, grants, revoke, terms
from crux.cli.ext_keys import keygen, keys, sign
from crux.cli.ext_manifests import json_in, manifest_in, validate
from crux.cli.ext_wire import EXTENSIONS, as_json_option, at, path_of
from crux.cli.inputs import InputFile, standard_input, text
from crux.cli.text import one_line, safe
from crux.errors import InvalidArgument

# The audit trail is a part of this answer (extensions contract 12).
_AUDIT = "/v1/console/integrations"


class Tool(msgspec.Struct):
    """A tool as a manifest declares it."""

    name: str
    description: str


class Entry(msgspec.Struct):
    kind: str


class Network(msgspec.Struct):
    allowed_hosts: list[str] = []


class Manifest(msgspec.Struct):
    """What is shown of a manifest."""

    id: str
    name: str
    version: str
    publisher_passport_fpr: str
    entry: Entry
    summary: str = ""
    network: Network = msgspec.field(default_factory=Network)
    tools: list[Tool] = []
    external_tool_endpoint: str | None = None


class Installed(msgspec.Struct):
    """An extension as the HTTP API gives it."""

    manifest: Manifest
    manifest_hash: str
    trust_tier: str
    installed_at_unix_ms: int
    installed_by_passport: str | None = None


class Extensions(msgspec.Struct):
    """The list of them; `allow_unsigned_dev` is the daemon's switch for manifests without a signature."""

    extensions: list[Installed]
    allow_unsigned_dev: bool = False


class Outcome(msgspec.Struct):
    """What came of a call."""

    result: msgspec.Raw
    request_id: str
    elapsed_ms: int
    accepted_fact_writes: int = 0
    dropped_fact_writes: int = 0
    drop_reasons: list[str] = []


class Event(msgspec.Struct):
    """One line of the audit trail."""

    ts_unix_ms: int
    action: str
    pack_id: str
    actor: str = "operator"
    detail: dict[str, object] = {}


class Trail(msgspec.Struct):
    audit_tail: list[Event]


@click.group()
@url_option
@credential_options
@click.pass_context
def ext(context: click.Context, url: str | None, token: str | None, scopes: str | None, passport: str | None) -> None:
    """Install external tools and say who may call them.

    A manifest is validated, installed, and granted to a passport; only then does an agent of that name see its tools.
    validate, keygen and sign need no daemon.
    """
    context.obj = Target(url, Credentials(token, scopes, passport))


@ext.command(short_help="Install the extension of a manifest.")
@click.argument("file", type=InputFile())
@as_json_option
@pass_api
def install(api: Api, *, file: IO[bytes], as_json: bool) -> None:
    """Install the extension whose manifest is in FILE; - is standard input. Nobody can call it before a grant."""
    answer = api.call("POST", f"{EXTENSIONS}/register", body={"manifest": manifest_in(file)})
    if as_json:
        show.document(answer)
        return
    installed = api.read(Installed, answer)
    manifest = installed.manifest
    click.echo(f"installed {one_line(_title(manifest))}, trust {installed.trust_tier}, {installed.manifest_hash}")
    click.echo(f"nobody can call it yet: crux ext grant {safe(manifest.id)} PASSPORT", err=True)


@ext.command("list", short_help="List what is installed.")
@as_json_option
@pass_api
def list_(api: Api, *, as_json: bool) -> None:
    """List what is installed. An endpoint is not covered by the signature, so it is shown."""
    answer = api.call("GET", EXTENSIONS)
    if as_json:
        show.document(answer)
        return
    found = api.read(Extensions, answer)
    rows = [
        (
            each.manifest.id,
            each.manifest.version,
            each.manifest.entry.kind,
            each.trust_tier,
            str(len(each.manifest.tools)),
            each.manifest.external_tool_endpoint or "",
            at(each.installed_at_unix_ms),
        )
        for each in found.extensions
    ]
    if rows:
        show.table(("id", "version", "kind", "trust", "tools", "endpoint", "installed"), rows)
    else:
        click.echo("nothing is installed", err=True)
    if found.allow_unsigned_dev:
        click.echo("manifests without a signature are let in (CORECRUXD_EXTENSIONS_ALLOW_UNSIGNED)", err=True)


@ext.command("show", short_help="Show one extension and its tools.")
@click.argument("extension_id", metavar="ID", type=text)
@as_json_option
@pass_api
def show_(api: Api, *, extension_id: str, as_json: bool) -> None:
    """Show one extension and its tools."""
    answer = api.call("GET", path_of(extension_id))
    if as_json:
        show.document(answer)
        return
    installed = api.read(Installed, answer)
    manifest = installed.manifest
    click.secho(one_line(f"{_title(manifest)}  {manifest.name}"), bold=True)
    by = f" by {installed.installed_by_passport}" if installed.installed_by_passport else ""
    lines = {
        "summary": manifest.summary,
        "kind": manifest.entry.kind,
        "publisher": manifest.publisher_passport_fpr,
        "trust": installed.trust_tier,
        "hash": installed.manifest_hash,
        "endpoint": manifest.external_tool_endpoint,
        "hosts": ", ".join(manifest.network.allowed_hosts) or "any",
        "installed": f"{at(installed.installed_at_unix_ms)}{by}",
    }
    for name, value in lines.items():
        if value:
            click.echo(f"    {name:<10}{one_line(value)}")
    for tool in manifest.tools:
        click.echo(f"    {'tool':<10}{one_line(f'{tool.name}: {tool.description}')}")


@ext.command(short_help="Remove an extension and its grants.")
@click.argument("extension_id", metavar="ID", type=text)
@as_json_option
@pass_api
def remove(api: Api, *, extension_id: str, as_json: bool) -> None:
    """Remove an extension and end its grants. Installing it again brings none of them back."""
    # A removal has no answer, so that what it ends is asked for first.
    installed = api.read(Installed, api.call("GET", path_of(extension_id)))
    ended = api.read(Grants, api.call("GET", f"{path_of(extension_id)}/grants")).grants
    api.call("DELETE", path_of(extension_id))
    if as_json:
        show.document({"extension_id": extension_id, "removed": True, "grants_ended": ended})
        return
    click.echo(f"removed {one_line(_title(installed.manifest))}")
    for each in ended:
        click.echo(f"ended the grant of {one_line(each.passport_fpr)}: {one_line(terms(each))}")


@ext.command(short_help="Call a tool.")
@click.argument("extension_id", metavar="ID", type=text)
@click.argument("tool", type=text)
@click.option("--args", "given", metavar="JSON", type=text, default="{}", help="Its arguments; - is standard input.")
@click.option("--as", "acting", metavar="PASSPORT", type=text, help="Call as this passport, whatever the credential.")
@as_json_option
@pass_api
def invoke(api: Api, *, extension_id: str, tool: str, given: str, acting: str | None, as_json: bool) -> None:
    """Call TOOL of the extension ID, and print its result.

    Who calls is the passport of --as, else of --passport before the command's name, else of the token; it needs a
    grant. What became of the fact writes goes to standard error.
    """
    try:
        arguments = json_in(standard_input().read() if given == "-" else given.encode())
    except InvalidArgument as error:
        raise click.BadParameter(error.message, param_hint="--args") from None
    body = {"args": arguments, **({} if acting is None else {"passport_fpr": acting})}
    answer = api.call("POST", f"{path_of(extension_id)}/tools/{path_of(tool, '')}/invoke", body=body)
    if as_json:
        show.document(answer)
        return
    outcome = api.read(Outcome, answer)
    click.echo(safe(msgspec.json.format(bytes(outcome.result), indent=2).decode()))
    kept, dropped = outcome.accepted_fact_writes, outcome.dropped_fact_writes
    click.echo(
        f"kept {kept} fact writes, dropped {dropped}; {outcome.elapsed_ms} ms, {safe(outcome.request_id)}", err=True
    )
    for reason in outcome.drop_reasons:
        click.echo(f"dropped: {one_line(reason)}", err=True)


@ext.command(short_help="Show the newest lines of the audit trail.")
@as_json_option
@pass_api
def audit(api: Api, *, as_json: bool) -> None:
    """Show the newest lines of the audit trail, the newest last.

    One extension writes at most 60 lines about calls in a minute; where more came, one line audit_suppressed says so.
    """
    answer = api.call("GET", _AUDIT)
    if as_json:
        show.document(answer)
        return
    rows = [
        (
            at(event.ts_unix_ms),
            event.action.removeprefix("extension_"),
            event.pack_id,
            event.actor,
            one_line(_about(event.detail)),
        )
        for event in api.read(Trail, answer).audit_tail
    ]
    if rows:
        show.table(("time", "event", "extension", "actor", "detail"), rows)
    else:
        click.echo("the audit trail is empty", err=True)


def _about(detail: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {_brief(value)}" for name, value in detail.items() if value not in (None, []))


def _brief(value: object) -> str:
    """A value of an event's detail, in a word or a few."""
    match value:
        case str():
            return value
        case list():
            return " ".join(map(_brief, value))
        case _:
            return msgspec.json.encode(value).decode()


def _title(manifest: Manifest) -> str:
    return f"{manifest.id} {manifest.version}"


for command in (validate, grant, grants, revoke, keys, keygen, sign):
    ext.add_command(command)
