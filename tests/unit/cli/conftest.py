import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from crux.cli import main
from tests.unit.cli.stub import Stub, stub_daemon


class Cli:
    """`crux` in this process, in an environment of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def __call__(self, *args: str, stdin: str | bytes | None = None, **environ: str) -> Result:
        result = CliRunner(env={"COLUMNS": "200", **environ}).invoke(main, args, prog_name="crux", input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    for name in os.environ:
        if name.startswith(("CRUX_", "CORECRUX", "XDG_")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    return Cli(home)


@pytest.fixture
def stub() -> Iterator[Stub]:
    with stub_daemon() as stub:
        yield stub
