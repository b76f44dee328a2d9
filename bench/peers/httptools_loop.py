"""The least that parses HTTP on trio: one task a connection, httptools, and a constant answer."""

import sys
from functools import partial
from pathlib import Path

import httptools
import trio


class Request:
    """Notes that a request is whole."""

    def __init__(self) -> None:
        self.complete = False

    def on_message_complete(self) -> None:
        self.complete = True


async def serve(response: bytes, stream: trio.SocketStream) -> None:
    request = Request()
    parser = httptools.HttpRequestParser(request)
    while data := await stream.receive_some(65536):
        parser.feed_data(data)
        if request.complete:
            request.complete = False
            await stream.send_all(response)


async def main(port: int, answer: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}\r\n\r\n"
    await trio.serve_tcp(partial(serve, head.encode() + answer), port, host="127.0.0.1")


if __name__ == "__main__":
    trio.run(main, int(sys.argv[1]), Path(sys.argv[2]).read_bytes())
