"""The bare ASGI app of R on the lean listener: what that costs before any application does."""

import sys
from pathlib import Path
from typing import cast

import trio

from bench.peers.hypercorn_asgi import constant
from crux.transport.asgi import App
from crux.transport.listening import bind
from crux.transport.wire import WireServer


async def main(port: int, answer: bytes) -> None:
    app = cast("App", constant(answer))
    await WireServer(app, await bind("127.0.0.1", port, "the port")).run()


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), Path(sys.argv[2]).read_bytes())
