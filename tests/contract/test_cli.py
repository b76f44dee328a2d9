"""The command line and a real daemon, each in a process of its own."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crux import __version__
from crux.storage.sqlite import newest_schema
from tests.daemons import Daemon, NotReady

TOKENS = {"ada": "a" * 32, "ben": "b" * 32}


def crux(daemon: Daemon, *args: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `crux` with the settings that `daemon` was started with, on the ports that it got."""
    ports = {
        "CORECRUXD_HTTP_PORT": daemon.http.rpartition(":")[2],
        "CORECRUXD_MCP_PORT": daemon.mcp.removesuffix("/mcp").rpartition(":")[2],
    }
    return subprocess.run(
        [sys.executable, "-m", "crux", *args],
        env={**daemon.environ, **ports, **environ},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def well(ran: subprocess.CompletedProcess[str]) -> str:
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def checks(ran: subprocess.CompletedProcess[str]) -> dict[str, dict[str, str]]:
    return {check["check"]: check for check in json.loads(ran.stdout)["checks"]}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path) as daemon:
        yield daemon


def test_a_fact_is_stored_found_versioned_and_deleted(daemon: Daemon) -> None:
    assert well(crux(daemon, "facts", "put", "team/a::b c?", "lead", "ada", "--confidence", "0.5")).startswith(
        "stored version 1 of team/a::b c? lead"
    )
    stored = json.loads(well(crux(daemon, "facts", "put", "team/a::b c?", "lead", "-", "--json", stdin="ben\n")))
    assert (stored["value"], stored["version"]) == ("ben", 2)
    assert "    ben\n" in well(crux(daemon, "facts", "get", "lead", "--entity", "team/a::b c?"))
    history = json.loads(well(crux(daemon, "facts", "history", "team/a::b c?", "lead", "--json")))["facts"]
    assert [(fact["value"], fact["confidence"]) for fact in history] == [("ada", 0.5), ("ben", 1.0)]
    assert well(crux(daemon, "facts", "delete", stored["fact_id"])) == f"deleted {stored['fact_id']}\n"
    again = crux(daemon, "facts", "delete", stored["fact_id"])
    assert (again.returncode, again.stderr.startswith("crux: Not Found: ")) == (1, True)


def test_an_export_imported_into_an_empty_daemon_is_the_same_export(daemon: Daemon, tmp_path: Path) -> None:
    lines = [
        json.dumps(
            {"entity": f"e{number % 7}", "key": f"k{number % 3}", "value": f"v{number}", "horizon_class": "stable"}
        )
        for number in range(1200)
    ]
    assert well(crux(daemon, "facts", "import", "-", stdin="\n".join(lines))) == "imported 1200 facts\n"
    file = tmp_path / "facts.jsonl"
    well(crux(daemon, "facts", "export", "-o", str(file)))
    (tmp_path / "other").mkdir()
    with Daemon(tmp_path / "other") as other:
        assert well(crux(other, "facts", "import", str(file))) == "imported 1200 facts\n"
        exported = well(crux(other, "facts", "export")).splitlines()
    assert [decided(line) for line in exported] == [decided(line) for line in file.read_text().splitlines()]


def decided(line: str) -> dict[str, object]:
    fact = json.loads(line)
    return {name: fact[name] for name in ("entity", "key", "value", "version", "confidence", "horizon_class")}


def test_a_fact_that_the_daemon_refuses_keeps_its_whole_batch_out(daemon: Daemon) -> None:
    bad = {"entity": " ", "key": "k", "value": "v"}
    good = {"entity": "e", "key": "k", "value": "v"}
    ran = crux(daemon, "facts", "import", "-", stdin=f"{json.dumps(good)}\n{json.dumps(bad)}\n")
    assert ran.returncode == 1
    assert "storing lines 1 to 2 failed: Bad Request: " in ran.stderr
    assert well(crux(daemon, "facts", "export")) == ""


def test_a_fresh_daemon_shows_none_of_its_own_guidance_unless_asked(daemon: Daemon) -> None:
    ran = crux(daemon, "facts", "get")
    assert well(ran) == ""
    assert "--all shows them" in ran.stderr
    assert "__bootstrap__::" in well(crux(daemon, "facts", "get", "--all"))
    well(crux(daemon, "facts", "put", "team", "lead", "ada"))
    assert well(crux(daemon, "facts", "get")).startswith("team  lead\n")


