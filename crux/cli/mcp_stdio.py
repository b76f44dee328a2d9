"""`crux mcp-stdio`."""

import os
import signal

import click
import httpx
import trio

from crux import __version__
from crux.cli.inputs import usable_token
from crux.cli.text import safe
from crux.errors import InvalidArgument
from crux.transport.http_client import HttpTransport
from crux.transport.lines import DescriptorInput, DescriptorOutput
from crux.transport.stdio import Bridge

URL_VARIABLE = "CRUX_MCP_URL"
TOKEN_VARIABLE = "CRUX_AGENT_TOKEN"  # noqa: S105  # its name, not its value
DEFAULT_URL = "http://127.0.0.1:14801/mcp"

_STDIN, _STDOUT = 0, 1


@click.command("mcp-stdio")
def mcp_stdio() -> None:
    """Speak MCP on standard input and output, for clients that start a server by command.

    Every line goes to the running daemon at CRUX_MCP_URL (http://127.0.0.1:14801/mcp unless set), with CRUX_AGENT_TOKEN
    as its bearer token where that is set; the daemon's push messages come back too. Standard output carries JSON-RPC
    alone, everything else goes to standard error. `crux connect` writes the entry that makes a client start this.

    Exit codes: 0 end of input, or nobody reads the output; 1 the input cannot be read, or a variable cannot be used.
    """
    url = mcp_address(os.environ.get(URL_VARIABLE, "").strip() or DEFAULT_URL)
    token = agent_token()
    # It holds nothing that a clean end would save: Ctrl-C ends it at once, as SIGTERM does.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    trio.run(_relay, url, token)


async def _relay(url: str, token: str | None) -> None:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    _note(f"version {__version__}, relaying to {url}")
    # The environment may name a proxy, which would be handed the token and knows nothing of this machine's loopback.
    async with httpx.AsyncClient(headers=headers, trust_env=False, transport=HttpTransport(trust_env=False)) as client:
        await Bridge(url, client, DescriptorInput(_STDIN), DescriptorOutput(_STDOUT), _note).run()


def _note(text: str) -> None:
    click.echo(f"crux mcp-stdio: {safe(' '.join(text.split()))}", err=True)


def mcp_address(url: str) -> str:
    """`url`, where it can be called. Raises `InvalidArgument`; a password is refused, for addresses are shown."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidArgument(f"the address of MCP cannot be used: {error}") from None
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.userinfo:
        raise InvalidArgument(f"the address of MCP must be one such as {DEFAULT_URL}, without user or password")
    return url


def agent_token() -> str | None:
    """What CRUX_AGENT_TOKEN holds, None where it is blank. Raises `InvalidArgument` for what no header can hold."""
    return usable_token(os.environ.get(TOKEN_VARIABLE), TOKEN_VARIABLE)
