"""A real daemon in a process of its own, for tests that need a socket, a signal or a crash."""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

COMMAND = (sys.executable, "-m", "crux", "serve")
START_S = 20.0
STOP_S = 20.0

_READY = re.compile(r"crux (?P<version>\S+) ready: http (?P<http>\S+), mcp (?P<mcp>\S+), data (?P<data>.+)\n")
_OURS = ("CRUX_", "CORECRUX")


class NotReady(AssertionError):
    """The daemon ended, or said nothing, instead of becoming ready; the text holds its log."""

    def __init__(self, what: str, exit_code: int | None, log: str) -> None:
        super().__init__(f"the daemon {what}; its log:\n{log}")
        self.exit_code = exit_code


class Daemon:
    """`crux serve`, started on entering, stopped on leaving.

        with Daemon(tmp_path, CRUX_AGENT_TOKENS=...) as daemon:
            httpx.get(f"{daemon.http}/healthz")

    It keeps everything below `home`: its data in `data/`, its log in `daemon.log`. It sees none of the settings that
    pytest itself was started with. Ports are free ones and stay the same over `restart`; `settings` win over all of
    that. Leaving without an exception fails where the daemon does not stop with exit code 0.
    """

    http: str
    """Base URL of the HTTP API, such as http://127.0.0.1:40001."""
    mcp: str
    """URL of the MCP endpoint, or "off"."""
    process: subprocess.Popen[bytes]

    def __init__(self, home: Path, **settings: str) -> None:
        self.data_dir = home / "data"
        self.log_file = home / "daemon.log"
        outside = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        self.environ = {
            **outside,
            "XDG_CONFIG_HOME": str(home / "no-config"),
            "CORECRUXD_DATA_DIR": str(self.data_dir),
            "CORECRUXD_HTTP_PORT": "0",
            "CORECRUXD_MCP_PORT": "0",
            **settings,
        }

    def start(self) -> None:
        """Start it and return when it serves. Raises `NotReady` when it ends first, or after `START_S`."""
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(COMMAND, env=self.environ, stdout=subprocess.PIPE, stderr=log)
        line = self._first_line()
        ready = _READY.fullmatch(line or "")
        if ready is None:
            # A line that is cut short means that it has ended by itself, so its exit code is worth waiting for.
            code = self.kill() if line is None or line.endswith("\n") else self.wait()
            raise NotReady(f"said {line!r} and ended with {code}", code, self.log())
        self.http, self.mcp = ready["http"], ready["mcp"]

    def stop(self) -> int:
        """Ask it to stop (SIGTERM) and return its exit code; kills it and raises `TimeoutExpired` after `STOP_S`."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> int:
        """End it at once (SIGKILL): no drain, no clean-up. Returns its exit code, -9."""
        self.process.kill()
        return self.wait()

    def restart(self) -> None:
        """Start it again on the same ports and data, after stopping it if it still runs."""
        if self.running:
            self.stop()
        self.environ["CORECRUXD_HTTP_PORT"] = _port(self.http)
        if self.mcp != "off":
            self.environ["CORECRUXD_MCP_PORT"] = _port(self.mcp)
        self.start()

    def wait(self, timeout_s: float = STOP_S) -> int:
        """Its exit code, once it has ended; kills it and raises `TimeoutExpired` if it has not by then."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            assert self.process.stdout is not None
            self.process.stdout.close()

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def log(self) -> str:
        """What it has logged, over all its starts."""
        return self.log_file.read_text(errors="replace")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.running:
            self.wait()
        elif (code := self.stop()) != 0 and error is None:
            raise AssertionError(f"the daemon stopped with exit code {code}; its log:\n{self.log()}")

    def _first_line(self) -> str | None:
        """What it prints up to the first line end, or less when it ends before that; None when the time is up."""
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        deadline = time.monotonic() + START_S
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while not said.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                if not (chunk := os.read(descriptor, 4096)):
                    break
                said += chunk
        return said.decode()


def _port(url: str) -> str:
    return str(urlsplit(url).port)