def test_an_agents_token_acts_as_that_agent(tmp_path: Path) -> None:
    tokens = ",".join(f"{name}:{token}" for name, token in TOKENS.items())
    with Daemon(tmp_path, CRUX_AGENT_TOKENS=tokens) as daemon:
        stored = json.loads(
            well(crux(daemon, "facts", "put", "e", "k", "v", "--json", CORECRUX_LOOPBACK_TOKEN=TOKENS["ada"]))
        )
        assert stored["value"] == "v"
        ran = crux(daemon, "facts", "--passport", "ben", "get", CORECRUX_LOOPBACK_TOKEN=TOKENS["ada"])
        assert (ran.returncode, ran.stderr.startswith("crux: Forbidden: ")) == (1, True)
        assert well(crux(daemon, "doctor", "--json", CORECRUX_LOOPBACK_TOKEN=TOKENS["ada"]))


def test_without_the_scope_the_daemon_refuses(daemon: Daemon) -> None:
    ran = crux(daemon, "facts", "--scopes", "query:read", "put", "e", "k", "v")
    assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 1)
    assert ran.stderr.startswith("crux: Forbidden: this needs one of the scopes facts:write")


def test_the_doctor_passes_a_running_daemon_by_writing_through_it(daemon: Daemon) -> None:
    found = checks(crux(daemon, "doctor", "--json"))
    assert {check["verdict"] for check in found.values()} == {"ok"}
    assert found["http port"]["text"].endswith(f"answered by Crux {__version__}")
    assert found["mcp port"]["text"].endswith(f"answered by Crux {__version__}")
    assert found["write and read"]["text"] == "written and read again over the API"
    assert f"pid {daemon.process.pid}" in found["lock"]["text"]


def test_the_doctor_without_permission_takes_the_daemons_word(daemon: Daemon) -> None:
    found = checks(crux(daemon, "doctor", "--json", "--scopes", "none"))["write and read"]
    assert found["verdict"] == "ok"
    assert "the daemon says that it can write" in found["text"]


def test_the_doctor_reads_what_a_killed_daemon_left_without_touching_it(daemon: Daemon) -> None:
    well(crux(daemon, "facts", "put", "e", "k", "v"))
    daemon.kill()
    before = {entry.name: entry.read_bytes() for entry in daemon.data_dir.iterdir()}
    found = checks(crux(daemon, "doctor", "--json"))
    assert {check["verdict"] for check in found.values()} == {"ok"}
    assert found["database"]["text"] == f"schema {newest_schema()}, integrity ok"
    assert {entry.name: entry.read_bytes() for entry in daemon.data_dir.iterdir()} == before
    daemon.restart()
    assert "    v\n" in well(crux(daemon, "facts", "get", "--entity", "e"))


def test_the_doctor_tells_a_daemon_of_another_directory(daemon: Daemon, tmp_path: Path) -> None:
    ran = crux(daemon, "doctor", "--json", CORECRUXD_DATA_DIR=str(tmp_path / "elsewhere"))
    assert ran.returncode == 1
    assert "on another data directory" in checks(ran)["http port"]["text"]


def test_a_second_daemon_is_refused_in_one_line(daemon: Daemon) -> None:
    ran = crux(daemon, "serve")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"crux: {daemon.data_dir} is in use by another daemon (pid {daemon.process.pid}")
    assert len(ran.stderr.splitlines()) == 1


def test_a_start_that_is_refused_exits_with_1(tmp_path: Path) -> None:
    with pytest.raises(NotReady) as refusal:
        Daemon(tmp_path, CORECRUXD_HTTP_PORT="many").start()
    assert refusal.value.exit_code == 1


def test_what_a_daemon_keeps_is_private(daemon: Daemon) -> None:
    well(crux(daemon, "facts", "put", "e", "k", "v"))
    assert daemon.data_dir.stat().st_mode & 0o777 == 0o700
    assert {entry.stat().st_mode & 0o777 for entry in daemon.data_dir.iterdir()} == {0o600}


def test_after_a_stop_the_commands_say_how_to_start(daemon: Daemon) -> None:
    daemon.stop()
    ran = crux(daemon, "facts", "get")
    assert (ran.returncode, len(ran.stderr.splitlines())) == (1, 1)
    assert ran.stderr.endswith("start one with: crux serve\n")
