"""`crux mcp-stdio` as a host starts it, and a real daemon."""

from __future__ import annotations

import json
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest

from crux import __version__
from tests.daemons import Daemon

COMMAND = (sys.executable, "-m", "crux", "mcp-stdio")
PATIENCE_S = 20
TOKEN = "ada-token-of-32-characters-or-more"


class Bridge:
    """The bridge to a daemon, on pipes."""

    def __init__(self, daemon: Daemon, **environ: str) -> None:
        self.process = subprocess.Popen(
            COMMAND,
            env={**daemon.environ, "CRUX_MCP_URL": daemon.mcp, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self._last_id = 0
        self._heard = b""

    def say(self, method: str, request_id: int | None = None, **params: object) -> None:
        identity = {} if request_id is None else {"id": request_id}
        self.stdin.write(json.dumps({"jsonrpc": "2.0", **identity, "method": method, "params": params}).encode())
        self.stdin.write(b"\n")

    def hear(self) -> Any:
        """The next line, which has to be JSON."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.stdout, selectors.EVENT_READ)
            while b"\n" not in self._heard:
                assert selector.select(PATIENCE_S), "the bridge says nothing"
                chunk = self.stdout.read(65536)
                assert chunk, "the bridge has ended"
                self._heard += chunk
        line, _, self._heard = self._heard.partition(b"\n")
        return json.loads(line)

    def ask(self, method: str, **params: object) -> Any:
        self._last_id += 1
        self.say(method, self._last_id, **params)
        answer = self.hear()
        assert answer["id"] == self._last_id
        return answer.get("result") or answer["error"]

    def call(self, tool: str, **arguments: object) -> Any:
        (item,) = self.ask("tools/call", name=tool, arguments=arguments)["content"]
        return json.loads(item["text"])

    def end(self) -> tuple[int, str, bytes]:
        """Close its input; exit code, standard error, and what of standard output nobody has heard."""
        self.stdin.close()
        code = self.process.wait(PATIENCE_S)
        assert self.process.stderr is not None
        return code, self.process.stderr.read().decode(), self._heard + self.stdout.read()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with Daemon(tmp_path) as daemon:
        yield daemon


@pytest.fixture
def bridged() -> Iterator[Callable[..., Bridge]]:
    with ExitStack() as stack:
        yield lambda daemon, **environ: stack.enter_context(Bridge(daemon, **environ))


def test_a_host_initializes_lists_stores_and_queries(daemon: Daemon, bridged: Callable[..., Bridge]) -> None:
    bridge = bridged(daemon)
    assert bridge.ask("initialize")["serverInfo"] == {"name": "crux", "version": __version__}
    bridge.say("notifications/initialized")
    assert "store_fact" in {tool["name"] for tool in bridge.ask("tools/list")["tools"]}
    text = "é\u2028漢字\n" * 1000
    stored = bridge.call("store_fact", entity="e", key="k", value=text)
    (row,) = bridge.call("query_facts", entity="e")["rows"]
    assert (row["fact_id"], row["value"]) == (stored["fact_id"], text)
    assert bridge.ask("ping")["code"] == -32601
    assert bridge.end() == (0, f"crux mcp-stdio: version {__version__}, relaying to {daemon.mcp}\n", b"")


def test_a_token_makes_its_agent_and_a_missing_one_is_told(tmp_path: Path, bridged: Callable[..., Bridge]) -> None:
    with Daemon(tmp_path, CRUX_AGENT_TOKENS=f"ada:{TOKEN}") as daemon:
        bridge = bridged(daemon, CRUX_AGENT_TOKEN=f" {TOKEN}\n")
        assert bridge.call("get_agent_identity") == {"agent_name": "ada", "passport": "ada"}
        assert bridge.end()[0] == 0
        refused = bridged(daemon, CRUX_AGENT_TOKEN=" ")
        error = refused.ask("initialize")
        assert (error["code"], " 401 unauthorized: " in error["message"]) == (-32000, True)


def test_what_is_no_request_is_refused_by_the_daemon_and_the_bridge_goes_on(
    daemon: Daemon, bridged: Callable[..., Bridge]
) -> None:
    bridge = bridged(daemon)
    for line in (b"{", b"\xff\xfe", b"[]", b"x" * (16 * 2**20 + 1)):
        bridge.stdin.write(line + b"\n")
        answer = bridge.hear()
        assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert bridge.call("list_entities")["entities"] == []


def test_a_restart_of_the_daemon_needs_none_of_the_bridge(daemon: Daemon, bridged: Callable[..., Bridge]) -> None:
    bridge = bridged(daemon)
    bridge.ask("initialize")
    bridge.call("store_fact", entity="e", key="k", value="v")
    daemon.kill()
    error = bridge.ask("tools/list")
    assert (error["code"], "nothing answers at" in error["message"]) == (-32000, True)
    bridge.say("notifications/cancelled")
    daemon.restart()
    assert bridge.hear() == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, "its stream is back"
    assert len(bridge.call("query_facts", entity="e")["rows"]) == 1
    code, said, unheard = bridge.end()
    assert (code, unheard) == (0, b"")
    assert said.count("the push stream ") == 1


def test_the_bridge_ends_with_its_input_while_the_daemon_is_away(
    daemon: Daemon, bridged: Callable[..., Bridge]
) -> None:
    bridge = bridged(daemon)
    bridge.ask("initialize")
    daemon.kill()
    assert bridge.end()[0] == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_bridge_at_once_and_in_silence(
    number: signal.Signals, daemon: Daemon, bridged: Callable[..., Bridge]
) -> None:
    bridge = bridged(daemon)
    bridge.ask("initialize")
    bridge.process.send_signal(number)
    code, said, unheard = bridge.end()
    assert (code, len(said.splitlines()), unheard) == (-number, 1, b"")


def test_the_bridge_ends_when_nobody_reads_it(daemon: Daemon, bridged: Callable[..., Bridge]) -> None:
    bridge = bridged(daemon)
    bridge.ask("initialize")
    bridge.stdout.close()
    bridge.say("tools/list", 1)
    assert bridge.process.wait(PATIENCE_S) == 0


def test_regular_files_serve_as_well_as_pipes(daemon: Daemon, tmp_path: Path) -> None:
    requests, answers = tmp_path / "requests", tmp_path / "answers"
    requests.write_text('{"jsonrpc":"2.0","id":1,"method":"initialize"}\n\n{"jsonrpc":"2.0","id":2,"method":"ping"}')
    with requests.open() as stdin, answers.open("w") as stdout:
        environ = {**daemon.environ, "CRUX_MCP_URL": daemon.mcp}
        ran = subprocess.run(COMMAND, env=environ, stdin=stdin, stdout=stdout, check=False, timeout=PATIENCE_S)
    assert ran.returncode == 0
    assert [json.loads(line)["id"] for line in answers.read_text().splitlines()] == [1, 2]


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"CRUX_MCP_URL": "http://u:secret@localhost/mcp"}, "the address of MCP must be one such as"),
        ({"CRUX_AGENT_TOKEN": "a secret"}, "CRUX_AGENT_TOKEN may hold"),
    ],
)
def test_a_variable_that_cannot_be_used_ends_it_at_once(environ: dict[str, str], said: str) -> None:
    ran = subprocess.run(COMMAND, env=environ, input="", capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert said in ran.stderr
    assert "secret" not in ran.stderr


def test_input_that_cannot_be_read_is_exit_code_1(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as unreadable:
        ran = subprocess.run(COMMAND, stdin=unreadable, capture_output=True, text=True, check=False, env={})
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.endswith("crux: standard input cannot be read: Bad file descriptor\n")
