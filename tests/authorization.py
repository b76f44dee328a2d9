"""An authorization server that is asked about tokens, and the settings of a daemon that asks it."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import trio

RESOURCE = "https://crux.example/mcp"
METADATA = "/.well-known/oauth-protected-resource"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ACTIVE = {"active": True, "scope": "openid mcp:read", "sub": "user-1", "aud": RESOURCE}


def answer(document: object, head: bytes = OK) -> bytes:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class AuthorizationServer:
    """Answers each token with the bytes it has for it; over one it has none for it hangs until `patience_ends`."""

    def __init__(self) -> None:
        self.url = ""
        self.answers: dict[str, bytes] = {"good": answer(ACTIVE), "bad": answer({"active": False})}
        self.patience_ends = trio.Event()
        self.asked: Counter[str] = Counter()
        self.questions: list[tuple[bytes, dict[str, str]]] = []

    async def converse(self, stream: trio.SocketStream) -> None:
        received = b""
        async with stream:
            try:
                async for part in stream:
                    received += part
                    head, blank, body = received.partition(b"\r\n\r\n")
                    if not blank or len(body) < _length(head):
                        continue
                    received = b""
                    question = json.loads(body)
                    self.questions.append((head, question))
                    self.asked[question["token"]] += 1
                    reply = self.answers.get(question["token"])
                    if reply is None:
                        await self.patience_ends.wait()
                        reply = answer({"active": False})
                    await stream.send_all(reply)
                    if not reply.startswith(b"HTTP/"):
                        return
            except trio.BrokenResourceError:
                return


def _length(head: bytes) -> int:
    (line,) = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return int(line.partition(b":")[2])


def settings_for(authority: AuthorizationServer, **changes: object) -> dict[str, Any]:
    return {
        "mcp_resource_url": RESOURCE,
        "mcp_auth_server": authority.url,
        "mcp_introspect_client_id": "crux",
        "mcp_introspect_client_secret": "s3cret",
        **changes,
    }
