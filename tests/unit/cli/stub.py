"""A daemon that answers what a test tells it to, and remembers what it was asked."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qsl, urlsplit

from attrs import define, field, frozen


@frozen
class Asked:
    """One request as it came."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> object:
        return json.loads(self.body)


@define
class Stub:
    """`answers` are taken in turn, by "METHOD /path", the last one again and again; 404 where there is none."""

    url: str = ""
    answers: dict[str, list[tuple[int, object]]] = field(factory=dict)
    asked: list[Asked] = field(factory=list)

    @property
    def port(self) -> int:
        port = urlsplit(self.url).port
        assert port is not None
        return port

    def answer(self, request: str, *bodies: object, status: int = 200) -> None:
        """Answer `request` with `bodies` in turn; bytes are sent as they are, all else as JSON."""
        self.answers.setdefault(request, []).extend((status, body) for body in bodies)

    def take(self, asked: Asked) -> tuple[int, bytes]:
        self.asked.append(asked)
        ready = self.answers.get(f"{asked.method} {asked.path}", [(404, {"title": "Not Found"})])
        status, body = ready.pop(0) if len(ready) > 1 else ready[0]
        return status, body if isinstance(body, bytes) else json.dumps(body).encode()


@contextmanager
def stub_daemon() -> Iterator[Stub]:
    """A stub on a free port of this machine, for as long as the context lasts."""
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, answer = stub.take(Asked(self.command, parts.path, dict(parse_qsl(parts.query)), headers, body))
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PUT = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        stub.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield stub
        finally:
            server.shutdown()
            thread.join()


def fact(**members: object) -> dict[str, object]:
    """A fact as the HTTP API gives it."""
    return {
        "fact_id": "f_1",
        "tenant_hash": "default",
        "entity": "project-alpha",
        "key": "status",
        "value": "shipped",
        "source_receipt": None,
        "confidence": 0.9,
        "stored_at": "2026-11-30T18:59:22.123456Z",
        "tokens": 2,
        "deleted": False,
        "version": 1,
        "private": False,
        "horizon_class": "none",
        **members,
    }
