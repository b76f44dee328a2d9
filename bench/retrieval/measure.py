"""One size of the corpus: fill a daemon and a bare index side by side, then ask both the same questions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import msgspec
import trio
from attrs import evolve, frozen

from bench import load
from bench.failure import BenchFailed
from bench.retrieval.corpus import KINDS, Corpus, Document, Question
from bench.retrieval.raw import Raw
from bench.servers import Cores, crux, running

TOP = 10
# Documents of one request and of one bare transaction: some 4 MB.
BATCH = 5000
PASSES = 3
# Stores that are timed alone, and again while queries come as fast as they are answered.
STORES = 400
STORM_CLIENTS = 2
OPERATOR = {"X-Corecrux-Scopes": "admin:write facts:write query:read"}


@frozen(kw_only=True)
class Quality:
    """How well questions of one kind were answered: the share whose answer was among the first ten, and the mean of
    1/rank."""

    recall: float
    mrr: float


@frozen(kw_only=True)
class Figures:
    """One size. Latencies are milliseconds over HTTP; `took_` is what the tool says that it took, and `raw_` ones are
    of the bare index, in this process."""

    size: int
    quality: dict[str, Quality]
    stale_shown: int
    p50_ms: float
    p95_ms: float
    took_p50_ms: float
    raw_p50_ms: float
    raw_p95_ms: float
    docs_per_s: float
    raw_docs_per_s: float
    bytes_per_doc: float
    store_p95_ms: float
    store_p95_in_storm_ms: float
    storm_queries_per_s: float


async def measure(size: int, cores: Cores, work_dir: Path, tell: Callable[[str], None]) -> Figures:
    """Fill, ask, and store under load. Raises `BenchFailed` for an answer that is none."""
    corpus = Corpus(size)
    data_dir = work_dir / f"crux-{size}"
    data_dir.mkdir()
    raw = Raw(work_dir / f"raw-{size}.db")
    async with running(crux(data_dir), cores, work_dir) as server, httpx.AsyncClient(timeout=120) as client:
        daemon = Daemon(client, server.port, server.ready_port, load.Connection(server.port))
        raw_s, our_s = await _fill(corpus, raw, daemon, tell)
        for entity, key, value in corpus.facts():
            await daemon.call("store_fact", entity=entity, key=key, value=value)
        tell(f"{size} documents: settling")
        await trio.sleep(3)
        questions = corpus.questions()
        tell(f"{size} documents: {len(questions)} questions")
        quality, stale = await _ask_for_quality(questions, daemon)
        ours, took, bare = [], [], []
        for _ in range(PASSES):
            for question in questions:
                elapsed_s, took_ms = await daemon.timed(question.text)
                ours.append(elapsed_s)
                took.append(took_ms / 1000)
                bare.append(raw.query(question.text))
        tell(f"{size} documents: storing in a storm of queries")
        calm = [await daemon.store(number) for number in range(STORES)]
        stormy, asked, storm_s = await _store_in_storm(daemon, questions)
    raw.close()
    stored = sum(path.stat().st_size for path in data_dir.iterdir() if path.name.startswith("crux.db"))
    return Figures(
        size=size,
        quality=quality,
        stale_shown=stale,
        p50_ms=share(ours, 0.5),
        p95_ms=share(ours, 0.95),
        took_p50_ms=share(took, 0.5),
        raw_p50_ms=share(bare, 0.5),
        raw_p95_ms=share(bare, 0.95),
        docs_per_s=size / our_s,
        raw_docs_per_s=size / raw_s,
        bytes_per_doc=stored / size,
        store_p95_ms=share(calm, 0.95),
        store_p95_in_storm_ms=share(stormy, 0.95),
        storm_queries_per_s=asked / storm_s,
    )


@frozen
class Daemon:
    """The daemon under test, as its clients see it."""

    client: httpx.AsyncClient
    mcp_port: int
    http_port: int
    mcp: load.Connection

    async def ingest(self, documents: Sequence[Document]) -> float:
        """Send documents in one request; the seconds until they are kept."""
        body = {
            "tenant_id": "default",
            "documents": [{"id": document.name, "text": document.text} for document in documents],
        }
        content = msgspec.json.encode(body)
        began = time.perf_counter()
        answer = await self.client.post(
            f"http://127.0.0.1:{self.http_port}/v1/local/ingest", content=content, headers=OPERATOR
        )
        elapsed_s = time.perf_counter() - began
        if answer.status_code != 200 or answer.json()["stored"] != len(documents):
            raise BenchFailed(f"ingest answered {answer.status_code}: {answer.text[:200]}")
        return elapsed_s

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """A tool's answer."""
        result = msgspec.json.decode(await self.mcp.ask(load.post(self.mcp_port, _call(name, arguments))))
        if "result" not in result:
            raise BenchFailed(f"{name} answered {str(result)[:200]}")
        found: dict[str, Any] = msgspec.json.decode(result["result"]["content"][0]["text"])
        return found

    async def query(self, text: str) -> list[dict[str, Any]]:
        """The hits of a search, the best first."""
        found = await self.call("query", tenant_id="default", query=text, limit=TOP)
        hits: list[dict[str, Any]] = found["results"]
        return hits

    async def timed(self, text: str) -> tuple[float, float]:
        """The seconds that a search takes over HTTP, and the milliseconds that it says it took."""
        began = time.perf_counter()
        found = await self.call("query", tenant_id="default", query=text, limit=TOP)
        return time.perf_counter() - began, found["meta"]["took_ms"]

    async def store(self, number: int) -> float:
        """The seconds that storing a fact takes."""
        began = time.perf_counter()
        await self.call("store_fact", entity=f"storm:{number % 97}", key="state", value=f"value {number} of the bench")
        return time.perf_counter() - began


