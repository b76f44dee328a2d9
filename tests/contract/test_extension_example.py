"""The example of the documentation, from its manifest to its removal: a real endpoint, a real daemon, the command line.

The endpoint, the daemon and each command are processes of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import selectors
import shlex
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.daemons import Daemon
from tests.serving import ALICE, BOB, LIST, bearer, call_of

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
ID, TOOL = "ext.example.quote", "ext.example.quote.daily"
SAFE_NAME = "ext_example_quote_daily"
SWITCHES = {"CORECRUXD_EXTENSIONS_ALLOW_PLAIN_HTTP": "1", "CORECRUXD_EXTENSIONS_ALLOW_UNSIGNED": "1"}
INVOKE = f"/v1/extensions/{ID}/tools/{TOOL}/invoke"
START_S = 20.0
_RUNNING = re.compile(rb"Running on http://127\.0\.0\.1:(\d+) ")


@contextmanager
def example() -> Iterator[int]:
    """The example endpoint on a free port, as the documentation starts it."""
    command = (sys.executable, "-W", "error", str(EXAMPLES / "quote.py"), "--port", "0")
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            yield _port_of(process)
        finally:
            process.send_signal(signal.SIGINT)
            try:
                code = process.wait(START_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    assert code == 0, "Ctrl-C ends it well"


def _port_of(process: subprocess.Popen[bytes]) -> int:
    assert process.stderr is not None
    said = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stderr, selectors.EVENT_READ)
        while (found := _RUNNING.search(said)) is None:
            ready = selector.select(START_S)
            chunk = os.read(process.stderr.fileno(), 4096) if ready else b""
            assert chunk, f"the example did not start: {said!r}"
            said += chunk
    return int(found[1])


def manifest_for(port: int, file: Path) -> Path:
    """The example's manifest, for an endpoint on `port`."""
    text = (EXAMPLES / "quote.json").read_text()
    assert text.count("127.0.0.1:9000") == 2
    file.write_text(text.replace("127.0.0.1:9000", f"127.0.0.1:{port}"))
    return file


