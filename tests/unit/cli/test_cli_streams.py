"""Standard streams that fail or are closed; only a process of its own has such."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from crux.cli.facts import facts
from tests.unit.cli.stub import Stub, fact


def ran(command: str, home: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """What `command`, in the words of the shell, does; `$CRUX` is the program."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CRUX_", "CORECRUX", "XDG_"))}
    environment = {**kept, "HOME": str(home), "PYTHON": sys.executable, "CRUX": "-m crux", **environ}
    line = command.replace("crux ", '"$PYTHON" $CRUX ', 1)
    return subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is of Linux")
@pytest.mark.parametrize(
    "command",
    ["crux version", "crux --help", "crux config", "crux facts --url $URL get", "crux facts --url $URL export"],
)
def test_a_full_device_is_one_line_and_exit_code_1(command: str, stub: Stub, tmp_path: Path) -> None:
    stub.answer("GET /v1/facts", {"facts": [fact()]})
    stub.answer("GET /v1/facts/export", {"facts": [fact()], "has_more": False})
    result = ran(f"{command} >/dev/full", tmp_path, URL=stub.url)
    assert (result.returncode, result.stderr) == (1, "crux: No space left on device\n")


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("crux facts --url $URL export >&-", "standard output is closed"),
        ("crux facts --url $URL import - <&-", "standard input is closed"),
        ("crux facts --url $URL put e k - <&-", "standard input is closed"),
    ],
)
def test_a_closed_stream_is_said_so_and_nothing_is_asked(
    command: str, complaint: str, stub: Stub, tmp_path: Path
) -> None:
    result = ran(command, tmp_path, URL=stub.url)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", f"crux: {complaint}\n")
    assert stub.asked == []


def test_the_list_of_commands_cuts_no_help_short() -> None:
    context = click.Context(facts)
    helps = [facts.commands[name].get_short_help_str(limit=60) for name in facts.list_commands(context)]
    assert [text for text in helps if not text or text.endswith("...")] == []
