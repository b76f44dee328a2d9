"""Whether the daemon is well, which build it is, and what its actors are at (HTTP API contract 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from crux import __version__
from crux.actors.figures import BUCKETS_S, Report
from crux.domain.commands import CheckReadiness
from crux.errors import CruxError
from crux.transport.rest.route import ADMIN, PUBLIC, HttpCall, Reply, json_reply, route

READINESS_DEADLINE_S = 2.0
PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"

# Nothing hosted can be configured in this build, so these never change (identity contract 11.2).
_SYNC = {
    "mode": "local_only",
    "configured": False,
    "background_sync_enabled": False,
    "degraded": False,
    "degraded_reason": None,
    "remote_url_redacted": None,
    "api_key_configured": False,
}
_UPDATE = {
    "enabled": False,
    "state": "disabled",
    "ahead_by": 0,
    "behind_by": 0,
    "comparison_stale": False,
    "upgrade_hint": "update checks are off: compare this version with the releases of the project",
}


@route("GET", "/healthz", PUBLIC)
async def healthz(call: HttpCall) -> Reply:
    """The process runs and answers."""
    return json_reply({"ok": True, "build": {"version": __version__}})


@route("GET", "/readyz", PUBLIC)
async def readyz(call: HttpCall) -> Reply:
    """Writes are kept: the store says so itself, and in time."""
    facts = call.api.services.facts
    try:
        problems = (await facts.ask(CheckReadiness(), deadline_s=READINESS_DEADLINE_S)).problems
    except CruxError as error:
        problems = ((facts.name, error.message),)
    if problems:
        checks = [{"name": name, "ok": False, "error": error} for name, error in problems]
        return json_reply({"ok": False, "checks": checks}, 503)
    return json_reply({"ok": True})


@route("GET", "/metrics", PUBLIC)
async def metrics(call: HttpCall) -> Reply:
    """The figures for Prometheus."""
    return Reply(call.api.metrics.exposition(), content_type=PROMETHEUS_TEXT)


@route("GET", "/v1/version", PUBLIC)
async def version(call: HttpCall) -> Reply:
    """Which build this is and what it can do."""
    return json_reply(
        {
            "version": __version__,
            "product": "crux",
            "features": {
                "text_search": False,
                "graph_expand": False,
                "self_observe": False,
                "mcp": call.api.mcp_enabled,
                "embeddings": False,
            },
            "sync": _SYNC,
            "update": _UPDATE,
        }
    )


@route("GET", "/v1/actors", ADMIN)
async def actors(call: HttpCall) -> Reply:
    """What every actor has done, and what waits for it."""
    return json_reply({"actors": [_actor(mailbox.report()) for mailbox in call.api.mailboxes]})


ROUTES = (healthz, readyz, metrics, version, actors)


def _actor(report: Report) -> dict[str, object]:
    count = sum(report.handling_counts)
    return {
        "name": report.name,
        "depth": report.depth,
        "capacity": report.capacity,
        "oldest_s": report.oldest_s,
        "handled": report.handled,
        "refused": report.refused,
        "crashed": report.crashed,
        "abandoned": report.abandoned,
        "dropped": report.dropped,
        "overloaded": report.overloaded,
        "restarts": report.restarts,
        "handling": {
            "count": count,
            "mean_ms": report.handling_sum_s / count * 1000 if count else None,
            "p50_ms": _percentile_ms(report.handling_counts, 0.50),
            "p99_ms": _percentile_ms(report.handling_counts, 0.99),
        },
    }


def _percentile_ms(counts: Sequence[int], part: float) -> float | None:
    """The upper bound of the bucket that this part of all messages is reached in; None without one."""
    reached = list(accumulate(counts))
    bucket = next((i for i, total in enumerate(reached) if total and total >= reached[-1] * part), len(BUCKETS_S))
    return BUCKETS_S[bucket] * 1000 if bucket < len(BUCKETS_S) else None