class Ext:
    """`crux ext` as an operator types it, beside a daemon."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon

    def __call__(self, *args: str, token: str | None = None, fails: bool = False) -> subprocess.CompletedProcess[str]:
        environ = {**self.daemon.environ, **({"CRUX_AGENT_TOKEN": token} if token else {})}
        command = (sys.executable, "-m", "crux", "ext", "--url", self.daemon.http, *args)
        ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)
        assert (ran.returncode != 0) == fails, ran.stderr
        return ran

    def json(self, *args: str) -> Any:
        return json.loads(self(*args, "--json").stdout)


def listed(daemon: Daemon, token: str) -> list[str]:
    """The names of extension tools that an agent sees."""
    tools = httpx.post(daemon.mcp, json=LIST, headers=bearer(token)).json()["result"]["tools"]
    return [tool["name"] for tool in tools if tool["name"].startswith("ext")]


def called(daemon: Daemon, token: str, name: str = TOOL, **arguments: object) -> dict[str, Any]:
    """The JSON-RPC response of a call over MCP."""
    answer: dict[str, Any] = httpx.post(daemon.mcp, json=call_of(name, **arguments), headers=bearer(token)).json()
    return answer


def outcome(response: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(response["result"]["content"][0]["text"])
    return found


def facts_of(daemon: Daemon, token: str, entity: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = outcome(called(daemon, token, "query_facts", entity=entity))["rows"]
    return found


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path, CRUX_AGENT_TOKENS=f"alice:{ALICE},bob:{BOB}", **SWITCHES) as daemon:
        yield daemon


@pytest.fixture
def port() -> Iterator[int]:
    with example() as port:
        yield port


def test_the_example_from_its_manifest_to_its_removal(daemon: Daemon, port: int, tmp_path: Path) -> None:
    ext = Ext(daemon)
    file = str(manifest_for(port, tmp_path / "quote.json"))

    # Installing opens nothing.
    assert ext("validate", file, "--allow-unsigned").stdout.startswith(f"valid: {ID} 0.1.0, unsigned, hash blake3:")
    assert ext("install", file).stdout.startswith(f"installed {ID} 0.1.0, trust unknown, blake3:")
    assert "already installed" in ext("install", file, fails=True).stderr
    assert f"http://127.0.0.1:{port}/crux/invoke" in ext.json("list")["extensions"][0]["manifest"].values()
    assert listed(daemon, ALICE) == listed(daemon, BOB) == []
    ungranted = httpx.post(daemon.http + INVOKE, json={}, headers=bearer(ALICE))
    assert (ungranted.status_code, ungranted.json()["detail"]) == (
        403,
        f"passport 'alice' has no grant for extension '{ID}'",
    )

    # A grant opens it to one agent.
    assert "fact writes: personal::quotes::" in ext("grant", ID, "alice", "--write", "personal::quotes::").stdout
    assert listed(daemon, ALICE) == [TOOL]
    assert listed(daemon, BOB) == []

    # A call gives the endpoint's result, and keeps what the grant covers.
    first = outcome(called(daemon, ALICE, topic="patience"))
    assert first["result"]["topic"] == "patience"
    assert (first["accepted_fact_writes"], first["dropped_fact_writes"]) == (1, 1)
    assert first["drop_reasons"] == [
        "fact_writes[1] entity 'quote-topics::latest' not covered by grant.allowed_prefixes_write"
    ]
    (kept,) = httpx.get(f"{daemon.http}/v1/facts", params={"query": "patience"}, headers=bearer(ALICE)).json()["facts"]
    assert re.fullmatch(r"personal::quotes::\d{4}-\d\d-\d\d", kept["entity"])
    assert (kept["key"], kept["value"], kept["confidence"]) == ("patience", first["result"]["quote"], 0.9)
    assert (kept["actor"], kept["private"], kept["tenant_hash"]) == ("alice", False, "default")
    assert facts_of(daemon, BOB, kept["entity"])[0]["value"] == first["result"]["quote"]
    assert facts_of(daemon, BOB, "quote-topics::latest") == []

    # Both names are the tool's; the endpoint's own refusal reaches the caller; another agent has no way in.
    assert outcome(called(daemon, ALICE, SAFE_NAME))["result"]["topic"] == "engineering"
    refused = called(daemon, ALICE, topic="nonsense")["error"]
    assert refused["code"] == -32603
    assert "502" in refused["message"]
    assert "topic has to be one of" in refused["message"]
    assert called(daemon, BOB)["error"]["code"] == -32603
    by_hand = ext("invoke", ID, TOOL, "--args", '{"topic": "engineering"}', token=ALICE)
    assert json.loads(by_hand.stdout)["topic"] == "engineering"
    assert by_hand.stderr.startswith("kept 1 fact writes, dropped 1; ")
    assert httpx.post(daemon.http + INVOKE, json={"passport_fpr": "bob"}, headers=bearer(ALICE)).status_code == 403

    # Ten calls a minute, over both edges together; four have gone out.
    for _ in range(6):
        assert "result" in called(daemon, ALICE)
    over = httpx.post(daemon.http + INVOKE, json={"args": {}}, headers=bearer(ALICE))
    assert (over.status_code, over.json()["detail"]) == (429, "rate limited (cap 10/min)")
    assert "rate limited (cap 10/min)" in called(daemon, ALICE)["error"]["message"]

    # Revoked and removed, it is gone for good.
    assert ext("revoke", ID, "alice").stdout.startswith(f"ended the grant of alice for {ID}: ")
    assert listed(daemon, ALICE) == []
    assert ext.json("grants", ID)["grants"] == []
    ext("grant", ID, "bob", "--rate", "1")
    assert ext("remove", ID).stdout.splitlines() == [
        f"removed {ID} 0.1.0",
        "ended the grant of bob: tools: all; fact writes: none; 1 calls a minute",
    ]
    assert ext.json("list")["extensions"] == []
    assert httpx.post(daemon.http + INVOKE, json={}, headers=bearer(BOB)).status_code == 404
    ext("install", file)
    assert ext.json("grants", ID)["grants"] == []
    assert listed(daemon, BOB) == []

    events = ext.json("audit")["audit_tail"]
    assert [event["action"].removeprefix("extension_") for event in events] == [
        "install",
        "grant_added",
        "invoke_ok",
        "invoke_ok",
        "invoke_rejected",
        *["invoke_ok"] * 7,
        *["invoke_rejected"] * 2,
        "grant_removed",
        "grant_added",
        "uninstall",
        "grant_removed",
        "install",
    ]
    reasons = [event["detail"]["reason"] for event in events if event["action"] == "extension_invoke_rejected"]
    assert reasons == ["upstream_error", "rate_limited", "rate_limited"]
    assert {event["pack_id"] for event in events} == {ID}


def test_what_is_installed_and_granted_survives_a_crash(daemon: Daemon, port: int, tmp_path: Path) -> None:
    ext = Ext(daemon)
    ext("install", str(manifest_for(port, tmp_path / "quote.json")))
    ext("grant", ID, "alice", "--tool", TOOL, "--write", "personal::quotes::", "--rate", "1")
    assert outcome(called(daemon, ALICE))["accepted_fact_writes"] == 1
    before = ext.json("grants", ID), ext.json("show", ID)
    daemon.kill()
    daemon.restart()
    assert (ext.json("grants", ID), ext.json("show", ID)) == before
    assert listed(daemon, ALICE) == [TOOL]
    assert outcome(called(daemon, ALICE))["accepted_fact_writes"] == 1
    actions = [event["action"] for event in ext.json("audit")["audit_tail"]]
    assert actions == ["extension_install", "extension_grant_added", "extension_invoke_ok", "extension_invoke_ok"]


def test_a_signed_manifest_needs_a_trusted_key_and_no_switch(tmp_path: Path, port: int) -> None:
    with Daemon(tmp_path, CRUX_AGENT_TOKENS=f"alice:{ALICE}") as daemon:
        ext = Ext(daemon)
        file, key = str(manifest_for(port, tmp_path / "quote.json")), str(tmp_path / "publisher.key")
        assert "field 'signature' is required" in ext("install", file, fails=True).stderr
        made = ext.json("keygen", key)
        signer, public = made["passport_fpr"], made["public_key_hex"]
        ext("sign", file, "--key", key)
        assert f"no trusted key for passport '{signer}'" in ext("install", file, fails=True).stderr
        ext("keys", "add", signer, public, "--tier", "locally_signed")
        assert list(ext.json("keys", "list")["keys"]) == [signer]
        assert "trust locally_signed" in ext("install", file).stdout
        ext("grant", ID, "alice")
        # Plain HTTP can be installed, and is not called without its switch.
        blocked = httpx.post(daemon.http + INVOKE, json={}, headers=bearer(ALICE))
        assert (blocked.status_code, blocked.json()["detail"]) == (
            502,
            "plain http endpoint blocked (set CORECRUXD_EXTENSIONS_ALLOW_PLAIN_HTTP=true for dev)",
        )
        assert "removed the key" in ext("keys", "remove", signer).stdout
        assert ext.json("show", ID)["trust_tier"] == "locally_signed"


# Seed 002 section 5.4, letter by letter.
PRINTED = """\
curl -s -X POST \\
  http://127.0.0.1:14800/v1/extensions/ext.example.quote/tools/ext.example.quote.daily/invoke \\
  -H "Authorization: Bearer $CRUX_AGENT_TOKEN" \\
  -H "X-Corecrux-Passport-Id: p_alice" \\
  -H 'Content-Type: application/json' \\
  -d '{"args": {"topic": "engineering"}}'
