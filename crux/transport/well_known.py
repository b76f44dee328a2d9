"""What the MCP port tells anyone about itself, under `/.well-known` (seed 11.1, protocol contract 4.1 and 5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from crux import __version__
from crux.config import Settings
from crux.domain.agent_card import CARD_PATH, agent_card
from crux.domain.oauth import METADATA_PATH, metadata
from crux.tools.registry import Catalogue
from crux.transport.asgi import JSON, Receive, Scope, Send, respond
from crux.transport.gates import GuardPolicy, cors_headers
from crux.transport.mcp_auth import McpAuthenticator

_ALLOW: Final = (b"allow", b"GET, HEAD, OPTIONS")


class WellKnown:
    """An ASGI application that serves `documents`, JSON by path, to anyone; every other path is 404."""

    def __init__(self, documents: Mapping[str, bytes], policy: GuardPolicy) -> None:
        self._documents = documents
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        document = self._documents.get(scope["path"])
        if document is None:
            await respond(send, 404)
        elif scope["method"] in ("GET", "HEAD"):
            # Of a HEAD the server keeps the head alone.
            await respond(send, 200, document, [JSON, *cors_headers(scope["headers"], self._policy)])
        elif scope["method"] == "OPTIONS":
            await respond(send, 204, headers=[_ALLOW, *cors_headers(scope["headers"], self._policy, preflight=True)])
        else:
            await respond(send, 405, headers=[_ALLOW])


def documents_of(
    settings: Settings, auth: McpAuthenticator, catalogue: Catalogue, *, node_id: str, base_url: str | None
) -> Mapping[str, bytes]:
    """The documents that the settings ask for, encoded. `base_url` is that of the HTTP API."""
    documents: dict[str, Mapping[str, object]] = {}
    if settings.mcp_resource_url is not None:
        documents[METADATA_PATH] = metadata(settings.mcp_resource_url, settings.mcp_auth_server)
    if settings.agent_card:
        documents[CARD_PATH] = agent_card(
            node_id=node_id,
            version=__version__,
            base_url=base_url,
            skills=[(tool.name, tool.description) for tool in catalogue.tools if tool.floor_rank is not None],
            has_agents=auth.has_agents,
            has_oauth=auth.has_oauth,
            required=auth.required,
        )
    return {path: msgspec.json.encode(document) for path, document in documents.items()}
