"""The programs that run agents: where each keeps its list of MCP servers, and how an entry of it looks."""

import os
import sys
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path

from attrs import frozen

from crux.cli.mcp_stdio import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE

Entry = dict[str, object]


class Place(Enum):
    """Folders that every platform has, somewhere else."""

    HOME = "home"
    APPLICATIONS = "applications"

    def folder(self, platform: str, environ: Mapping[str, str], home: Path) -> Path:
        """The folder; `platform` as `sys.platform` names it."""
        if self is Place.HOME:
            return home
        if platform == "darwin":
            return home / "Library" / "Application Support"
        if platform == "win32":
            return Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
        return Path(environ.get("XDG_CONFIG_HOME") or home / ".config")


def http_entry(address: str = "url", *, kind: str | None = "http") -> Callable[[str, str | None], Entry]:
    """An entry for a host that speaks Streamable HTTP: `address` names the URL's member, `kind` goes into `type`."""

    def entry(url: str, token: str | None) -> Entry:
        return {
            **({} if kind is None else {"type": kind}),
            address: url,
            **({} if token is None else {"headers": {"Authorization": f"Bearer {token}"}}),
        }

    return entry


def stdio_entry(url: str, token: str | None) -> Entry:
    """An entry for a host that starts a command: the bridge, by its full path, since hosts have a PATH of their own."""
    command, *args = _program()
    environ = {
        **({} if url == DEFAULT_URL else {URL_VARIABLE: url}),
        **({} if token is None else {TOKEN_VARIABLE: token}),
    }
    return {"command": command, "args": [*args, "mcp-stdio"], **({"env": environ} if environ else {})}


def _program() -> list[str]:
    """How this installation's `crux` is started."""
    script = Path(sys.executable).with_name("crux.exe" if sys.platform == "win32" else "crux")
    return [str(script)] if script.is_file() else [sys.executable, "-m", "crux"]


@frozen
class Host:
    """One program. `path` is its file below `place`, None where no file is known; `section` holds its servers."""

    title: str
    entry: Callable[[str, str | None], Entry]
    place: Place = Place.HOME
    path: str | None = None
    section: str = "mcpServers"

    def file(self) -> Path | None:
        """The file of the user who runs this, or None."""
        if self.path is None:
            return None
        return self.place.folder(sys.platform, os.environ, Path.home()) / self.path


HOSTS: Mapping[str, Host] = {
    "claude-desktop": Host("Claude Desktop", stdio_entry, Place.APPLICATIONS, "Claude/claude_desktop_config.json"),
    "claude-code": Host("Claude Code", http_entry(), path=".claude.json"),
    "cursor": Host("Cursor", http_entry(kind=None), path=".cursor/mcp.json"),
    "vscode": Host("VS Code", http_entry(), Place.APPLICATIONS, "Code/User/mcp.json", section="servers"),
    "windsurf": Host("Windsurf", http_entry("serverUrl", kind=None), path=".codeium/windsurf/mcp_config.json"),
    "generic-http": Host("any client of Streamable HTTP", http_entry()),
    "generic-stdio": Host("any client that starts a command", stdio_entry),
}
