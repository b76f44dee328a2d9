import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from crux.cli.connect import merged
from crux.cli.hosts import HOSTS, Place
from crux.errors import CruxError
from tests.unit.cli.conftest import Cli

README = Path(__file__).parents[3] / "README.md"
PORT_HTTP = {"type": "http", "url": "http://127.0.0.1:14801/mcp"}
TOKEN = "a-token-of-32-characters-or-more!"


@pytest.fixture
def file(cli: Cli) -> Path:
    """Cursor's file, in the folder that Cursor makes."""
    path = cli.home / ".cursor/mcp.json"
    path.parent.mkdir()
    return path


def shown(cli: Cli, client: str, *args: str, **environ: str) -> Any:
    result = cli("connect", client, "--print", *args, **environ)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def readme_entries() -> dict[str, Any]:
    """Each client's JSON in the README: an indented object, below a paragraph that names the clients it is for."""
    section = README.read_text().partition("## Connect an agent")[2].partition("\n## ")[0]
    found: dict[str, Any] = {}
    names: list[str] = []
    for paragraph in section.split("\n\n"):
        if paragraph.startswith("    {"):
            found |= dict.fromkeys(names, json.loads(paragraph))
        names = [name for name in re.findall("`([a-z-]+)`", paragraph) if name in HOSTS]
    return found


@pytest.mark.parametrize("client", HOSTS)
def test_the_readme_shows_what_is_printed(client: str, cli: Cli) -> None:
    printed = shown(cli, client)
    server = printed[HOSTS[client].section]["crux"]
    if "command" in server:
        assert Path(server["command"]).is_absolute()
        server["command"] = "/path/to/crux/.venv/bin/crux"
    assert readme_entries()[client] == printed


def test_printing_says_where_it_belongs_and_changes_nothing(cli: Cli, file: Path) -> None:
    result = cli("connect", "cursor", "--print")
    assert f"paste it into {file}\n" in result.stderr
    assert list(file.parent.iterdir()) == []


@pytest.mark.parametrize("client", ["generic-http", "generic-stdio"])
def test_a_client_without_a_known_file_is_always_printed(client: str, cli: Cli) -> None:
    result = cli("connect", client)
    assert (result.exit_code, result.stdout) == (0, cli("connect", client, "--print").stdout)


@pytest.mark.parametrize(
    ("args", "environ", "url"),
    [
        (["--url", "https://crux.example/mcp"], {"CRUX_MCP_URL": "http://other/mcp"}, "https://crux.example/mcp"),
        ([], {"CRUX_MCP_URL": "http://other/mcp", "CORECRUXD_MCP_PORT": "7"}, "http://other/mcp"),
        ([], {"CORECRUXD_MCP_PORT": "7"}, "http://127.0.0.1:7/mcp"),
    ],
)
def test_the_address_is_the_option_the_variable_or_the_settings(
    args: list[str], environ: dict[str, str], url: str, cli: Cli
) -> None:
    assert shown(cli, "generic-http", *args, **environ)["mcpServers"]["crux"]["url"] == url
    assert shown(cli, "generic-stdio", *args, **environ)["mcpServers"]["crux"]["env"] == {"CRUX_MCP_URL": url}


@pytest.mark.parametrize("url", ["localhost:14801", "ftp://host/mcp", "http://user:secret@host/mcp", "http://host:x"])
def test_an_address_that_cannot_be_used_is_refused_unshown(url: str, cli: Cli) -> None:
    result = cli("connect", "cursor", "--url", url)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "secret" not in result.stderr


def test_a_port_that_changes_needs_an_address(cli: Cli) -> None:
    result = cli("connect", "cursor", CORECRUXD_MCP_PORT="0")
    assert (result.exit_code, "pass --url" in result.stderr) == (1, True)


def test_a_token_is_written_only_when_asked_for(cli: Cli, file: Path) -> None:
    assert "--with-token" in cli("connect", "cursor", CRUX_AGENT_TOKEN=TOKEN).stderr
    assert TOKEN not in file.read_text()
    file.chmod(0o644)
    result = cli("connect", "cursor", "--with-token", "--force", CRUX_AGENT_TOKEN=TOKEN)
    assert file.stat().st_mode & 0o777 == 0o600
    assert (result.exit_code, result.stderr) == (0, "")
    assert json.loads(file.read_text())["mcpServers"]["crux"]["headers"] == {"Authorization": f"Bearer {TOKEN}"}
    bridge = shown(cli, "claude-desktop", "--with-token", CRUX_AGENT_TOKEN=TOKEN)["mcpServers"]["crux"]
    assert bridge["env"] == {"CRUX_AGENT_TOKEN": TOKEN}


@pytest.mark.parametrize("token", ["", " ", "two words of it", "schlüssel"])
def test_a_token_that_is_none_is_refused(token: str, cli: Cli, file: Path) -> None:
    assert cli("connect", "cursor", "--with-token", CRUX_AGENT_TOKEN=token).exit_code == 1
    assert not file.exists()


