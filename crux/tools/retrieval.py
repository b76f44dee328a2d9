"""The retrieval tools: search one tenant's index, and read what was found (memory contract 3)."""

from __future__ import annotations

import trio
from attrs import frozen

from crux.domain.answers import CrcSearch, PlainQuery, PlainScan, crc_search, plain_query, plain_scan
from crux.domain.documents import LONGEST_NAME
from crux.domain.expansion import (
    CrcExpansion,
    PlainExpansion,
    crc_expansion,
    plain_expansion,
    read_handles,
    unread,
)
from crux.domain.gaps import gap_of
from crux.domain.retrieval import LONGEST_QUERY_BYTES, Expand, Retrieve, Retrieved
from crux.domain.tokens import utf8_size
from crux.domain.traces import Effect
from crux.errors import InvalidArgument
from crux.tools.contract import is_plain
from crux.tools.registry import Call, Services, tool
from crux.tools.schema import arg, shortened

MOST_HITS = 1000
MOST_HANDLES = 256
ANY_TENANT = "*"


@frozen
class QueryArguments:
    tenant_id: str = arg("Whose index to search, such as default")
    query: str = arg("What to look for, in words that the text itself would use")
    limit: int = arg("Most hits returned, up to 1000", default=10, at_least=0, clamp=MOST_HITS)
    token_budget: int | None = arg(
        "Most tokens of hits returned; without it only limit bounds the answer", default=None, at_least=0
    )
    min_score: float | None = arg("Leave out hits that score below this", default=None)
    contract: str | None = arg("legacy gives the plain object without CRC-v1", default=None, hidden=True)


@tool(
    "query",
    plane="retrieval",
    result=CrcSearch,
    affinity="retrieval",
    floor_rank=2,
    crc_kind="search",
    examples=[{"tenant_id": "default", "query": "how are backups rotated", "token_budget": 2500}],
)
async def query(args: QueryArguments, call: Call) -> CrcSearch | PlainQuery:
    """Search documents and public facts of a tenant, best first: pointers with scores and what each costs to read,
    which words nothing is known of, and how much was left out. Read the hits that matter with query_expand."""
    began = trio.current_time()
    found = await search(args.tenant_id, args.query, args.limit, call.services, min_score=args.min_score)
    if is_plain(args.contract):
        plain = plain_query(found, args.token_budget)
        _count_cut("query", len(plain.results), found, call)
        return plain
    answer = crc_search(
        found,
        token_budget=args.token_budget,
        pointers_only=call.services.reversible_budget,
        took_ms=(trio.current_time() - began) * 1000,
    )
    _count_cut("query", len(answer.results), found, call)
    return answer


@frozen
class ScanArguments:
    tenant_id: str = arg("Whose index to search, such as default")
    query: str = arg("What to look for, in words that the text itself would use")
    limit: int = arg("Most hits returned, up to 1000", default=20, at_least=0, clamp=MOST_HITS)
    token_budget: int | None = arg("Most tokens of hits returned", default=None, at_least=0, hidden=True)
    contract: str | None = arg("legacy gives the plain object without CRC-v1", default=None, hidden=True)


@tool(
    "query_scan",
    plane="retrieval",
    result=CrcSearch,
    affinity="retrieval",
    floor_rank=3,
    crc_kind="search",
    examples=[{"tenant_id": "default", "query": "login flow"}],
)
async def query_scan(args: ScanArguments, call: Call) -> CrcSearch | PlainScan:
    """Look over what a tenant's index holds on something: more hits than query by default and no floor on scores. Take
    query when you know what you need. Returns pointers, scores and what each costs to read."""
    began = trio.current_time()
    found = await search(args.tenant_id, args.query, args.limit, call.services)
    if is_plain(args.contract):
        plain = plain_scan(found, args.token_budget)
        _count_cut("query_scan", len(plain.scan), found, call)
        return plain
    took_ms = (trio.current_time() - began) * 1000
    answer = crc_search(found, token_budget=args.token_budget, pointers_only=False, took_ms=took_ms)
    _count_cut("query_scan", len(answer.results), found, call)
    return answer


@frozen
class ExpandArguments:
    tenant_id: str = arg("Whose index the hits are of")
    result_ids: tuple[str, ...] = arg("Ids of pointers, such as 0:17, at most 256")
    contract: str | None = arg("legacy gives the plain object without CRC-v1", default=None, hidden=True)


@tool(
    "query_expand",
    plane="retrieval",
    result=CrcExpansion,
    effect=Effect.FACT_READ,
    affinity="retrieval",
    floor_rank=4,
    crc_kind="addressed",
    examples=[{"tenant_id": "default", "result_ids": ["0:12"]}],
)
async def query_expand(args: ExpandArguments, call: Call) -> CrcExpansion | PlainExpansion:
    """Read the texts of hits that query or query_scan returned, by their ids; token_count there says what each costs.
    An id whose text is gone is named under errors, the others are still answered."""
    tenant = tenant_named(args.tenant_id)
    if len(args.result_ids) > MOST_HANDLES:
        raise InvalidArgument(
            f"'result_ids' must be at most {MOST_HANDLES} ids, got {len(args.result_ids)}", data={"param": "result_ids"}
        )
    handles, errors = read_handles(args.result_ids)
    found = await call.services.recall.ask(Expand(tenant, tuple(handles.values())))
    errors += unread(found, handles)
    return (plain_expansion if is_plain(args.contract) else crc_expansion)(found.chunks, errors)


async def search(
    tenant_id: str, text: str, limit: int, services: Services, *, min_score: float | None = None
) -> Retrieved:
    """The best hits of a tenant's index. Words that it lacks are written down as a gap.

    Raises `InvalidArgument` for a tenant that is none and for a query that is too long.
    """
    tenant = tenant_named(tenant_id)
    if (size := utf8_size(text)) > LONGEST_QUERY_BYTES:
        raise InvalidArgument(
            f"'query' has {size} bytes and at most {LONGEST_QUERY_BYTES} are read; pass the words that matter",
            data={"param": "query", "longest_query_bytes": LONGEST_QUERY_BYTES},
        )
    found = await services.recall.ask(Retrieve(tenant, text, limit, min_score))
    if (gap := gap_of(found, tenant, services.clock.now_us())) is not None:
        services.gaps.tell(gap)
    return found


def tenant_named(tenant_id: str) -> str:
    """The tenant that an argument names; raises `InvalidArgument` for none, for all of them and for a name too long."""
    tenant = tenant_id.strip()
    if tenant in ("", ANY_TENANT) or len(tenant) > LONGEST_NAME:
        raise InvalidArgument(
            f"'tenant_id' must name one tenant in at most {LONGEST_NAME} characters, got {shortened(tenant_id)}",
            data={"param": "tenant_id", "required": True, "allow_wildcard": False},
        )
    return tenant


def _count_cut(name: str, returned: int, found: Retrieved, call: Call) -> None:
    if returned < len(found.hits):
        call.services.truncated(name, "token_budget")
