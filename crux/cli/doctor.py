"""`crux doctor`."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import click
from rich.text import Text

from crux.cli import show
from crux.cli.checks import HERE, OF_SITE, Finding, Verdict, fail, ok, survey, warn
from crux.cli.client import Credentials, credential_options
from crux.config import load
from crux.errors import CruxError

_COLOURS = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red"}

Findings = Iterator[tuple[str, Finding]]


@click.command()
@credential_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def doctor(context: click.Context, token: str | None, scopes: str | None, passport: str | None, as_json: bool) -> None:
    """Check this installation, and the daemon where one runs; say what is wrong and how to mend it.

    Changes nothing but a probe: a session state called doctor-probe in the running daemon, or a temporary file in the
    data directory. Run it with the daemon's environment. Exits 1 when a check fails.
    """
    findings = dict(examine(os.environ, Path.home(), Credentials(token, scopes, passport)))
    failed = any(finding.verdict is Verdict.FAIL for finding in findings.values())
    if as_json:
        show.document({"ok": not failed, "checks": [_plain(name, finding) for name, finding in findings.items()]})
    else:
        show.table(("Check", "", "Found"), [_row(name, finding) for name, finding in findings.items()])
    context.exit(int(failed))


def examine(environ: Mapping[str, str], home: Path, credentials: Credentials) -> Findings:
    """Every check's name and finding, in order; only those that need no settings where these do not load."""
    for name, check in HERE.items():
        yield name, attempt(check)
    try:
        loaded = load(environ, home=home)
    except CruxError as error:
        yield "settings", fail(f"{error.message}; the checks that need the settings were left out")
        return
    read = f"read {loaded.file}" if loaded.file else "no file"
    yield "settings", warn("; ".join(loaded.warnings)) if loaded.warnings else ok(f"{read}; crux config shows them")
    site = survey(loaded.settings, credentials)
    for name, of_site in OF_SITE.items():
        yield name, attempt(of_site, site)


def attempt(check: Callable[..., Finding], *site: object) -> Finding:
    """What `check` finds; a refusal, or what the system does not let it do, is a finding as well."""
    try:
        return check(*site)
    except CruxError as error:
        return fail(error.message)
    except OSError as error:
        return fail(f"{error.strerror}: {error.filename}")


def _plain(name: str, finding: Finding) -> dict[str, str]:
    return {"check": name, "verdict": finding.verdict.value, "text": finding.text, "mend": finding.mend}


def _row(name: str, finding: Finding) -> tuple[str, Text, str]:
    mend = f"\n→ {finding.mend}" if finding.mend else ""
    return name, Text(finding.verdict.value, _COLOURS[finding.verdict]), finding.text + mend