@pytest.mark.parametrize("content", [None, "", " \n", "{}"])
def test_a_file_without_servers_gets_one(content: str | None, cli: Cli, file: Path) -> None:
    if content is not None:
        file.write_text(content)
    result = cli("connect", "cursor")
    assert result.stdout.startswith(f"Cursor is connected: {file}")
    assert json.loads(file.read_text()) == {"mcpServers": {"crux": {"url": PORT_HTTP["url"]}}}
    if content is None:
        assert [entry.name for entry in file.parent.iterdir()] == ["mcp.json"]
        assert file.stat().st_mode & 0o777 == 0o600


def test_everything_else_stays_as_it_was(cli: Cli, file: Path) -> None:
    before = '{\n    "é": 1.50e2, "big": 123456789012345678901234567890,\n    "mcpServers": {"z": {"command": "\\u007a", "env": {}}},\n    "a": [null]\n}'
    file.write_text(before)
    file.chmod(0o640)
    assert cli("connect", "cursor").exit_code == 0
    entry = '"crux": {\n            "url": "http://127.0.0.1:14801/mcp"\n        }'
    assert file.read_text() == (
        '{\n    "é": 1.50e2,\n    "big": 123456789012345678901234567890,\n    "mcpServers": {\n        "z": {\n'
        f'            "command": "\\u007a",\n            "env": {{}}\n        }},\n        {entry}\n    }},\n'
        '    "a": [\n        null\n    ]\n}\n'
    )
    backup = file.with_name("mcp.json.bak")
    assert backup.read_text() == before
    assert [path.stat().st_mode & 0o777 for path in (file, backup)] == [0o640, 0o600], "the copy may hold tokens"
    assert len(list(file.parent.iterdir())) == 2


def test_connecting_twice_changes_nothing(cli: Cli, file: Path) -> None:
    cli("connect", "cursor")
    before = file.stat().st_mtime_ns
    result = cli("connect", "cursor")
    assert (result.exit_code, result.stdout) == (0, f"Cursor is connected already: {file}\n")
    assert file.stat().st_mtime_ns == before
    assert not file.with_name("mcp.json.bak").exists()


def test_another_entry_of_the_name_is_replaced_by_force_alone(cli: Cli, file: Path) -> None:
    before = '{"mcpServers": {"crux": {"command": "mine"}, "b": 1}}'
    file.write_text(before)
    result = cli("connect", "cursor")
    assert (result.exit_code, "--force" in result.stderr, file.read_text()) == (1, True, before)
    assert cli("connect", "cursor", "--force").exit_code == 0
    assert json.loads(file.read_text()) == {"mcpServers": {"crux": {"url": PORT_HTTP["url"]}, "b": 1}}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{// a comment\n}", "the file is not valid JSON"),
        (b'{"a": 1', "the file is not valid JSON"),
        (b'{"a": "\xff"}', "the file is not valid JSON"),
        (b"[" * 10_000, "the file is not valid JSON"),
        (b"[]", "the file is not a JSON object"),
        (b'{"mcpServers": []}', '"mcpServers" is not a JSON object'),
        (b'{"mcpServers": null}', '"mcpServers" is not a JSON object'),
    ],
)
def test_a_file_that_is_not_understood_is_left_alone(content: bytes, said: str, cli: Cli, file: Path) -> None:
    file.write_bytes(content)
    result = cli("connect", "cursor", "--force")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"crux: {file}: {said}")
    assert len(result.stderr.splitlines()) == 1
    assert file.read_bytes() == content
    assert len(list(file.parent.iterdir())) == 1


def test_a_client_that_is_not_there_is_said_so(cli: Cli) -> None:
    result = cli("connect", "cursor")
    assert (result.exit_code, "is Cursor installed?" in result.stderr) == (1, True)


def test_a_file_that_cannot_be_read_is_said_so(cli: Cli, file: Path) -> None:
    file.mkdir()
    result = cli("connect", "cursor")
    assert result.stderr == f"crux: {file} cannot be read: Is a directory\n"


def test_a_merge_without_a_change_is_none() -> None:
    once = merged(None, "servers", {"url": "u"}, force=False)
    assert merged(once, "servers", {"url": "u"}, force=False) is None
    with pytest.raises(CruxError):
        merged(once, "servers", {"url": "v"}, force=False)


@pytest.mark.parametrize(
    ("platform", "environ", "folder"),
    [
        ("linux", {}, "/home/ada/.config"),
        ("linux", {"XDG_CONFIG_HOME": "/elsewhere"}, "/elsewhere"),
        ("darwin", {"XDG_CONFIG_HOME": "/elsewhere"}, "/home/ada/Library/Application Support"),
        ("win32", {}, "/home/ada/AppData/Roaming"),
        ("win32", {"APPDATA": "/roaming"}, "/roaming"),
    ],
)
def test_applications_keep_their_files_where_the_platform_says(
    platform: str, environ: dict[str, str], folder: str
) -> None:
    home = Path("/home/ada")
    assert Place.APPLICATIONS.folder(platform, environ, home) == Path(folder)
    assert Place.HOME.folder(platform, environ, home) == home


def test_a_program_without_a_script_is_started_as_a_module(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    python = str(tmp_path / "python")
    monkeypatch.setattr(sys, "executable", python)
    entry = shown(cli, "generic-stdio")["mcpServers"]["crux"]
    assert entry == {"command": python, "args": ["-m", "crux", "mcp-stdio"]}
