"""The result of `tools/list`: what the token permits, then what the surface shows, then JSON (seed 11.8 and 11.10)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from crux.actors.intents import CurrentIntent
from crux.actors.ledger import Ledger
from crux.actors.traces import RecentCalls
from crux.domain.ledger import offer
from crux.domain.router import Router
from crux.domain.surface import SurfaceMode, shape
from crux.tools.registry import Call, Catalogue, Tool

# Encoded lists that are kept: a dynamic surface makes one for each choice of tools.
VARIANTS_KEPT = 64


class Listing:
    """Gives each caller its list. A tool is encoded once, and a list of tools once for as long as it is asked for."""

    def __init__(
        self, catalogue: Catalogue, router: Router | None, mode: SurfaceMode, ledger: Ledger | None = None
    ) -> None:
        self._tools = catalogue.tools
        self._router = router
        self._mode = mode
        self._ledger = ledger
        self._entries = {tool.name: msgspec.json.encode(tool.listing(router)) for tool in catalogue.tools}
        self._meta = b"" if router is None else b',"_meta":' + msgspec.json.encode({"crux": router.stamp()})
        self._permitted: dict[tuple[bool, bool], Sequence[Tool]] = {}
        self._encode = lru_cache(VARIANTS_KEPT)(self._encode_once)

    async def of(self, call: Call) -> bytes:
        """The encoded result that shows this caller its list."""
        services = call.services
        intent: str | None = None
        recent: tuple[str, ...] = ()
        if self._mode is SurfaceMode.DYNAMIC:
            intent = await services.intents.ask(CurrentIntent(call.passport_key))
            recent = await services.traces.ask(RecentCalls(call.passport_key))
        shown = shape(self._mode, intent, recent, self._permitted_at(services.clock.now_us() // 1_000_000))
        names = tuple(tool.name for tool in shown)
        if self._ledger is not None:
            self._ledger.record(offer(call.passport_key, names, self._mode))
        return self._encode(names)

    def _permitted_at(self, now_s: int) -> Sequence[Tool]:
        if self._router is None:
            return self._tools
        phase = self._router.phase(now_s=now_s)
        if (permitted := self._permitted.get(phase)) is None:
            permitted = self._permitted[phase] = self._router.permitted(self._tools, now_s=now_s)
        return permitted

    def _encode_once(self, names: tuple[str, ...]) -> bytes:
        entries = b",".join(self._entries[name] for name in names)
        return b'{"tools":[' + entries + b"]" + self._meta + b"}"
