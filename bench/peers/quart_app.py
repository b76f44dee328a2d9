"""The same constant answer from a Quart-trio route: what routing and request objects add to R."""

import sys
from pathlib import Path

import trio
from hypercorn.trio import serve
from quart import Response, request
from quart_trio import QuartTrio

from bench.peers.hypercorn_asgi import configuration


def application(answer: bytes) -> QuartTrio:
    """A Quart application whose only route reads the body and answers `answer`."""
    app = QuartTrio(__name__)

    @app.post("/mcp")
    async def mcp() -> Response:
        await request.get_data()
        return Response(answer, content_type="application/json")

    return app


if __name__ == "__main__":
    trio.run(serve, application(Path(sys.argv[2]).read_bytes()), configuration(int(sys.argv[1])))