async def _fill(corpus: Corpus, raw: Raw, daemon: Daemon, tell: Callable[[str], None]) -> tuple[float, float]:
    """Put the corpus into both, batch by batch in turn; the seconds that each took in all."""
    raw_s = our_s = 0.0
    for number, batch in enumerate(_batches(corpus.documents(), BATCH), start=1):
        tell(f"{corpus.size} documents: {number * BATCH:,} ingested")
        raw_s += raw.insert(batch)
        our_s += await daemon.ingest(batch)
    return raw_s, our_s


async def _ask_for_quality(questions: Iterable[Question], daemon: Daemon) -> tuple[dict[str, Quality], int]:
    """How well each kind is answered, and how many answers showed a fact that was replaced."""
    ranks: dict[str, list[int | None]] = {kind: [] for kind in KINDS}
    stale = 0
    for question in questions:
        hits = await daemon.query(question.text)
        names = [hit.get("document") or hit.get("entity") for hit in hits]
        ranks[question.kind].append(next((n for n, name in enumerate(names, 1) if name in question.answers), None))
        if question.kind == "superseded":
            handles = [f"{hit['segment_index']}:{hit['doc_id']}" for hit in hits]
            texts = await daemon.call("query_expand", tenant_id="default", result_ids=handles)
            stale += sum("quondam" in text["content"] for text in texts["results"])
    return {
        kind: Quality(
            recall=sum(rank is not None for rank in found) / len(found),
            mrr=sum(1 / rank for rank in found if rank is not None) / len(found),
        )
        for kind, found in ranks.items()
    }, stale


async def _store_in_storm(daemon: Daemon, questions: Sequence[Question]) -> tuple[list[float], int, float]:
    """The seconds that each store takes while others search all the time; how many searches, in how many seconds."""
    asked = 0

    async def storm(offset: int) -> None:
        nonlocal asked
        place = offset
        other = evolve(daemon, mcp=load.Connection(daemon.mcp_port))
        while True:
            await other.query(questions[place % len(questions)].text)
            asked += 1
            place += 1

    began = time.perf_counter()
    async with trio.open_nursery() as nursery:
        for client in range(STORM_CLIENTS):
            nursery.start_soon(storm, client * 17)
        await trio.sleep(0.5)
        stores = [await daemon.store(number) for number in range(STORES)]
        nursery.cancel_scope.cancel()
    return stores, asked, time.perf_counter() - began


def _call(name: str, arguments: dict[str, Any]) -> bytes:
    params = {"name": name, "arguments": arguments}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def share(seconds: Sequence[float], part: float) -> float:
    """The milliseconds that this part of all stays under."""
    return sorted(seconds)[min(int(len(seconds) * part), len(seconds) - 1)] * 1000


def _batches(documents: Iterator[Document], size: int) -> Iterator[list[Document]]:
    while batch := list(islice(documents, size)):
        yield batch
