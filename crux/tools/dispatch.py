"""The way of one call to an extension's endpoint, from the first check to the entry in the audit (seed 002 5.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Protocol

import trio
from attrs import field, frozen

from crux.actors.audit import RecordAudit, record
from crux.actors.clock import Clock, now_ms
from crux.actors.limiter import Admit
from crux.actors.mailbox import Mailbox
from crux.domain.audit import INVOKE_OK, INVOKE_REJECTED, AuditEvent
from crux.domain.bounds import NAME_SHOWN
from crux.domain.endpoints import Endpoint
from crux.domain.extensions import ExtensionGrant, InstalledExtension
from crux.domain.manifests import Json
from crux.domain.outbound import (
    Answer,
    DispatchOutcome,
    budget_of,
    cap_of,
    check_call,
    check_size,
    endpoint_of,
    request_body,
    response_in,
    sorted_out,
)
from crux.domain.outbound_config import OutboundConfig
from crux.domain.outbound_refusals import CANCELLED, audit_reason
from crux.logs import get_logger

log = get_logger("crux.dispatch")


# Who shares a connection to an endpoint: an extension, and a passport that calls it.
Party = tuple[str, str]


class Post(Protocol):
    """Sends `body` to `endpoint` in the name of `party` and gives the answer, whatever its status.

    Raises `Transport` where none came within `timeout_s`, `ResponseTooLarge` where it is above `max_response_bytes`,
    `EndpointNotAllowed` where the endpoint's address is none to call.
    """

    async def __call__(
        self,
        endpoint: Endpoint,
        body: bytes,
        *,
        party: Party,
        timeout_s: float,
        max_response_bytes: int,
        config: OutboundConfig,
    ) -> Answer: ...


@frozen
class Dispatcher:
    """Calls the tools of extensions. It stores nothing of what they answer."""

    limiter: Mailbox
    audit: Mailbox
    post: Post
    clock: Clock
    config: Callable[[], OutboundConfig]
    _numbers: Iterator[int] = field(factory=count, init=False, repr=False, eq=False)

    async def dispatch(
        self, installed: InstalledExtension, grant: ExtensionGrant, tool: str, args: object, passport: str
    ) -> DispatchOutcome:
        """Call `tool` for `passport`, and note in the audit how it went.

        Raises the refusal of the first step that refuses: those of `domain.outbound_refusals`, and `RateLimited`. A
        call that was admitted has used up one of its minute, however it ends. Cancellation leaves an entry in the
        audit; what the endpoint makes of the request is not known then.
        """
        try:
            outcome = await self._attempt(installed, grant, tool, args, passport)
        except Exception as error:
            await record(self.audit, self._event(installed, tool, passport, audit_reason(error)))
            raise
        except BaseException:
            if not self.audit.tell(RecordAudit((self._event(installed, tool, passport, CANCELLED),))):
                log.warning("a call that was given up is missing in the audit", extension_id=installed.manifest.id)
            raise
        await record(self.audit, self._event(installed, tool, passport, None))
        return outcome

    async def _attempt(
        self, installed: InstalledExtension, grant: ExtensionGrant, tool: str, args: object, passport: str
    ) -> DispatchOutcome:
        manifest, config, request_id = installed.manifest, self.config(), self._request_id()
        endpoint = endpoint_of(manifest, config)
        check_call(installed, grant, tool, passport)
        budget = budget_of(manifest, config)
        await self.limiter.ask(Admit(manifest.id, passport, cap_of(grant, config)))
        body = request_body(tool, args, passport, request_id, config)
        began = trio.current_time()
        answer = await self.post(
            endpoint,
            body,
            party=(manifest.id, passport),
            timeout_s=budget.timeout_s,
            max_response_bytes=budget.max_response_bytes,
            config=config,
        )
        elapsed_ms = round((trio.current_time() - began) * 1000)
        check_size(len(answer.body), budget.max_response_bytes)
        response = response_in(answer)
        writes, drop_reasons = sorted_out(response.fact_writes, grant.allowed_prefixes_write)
        return DispatchOutcome(
            result=bytes(response.result),
            writes=writes,
            drop_reasons=drop_reasons,
            upstream_status=answer.status,
            elapsed_ms=elapsed_ms,
            request_id=request_id,
        )

    def _request_id(self) -> str:
        """Nanoseconds; the last three digits keep calls of one microsecond apart, since endpoints tell by the id
        whether they have seen a call."""
        return f"req-{self.clock.now_us() * 1000 + next(self._numbers) % 1000}"

    def _event(self, installed: InstalledExtension, tool: str, passport: str, reason: str | None) -> AuditEvent:
        manifest = installed.manifest
        ok = reason is None
        named = {"tool_name": tool[:NAME_SHOWN]}
        detail = named if ok else {**named, "reason": reason}
        return AuditEvent(
            action=INVOKE_OK if ok else INVOKE_REJECTED,
            pack_id=manifest.id,
            ts_unix_ms=now_ms(self.clock),
            actor=passport,
            version=manifest.version,
            outcome="ok" if ok else "rejected",
            detail=Json.of(detail),
        )
