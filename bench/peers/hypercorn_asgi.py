"""R, the row all others are measured against: a bare ASGI app on Hypercorn's trio worker.

It reads the body and answers a constant, so it is what Hypercorn and trio cost before any application does.
"""

import sys
from pathlib import Path

import trio
from hypercorn.config import Config
from hypercorn.trio import serve
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Framework, Scope


def constant(answer: bytes) -> Framework:
    """An ASGI application that answers `answer` to every request."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]

    async def app(scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(f"no {scope['type']} here")  # Hypercorn goes on without lifespan events then
        body = b""
        more = True
        while more:
            event = await receive()
            if event["type"] != "http.request":
                return
            body += event["body"]
            more = event["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": headers, "trailers": False})
        await send({"type": "http.response.body", "body": answer, "more_body": False})

    return app


def configuration(port: int) -> Config:
    """Hypercorn as it comes, but for connections that last: its default ends each after 1,000 requests."""
    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    config.keep_alive_max_requests = sys.maxsize
    return config


if __name__ == "__main__":
    trio.run(serve, constant(Path(sys.argv[2]).read_bytes()), configuration(int(sys.argv[1])))
