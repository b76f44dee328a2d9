"""`crux ingest` and a real daemon, each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import httpx
import pytest

from tests.contract.test_cli import crux, well
from tests.daemons import Daemon

SCOPES = {"x-corecrux-scopes": "query:read"}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path) as daemon:
        yield daemon


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    (folder / "sub").mkdir(parents=True)
    (folder / "guide.md").write_text("# The guide\n\nBackups rotate weekly.", encoding="utf-8")
    (folder / "sub" / "page.html").write_text("<title>Page</title><p>Zürich office</p>", encoding="utf-8")
    (folder / "logo.png").write_bytes(b"\x89PNG\0\0")
    (folder / ".hidden").write_text("secret", encoding="utf-8")
    return folder


def search(daemon: Daemon, query: str, tenant: str = "default") -> list[dict[str, Any]]:
    body = {"tenant_id": tenant, "query": query}
    answer = httpx.post(f"{daemon.http}/v1/query/text-search", json=body, headers=SCOPES, trust_env=False)
    assert answer.status_code == 200, answer.text
    return [hit["source"] for hit in answer.json()["results"]]


def test_a_folder_is_ingested_again_without_harm_and_documents_removed(daemon: Daemon, corpus: Path) -> None:
    first = crux(daemon, "ingest", str(corpus))
    assert well(first) == "tenant default: 2 stored, 0 updated, 0 unchanged; skipped 1: 1 binary\n"
    assert first.stderr == f"skipped {corpus}/logo.png: binary\n"
    assert search(daemon, "rotate") == [
        {"document": f"{corpus}/guide.md", "title": "The guide", "uri": f"file://{corpus}/guide.md"}
    ]
    assert [source["title"] for source in search(daemon, "zurich")] == ["Page"]
    assert search(daemon, "secret") == []
    (corpus / "guide.md").write_text("# The guide\n\nBackups rotate daily.", encoding="utf-8")
    assert well(crux(daemon, "ingest", str(corpus))).startswith("tenant default: 0 stored, 1 updated, 1 unchanged")
    assert search(daemon, "weekly") == []
    assert well(crux(daemon, "ingest", "--remove", f"{corpus}/guide.md")) == f"removed {corpus}/guide.md\n"
    assert search(daemon, "rotate") == []
    again = crux(daemon, "ingest", "--remove", f"{corpus}/guide.md")
    assert (again.returncode, again.stderr) == (1, f"crux: tenant default has no document {corpus}/guide.md\n")


def test_a_tenant_has_an_index_of_its_own(daemon: Daemon, corpus: Path) -> None:
    assert well(crux(daemon, "ingest", str(corpus / "guide.md"), "--tenant", "acme")).startswith(
        "tenant acme: 1 stored"
    )
    assert search(daemon, "rotate") == []
    assert len(search(daemon, "rotate", "acme")) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Missing argument 'PATH...'"),
        (("nowhere",), "no such file or directory: nowhere"),
        (("--remove", "--watch", "x"), "--remove takes ids and --watch watches files"),
        ((".", "--tenant", "*"), "'tenant_id' must name one tenant"),
    ],
)
def test_a_wrong_command_says_what_is_wrong(
    daemon: Daemon, corpus: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(corpus)
    ran = crux(daemon, "ingest", *arguments)
    assert ran.returncode != 0
    assert message in ran.stderr


def test_without_a_daemon_it_says_so_and_how_to_go_on(daemon: Daemon, corpus: Path) -> None:
    daemon.kill()
    ran = crux(daemon, "ingest", str(corpus))
    assert ran.returncode == 1
    assert "no daemon answers at" in ran.stderr
    assert "run the same command again to go on" in ran.stderr


def test_watching_follows_every_change_until_it_is_interrupted(daemon: Daemon, corpus: Path) -> None:
    ports = {"CORECRUXD_HTTP_PORT": daemon.http.rpartition(":")[2]}
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "crux", "ingest", "--watch", str(corpus)],
        env={**daemon.environ, **ports},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell that starts the tests in the background has its children deaf to the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as watching:
        assert watching.stdout is not None
        assert watching.stderr is not None
        too_long = Timer(40, watching.kill)
        too_long.start()
        try:
            assert watching.stdout.readline().startswith("tenant default: 2 stored")
            while "watching" not in watching.stderr.readline():
                pass
            (corpus / "more.txt").write_text("fresh words", encoding="utf-8")
            assert watching.stdout.readline() == "1 stored, 0 updated, 0 unchanged\n"
            assert len(search(daemon, "fresh")) == 1
            (corpus / "more.txt").unlink()
            assert watching.stdout.readline() == "0 stored, 0 updated, 0 unchanged; removed 1\n"
            assert search(daemon, "fresh") == []
        finally:
            watching.send_signal(signal.SIGINT)
        assert watching.wait() == 0
        too_long.cancel()
