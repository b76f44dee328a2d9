"""Starts the servers under test, each a process of its own on the server core, and ends them whatever happens."""

import os
import socket
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from subprocess import DEVNULL, STDOUT
from types import MappingProxyType

import trio
from attrs import field, frozen

from bench import load
from bench.failure import BenchFailed

ROOT = Path(__file__).parent.parent
START_DEADLINE_S = 30.0
STOP_DEADLINE_S = 5.0
_POLL_S = 0.05


@frozen
class Cores:
    """Which core serves and which one makes the load; None where processes cannot be pinned."""

    server: int | None
    generator: int | None

    @classmethod
    def choose(cls) -> "Cores":
        """The last two cores this process may use, or neither where there are fewer or the system cannot pin."""
        if not hasattr(os, "sched_getaffinity") or len(allowed := sorted(os.sched_getaffinity(0))) < 2:
            return cls(None, None)
        return cls(server=allowed[-1], generator=allowed[-2])

    def pin_generator(self) -> None:
        """Move this thread, and those it will start, to the generator's core."""
        if self.generator is not None:
            os.sched_setaffinity(0, {self.generator})

    def pin_server(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """The command that runs `command` on the server's core."""
        return command if self.server is None else (sys.executable, "-m", "bench.pinned", str(self.server), *command)

    def __str__(self) -> str:
        if self.server is None:
            return (
                "not pinned: no sched_setaffinity or fewer than two cores, so servers and generator disturb each other"
            )
        return f"servers on core {self.server}, generator on core {self.generator}"


@frozen
class Child:
    """How to start one server and see that it is ready: it accepts on `port`, and `ready_path` (if any) answers 200."""

    name: str
    command: tuple[str, ...]
    port: int
    ready_port: int
    ready_path: str | None = None
    env: Mapping[str, str] = field(factory=dict)


@frozen
class Server:
    """A server that runs: where it listens, and as which process. `ready_port` is the daemon's HTTP API."""

    port: int
    pid: int
    ready_port: int = 0


def peer(module: str, *arguments: str) -> Child:
    """A server of `bench.peers` on a free port."""
    port = _free_port()
    command = (sys.executable, "-m", f"bench.peers.{module}", str(port), *arguments)
    return Child(module, command, port, ready_port=port)


def crux(data_dir: Path, settings: Mapping[str, str] = MappingProxyType({})) -> Child:
    """A Crux daemon on free ports, over `data_dir`, deaf to all settings but these."""
    http_port, mcp_port = _free_port(), _free_port()
    env = {
        "CORECRUXD_DATA_DIR": str(data_dir),
        "CORECRUXD_HTTP_PORT": str(http_port),
        "CORECRUXD_MCP_PORT": str(mcp_port),
        **settings,
    }
    command = (sys.executable, "-m", "crux", "serve")
    return Child("crux", command, mcp_port, ready_port=http_port, ready_path="/readyz", env=env)


@asynccontextmanager
async def running(child: Child, cores: Cores, log_dir: Path) -> AsyncIterator[Server]:
    """Run a server for the length of the block.

    Raises `BenchFailed` with the end of its output when it is not ready within `START_DEADLINE_S` seconds, or ended by
    itself and so made the block fail. On the way out, cancelled or not, it is asked to end, and killed after
    `STOP_DEADLINE_S` seconds more.
    """
    log_path = log_dir / f"{child.name}-{child.port}.log"
    with log_path.open("wb") as log:
        process = await trio.lowlevel.open_process(
            cores.pin_server(child.command),
            stdin=DEVNULL,
            stdout=log,
            stderr=STDOUT,
            cwd=ROOT,
            env={**_clean_environment(), **child.env},
            start_new_session=True,  # Ctrl-C at the terminal reaches the bench alone, and the bench ends its children
        )
    ready = False
    try:
        with trio.move_on_after(START_DEADLINE_S):
            ready = await _until_ready(child, process)
        if not ready:
            raise BenchFailed(f"{child.name} is not ready")
        yield Server(child.port, process.pid, child.ready_port)  # the program that pins it becomes it
    except Exception as error:
        if ready and process.poll() is None:
            raise
        what = "ended by itself" if ready else "did not start"
        output = log_path.read_text(errors="replace")[-2_000:]
        raise BenchFailed(f"{child.name} {what}, exit code {process.poll()}; its output ends:\n{output}") from error
    finally:
        await _stop(process)


async def _until_ready(child: Child, process: trio.Process) -> bool:
    """Poll until the server answers (True) or has ended (False)."""
    while process.poll() is None:
        try:
            if child.ready_path is not None:
                await load.ask_once(child.ready_port, load.get(child.ready_port, child.ready_path))
            stream = await trio.open_tcp_stream(load.HOST, child.port)
        except (OSError, BenchFailed):
            await trio.sleep(_POLL_S)
        else:
            await stream.aclose()
            return True
    return False


async def _stop(process: trio.Process) -> None:
    with trio.CancelScope(shield=True):
        if process.poll() is None:
            process.terminate()
            with trio.move_on_after(STOP_DEADLINE_S):
                await process.wait()
        if process.poll() is None:
            process.kill()
        await process.wait()


def _clean_environment() -> dict[str, str]:
    ours = ("CORECRUXD_", "CRUX_", "FASTMCP_", "UVICORN_", "QUART_", "MCP_")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((load.HOST, 0))
        port: int = probe.getsockname()[1]
        return port
