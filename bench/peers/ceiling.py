"""The least that answers HTTP: it looks for the end of a request and no more. Shows what the generator can do."""

import asyncio
import re
import sys
from pathlib import Path

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Echo(asyncio.Protocol):
    """Answers the same bytes to every complete request."""

    def __init__(self, answer: bytes) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}\r\n\r\n"
        self._answer = head.encode() + answer
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (head_end := self._received.find(b"\r\n\r\n")) >= 0:
            length = _LENGTH.search(self._received, 0, head_end)
            request_end = head_end + 4 + (int(length[1]) if length else 0)
            if len(self._received) < request_end:
                return
            self._received = self._received[request_end:]
            self._transport.write(self._answer)


async def main(port: int, answer: bytes) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Echo(answer), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2]).read_bytes()))
