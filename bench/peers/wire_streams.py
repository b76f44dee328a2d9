"""The lean listener with two routes: a constant answer, and an event stream that stays idle."""

import resource
import sys
from pathlib import Path
from typing import cast

import trio

from bench.peers.hypercorn_asgi import constant
from crux.transport.asgi import App, Receive, Scope, Send
from crux.transport.listening import bind
from crux.transport.wire import WireLimits, WireServer

STREAM_HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache")]


async def main(port: int, answer: bytes) -> None:
    calls = cast("App", constant(answer))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != "/stream":
            await calls(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
        await send({"type": "http.response.body", "body": b":\n\n", "more_body": True})
        await trio.sleep_forever()

    limits = WireLimits(connections=0, connections_per_address=0)
    await WireServer(app, await bind("127.0.0.1", port, "the port"), limits=limits).run()


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    trio.run(main, int(sys.argv[1]), Path(sys.argv[2]).read_bytes())
