"""A caller of tools, for tests that make many calls."""

from __future__ import annotations

from typing import Any

import httpx

from tests.serving import BOB, EVE, Serving, bearer, text_of, tool

AS_BOB, AS_EVE = bearer(BOB), bearer(EVE)


class Agent:
    """One caller, and what it gets."""

    def __init__(self, client: httpx.AsyncClient, daemon: Serving, headers: dict[str, str] | None) -> None:
        self.client = client
        self.daemon = daemon
        self.headers = headers

    async def __call__(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        return text_of(await tool(self.client, self.daemon.mcp, name, self.headers, **arguments))

    async def refused(self, name: str, /, **arguments: Any) -> tuple[int, str, dict[str, Any]]:
        error = (await tool(self.client, self.daemon.mcp, name, self.headers, **arguments))["error"]
        return error["code"], error["message"], error.get("data", {})

    async def store(self, entity: str, value: str, key: str = "k", **more: Any) -> str:
        fact_id: str = (await self("store_fact", entity=entity, key=key, value=value, **more))["fact_id"]
        return fact_id
