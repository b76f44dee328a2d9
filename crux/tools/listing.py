"""The result of `tools/list`: what the token permits, then what the surface shows, then JSON (seed 11.8 and 11.10)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache, partial

import msgspec

from crux.actors.extension_messages import ToolsFor
from crux.actors.intents import CurrentIntent
from crux.actors.ledger import Ledger
from crux.actors.traces import RecentCalls
from crux.domain.bounds import put_latest
from crux.domain.callers import MOST_CALLERS
from crux.domain.extensions import GrantedTool
from crux.domain.ledger import offer
from crux.domain.router import Router
from crux.domain.surface import ExtensionNames, SurfaceMode, shape
from crux.errors import CruxError
from crux.logs import get_logger
from crux.tools.listed import ListedTool, listed_granted, listed_own
from crux.tools.registry import Call, Catalogue

# Encoded lists that are kept: a dynamic surface makes one for each choice of tools.
VARIANTS_KEPT = 64
# Encoded tools of extensions that are kept.
ENTRIES_KEPT = 4096
# What a list waits for the tools of extensions.
TOOLS_S = 2.0

log = get_logger("crux.listing")


class Listing:
    """Gives each caller its list. A tool is encoded once, and a list of tools once for as long as it is asked for."""

    def __init__(
        self,
        catalogue: Catalogue,
        router: Router | None,
        mode: SurfaceMode,
        ledger: Ledger | None = None,
        extension_names: ExtensionNames = ExtensionNames.VERBATIM,
    ) -> None:
        self._catalogue = catalogue
        self._router = router
        self._mode = mode
        self._ledger = ledger
        self._own = tuple(listed_own(tool, router) for tool in catalogue.tools)
        self._meta = b"" if router is None else b',"_meta":' + msgspec.json.encode({"crux": router.stamp()})
        self._permitted: dict[tuple[bool, bool], Sequence[ListedTool]] = {}
        self._granted: OrderedDict[str, tuple[GrantedTool, ...]] = OrderedDict()
        self._listed = lru_cache(ENTRIES_KEPT)(partial(listed_granted, names=extension_names, router=router))
        self._encode = lru_cache(VARIANTS_KEPT)(self._encode_once)

    async def of(self, call: Call) -> bytes:
        """The encoded result that shows this caller its list."""
        services = call.services
        intent: str | None = None
        recent: tuple[str, ...] = ()
        if self._mode is SurfaceMode.DYNAMIC:
            intent = await services.intents.ask(CurrentIntent(call.passport_key))
            recent = await services.traces.ask(RecentCalls(call.passport_key))
        now_s = services.clock.now_us() // 1_000_000
        tools = (*self._permitted_at(now_s), *await self._of_extensions(call, now_s))
        shown = shape(self._mode, intent, recent, tools)
        if self._ledger is not None:
            names = tuple(tool.name for tool in shown)
            self._ledger.record(offer(call.passport_key, names, self._mode))
        return self._encode(shown)

    def _permitted_at(self, now_s: int) -> Sequence[ListedTool]:
        if self._router is None:
            return self._own
        phase = self._router.phase(now_s=now_s)
        if (permitted := self._permitted.get(phase)) is None:
            permitted = self._permitted[phase] = self._router.permitted(self._own, now_s=now_s)
        return permitted

    async def _of_extensions(self, call: Call, now_s: int) -> Sequence[ListedTool]:
        """What the caller's passport was granted and the token permits. A name of the catalogue's is the catalogue's:
        a newer daemon may have a tool of a name that an extension took before."""
        passport = call.extension_passport
        if passport is None:
            return ()
        try:
            granted = await call.services.extensions.ask(ToolsFor(passport), deadline_s=TOOLS_S)
            put_latest(self._granted, passport, granted, MOST_CALLERS)
        except CruxError as error:
            # Hosts drop a server whose list fails, and the tools of the catalogue are there all the same.
            log.warning("the tools of extensions are listed as they were last known", reason=error.message)
            granted = self._granted.get(passport, ())
        tools = [self._listed(one) for one in granted if one.tool.name not in self._catalogue.by_name]
        return tools if self._router is None else self._router.permitted(tools, now_s=now_s)

    def _encode_once(self, shown: tuple[ListedTool, ...]) -> bytes:
        entries = b",".join(tool.entry for tool in shown)
        return b'{"tools":[' + entries + b"]" + self._meta + b"}"
