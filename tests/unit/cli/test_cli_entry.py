import subprocess
import sys

import click
import pytest

from crux import __version__
from crux.cli import corecruxd, main
from tests.unit.cli.conftest import Cli

COMMANDS = ("serve", "connect", "config", "doctor", "facts", "ingest", "ext", "mcp-stdio", "version")
HEAVY = ("rich", "httpx", "msgspec", "structlog", "trio", "yaml", "asyncio", "sqlite3", "crux.config", "crux.daemon")

CLIENT = ("httpx", "crux.cli.client", "crux.cli.show", "crux.cli.doctor")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_listed_command_is_where_the_list_says(name: str) -> None:
    command = main.get_command(click.Context(main), name)
    assert command is not None
    assert command.name == name
    assert command.help


def test_the_help_lists_the_commands_in_the_order_of_their_use(cli: Cli) -> None:
    listed = cli("--help").stdout.partition("Commands:")[2].split("\n")
    assert (
        [line.split()[0] for line in listed if line.strip()]
        == main.list_commands(click.Context(main))
        == list(COMMANDS)
    )


def test_the_command_line_alone_imports_nothing_heavy() -> None:
    code = f"import crux.cli, sys; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


def test_serving_imports_nothing_that_only_other_commands_need() -> None:
    code = f"import crux.cli.serve, sys; print([name for name in {CLIENT} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_the_version_is_one_line(argument: str, cli: Cli) -> None:
    result = cli(argument)
    assert (result.exit_code, result.stdout) == (0, f"crux {__version__}\n")


@pytest.mark.parametrize(
    "args", [["nonsense"], ["serve", "--port", "1"], ["facts", "put", "entity"], ["facts", "get", "--top-k", "0"]]
)
def test_wrong_usage_exits_with_2(args: list[str], cli: Cli) -> None:
    assert cli(*args).exit_code == 2


def test_python_m_crux_is_the_same_program() -> None:
    ran = subprocess.run([sys.executable, "-m", "crux", "version"], check=True, capture_output=True, text=True)
    assert ran.stdout == f"crux {__version__}\n"


@pytest.mark.parametrize(
    ("given", "taken"), [([], ["serve"]), (["facts", "get"], ["facts", "get"]), (["--help"], ["--help"])]
)
def test_corecruxd_alone_serves_and_with_arguments_is_crux(
    given: list[str], taken: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[list[str], str]] = []
    monkeypatch.setattr(sys, "argv", ["/usr/bin/corecruxd", *given])
    monkeypatch.setattr(main, "main", lambda args, prog_name: calls.append((args, prog_name)))
    corecruxd()
    assert calls == [(taken, "corecruxd")]