"""


def curl(printed: str, base_url: str, token: str) -> httpx.Response:
    """What the command does, on a machine that may have no curl."""
    program, *words = shlex.split(printed.replace("\\\n", "").replace("$CRUX_AGENT_TOKEN", token))
    given = argparse.ArgumentParser(prog=program)
    given.add_argument("-s", action="store_true")
    given.add_argument("-X", required=True)
    given.add_argument("-H", action="append", required=True)
    given.add_argument("-d", required=True)
    given.add_argument("url")
    asked = given.parse_args(words)
    headers = dict(header.split(": ", 1) for header in asked.H)
    url = asked.url.replace("http://127.0.0.1:14800", base_url)
    return httpx.request(asked.X, url, headers=headers, content=asked.d, trust_env=False)


def test_the_curl_of_the_documentation_is_the_one_that_works() -> None:
    page = (EXAMPLES.parent / "extensions.md").read_text()
    assert textwrap.indent(PRINTED, "    ") in page


def test_the_curl_of_the_seed_works_as_printed(tmp_path: Path, port: int) -> None:
    with Daemon(tmp_path, CRUX_AGENT_TOKEN=ALICE, **SWITCHES) as daemon:
        headers = {**bearer(ALICE), "Content-Type": "application/json"}
        manifest = json.loads(manifest_for(port, tmp_path / "quote.json").read_text())
        with httpx.Client(base_url=daemon.http, headers=headers) as client:
            assert client.post("/v1/extensions/register", json={"manifest": manifest}).status_code == 201
            granted = {"passport_fpr": "p_alice", "allowed_prefixes_write": ["personal::quotes::"]}
            assert client.post(f"/v1/extensions/{ID}/grants", json=granted).status_code == 201
        answer = curl(PRINTED, daemon.http, ALICE)
        assert answer.status_code == 200
        found = answer.json()
        assert list(found) == [
            "result",
            "accepted_fact_writes",
            "dropped_fact_writes",
            "drop_reasons",
            "upstream_status",
            "elapsed_ms",
            "request_id",
        ]
        assert (found["accepted_fact_writes"], found["dropped_fact_writes"], found["upstream_status"]) == (1, 1, 200)
        assert re.fullmatch(r"req-\d{19}", found["request_id"])
