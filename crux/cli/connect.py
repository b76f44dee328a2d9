"""`crux connect`: the entry that makes an agent's program use this daemon."""

import os
import re
from pathlib import Path

import click
import msgspec

from crux.cli.client import authority
from crux.cli.export import replacing
from crux.cli.hosts import HOSTS, Host
from crux.cli.mcp_stdio import TOKEN_VARIABLE, URL_VARIABLE, agent_token, mcp_address
from crux.config import load
from crux.errors import Conflict, CruxError, InvalidArgument

NAME = "crux"

_INDENT = re.compile(rb"\n( +)\"")


@click.command()
@click.argument("client", type=click.Choice(list(HOSTS)))
@click.option("--print", "only_print", is_flag=True, help="Show the JSON to paste, and change nothing.")
@click.option("--url", help=f"Address of MCP.  [default: {URL_VARIABLE}, else where the settings put it]")
@click.option(
    "--with-token",
    is_flag=True,
    help=f"Put the token of {TOKEN_VARIABLE} into the entry; only you can read the file then.",
)
@click.option("--force", is_flag=True, help=f'Replace a "{NAME}" entry that is another one.')
def connect(client: str, only_print: bool, url: str | None, with_token: bool, force: bool) -> None:
    """Add this daemon to the MCP servers of CLIENT, in its configuration file, and leave all else in there alone.

    The earlier file is kept beside it as .bak. Close the client first: some write their file when they end.
    """
    host = HOSTS[client]
    token = _token() if with_token else None
    entry = host.entry(_address(url), token)
    file = host.file()
    if only_print or file is None:
        click.echo(msgspec.json.format(msgspec.json.encode({host.section: {NAME: entry}}), indent=2).decode())
        click.echo(f"paste it into {file or 'the configuration of your client'}", err=True)
    else:
        click.echo(_connect(host, file, entry, force=force, secret=token is not None))
    if token is None:
        click.echo(f"no token is in it; where agents have tokens, set {TOKEN_VARIABLE} and add --with-token", err=True)


def _connect(host: Host, file: Path, entry: dict[str, object], *, force: bool, secret: bool) -> str:
    """Put `entry` into `file`, which becomes the user's alone where it is `secret`; returns what was done.

    Raises `CruxError` where that cannot be done safely.
    """
    before = _content(host, file)
    try:
        after = merged(before, host.section, entry, force=force)
    except CruxError as error:
        raise type(error)(f"{file}: {error.message}; nothing was changed") from None
    if after is None:
        return f"{host.title} is connected already: {file}"
    mode = file.stat().st_mode & 0o777 if before is not None and not secret else 0o600
    backup = file.with_name(f"{file.name}.bak")
    if before is not None:
        _write(backup, before, 0o600)  # it may hold tokens, of an earlier entry or of other servers
    _write(file, after, mode)
    kept = "" if before is None else f", the earlier one is {backup}"
    return f"{host.title} is connected: {file}{kept}; restart it to take effect"


def merged(content: bytes | None, section: str, entry: dict[str, object], *, force: bool) -> bytes | None:
    """A configuration with `entry` among the servers in `section`, or None where it is there already.

    Everything else keeps its order and its very bytes, except for blanks between them. Raises `InvalidArgument` for
    what is no JSON object of JSON objects, and `Conflict` for another entry of our name, unless `force` is set.
    """
    members = _members(content, "the file") if content and content.strip() else {}
    servers = _members(members[section], f'"{section}"') if section in members else {}
    if NAME in servers:
        if msgspec.json.decode(servers[NAME]) == entry:
            return None
        if not force:
            raise Conflict(f'it has another "{NAME}" entry, which --force replaces')
    servers[NAME] = msgspec.Raw(msgspec.json.encode(entry))
    members[section] = msgspec.Raw(msgspec.json.encode(servers))
    indent = _INDENT.search(content or b"")
    width = len(indent[1]) if indent else 2
    return msgspec.json.format(msgspec.json.encode(members), indent=width) + b"\n"


def _members(content: bytes | msgspec.Raw, what: str) -> dict[str, msgspec.Raw]:
    try:
        # The whole is read first: parts that stay raw are not looked at closely.
        msgspec.json.decode(content)
        return msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        raise InvalidArgument(f"{what} is not a JSON object") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument(
            f"{what} is not valid JSON ({error}): comments and trailing commas are not read here; "
            "--print shows the entry to paste"
        ) from None


def _content(host: Host, file: Path) -> bytes | None:
    """What is in the file, None where there is none."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        if file.parent.is_dir():
            return None
        raise CruxError(
            f"{file.parent} does not exist: is {host.title} installed? --print shows the entry to put elsewhere"
        ) from None
    except OSError as error:
        raise CruxError(f"{file} cannot be read: {error.strerror}") from error


def _write(file: Path, content: bytes, mode: int) -> None:
    with replacing(file) as draft:
        Path(draft.name).chmod(mode)
        draft.write(content)


def _address(url: str | None) -> str:
    if not (found := url or os.environ.get(URL_VARIABLE, "").strip()):
        settings = load(os.environ, home=Path.home()).settings
        if not settings.mcp_port:
            raise CruxError("CORECRUXD_MCP_PORT is 0, so that the address changes: pass --url")
        found = f"http://{authority(settings.mcp_host, settings.mcp_port)}/mcp"
    return mcp_address(found)


def _token() -> str:
    if (token := agent_token()) is None:
        raise CruxError(f"--with-token takes the token from {TOKEN_VARIABLE}, which is not set")
    return token
