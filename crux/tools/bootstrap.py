"""Runtime knowledge: facts under `__bootstrap__::`, and the output contract of every tool (seed 11.12)."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files

import msgspec
from attrs import frozen

from crux.domain.bootstrap import normalise_topic, topic_prefix
from crux.domain.commands import Search
from crux.domain.privacy import DAEMON, Viewer, split_entity
from crux.domain.tokens import of_text
from crux.domain.words import query_words
from crux.tools.registry import CRC_SCHEMA, CRC_WHEN, Call, Catalogue, tool
from crux.tools.schema import arg

MOST_ENTRIES = 100
TOOL_OUTPUT = "tool-output"


@frozen
class BootstrapArguments:
    topic: str | None = arg("doc, pattern, error, tool-output, or any other prefix; all when left out", default=None)
    query: str | None = arg("Words of which an entry must hold at least one", default=None)


class BootstrapEntry(msgspec.Struct, frozen=True):
    entity: str
    key: str
    value: str


class Bootstrap(msgspec.Struct, frozen=True):
    facts: tuple[BootstrapEntry, ...]
    total_tokens: int


class NoBootstrap(msgspec.Struct, frozen=True):
    """Nothing is known of the topic (Decision 41)."""

    facts: tuple[BootstrapEntry, ...]
    total_tokens: int
    message: str


@tool(
    "get_bootstrap",
    plane="facts",
    result=Bootstrap,
    affinity="memory",
    floor_rank=7,
    examples=[{"topic": "patterns"}],
)
async def get_bootstrap(args: BootstrapArguments, call: Call) -> Bootstrap | NoBootstrap:
    """Read how to work with this daemon: first steps, patterns, what errors mean, and what each tool returns (topic
    tool-output, with the tool's name as query). Take it at the start, or when a call fails in a way you did not
    expect."""
    found = await call.services.recall.ask(
        Search(
            viewer=Viewer((DAEMON, *call.viewer.owners)),
            now_us=call.services.clock.now_us(),
            entity_prefix=topic_prefix(args.topic),
            top_k=MOST_ENTRIES,
            decayed=False,
            tenant=None,
        )
    )
    stored = [BootstrapEntry(split_entity(fact.entity)[1], fact.key, fact.value) for fact in found.facts]
    if args.topic is not None and normalise_topic(args.topic) == TOOL_OUTPUT:
        stored += output_contracts(call.services.catalogue)
    words = query_words(args.query)
    entries = [entry for entry in stored if not words or _holds(entry, words)]
    total = sum(of_text(entry.value) for entry in entries)
    if entries:
        return Bootstrap(tuple(entries), total)
    about = f" for topic '{args.topic}'" if args.topic is not None else ""
    return NoBootstrap((), 0, f"no bootstrap knowledge{about}")


def _holds(entry: BootstrapEntry, words: Iterable[str]) -> bool:
    text = f"{entry.entity}\n{entry.key}\n{entry.value}".lower()
    return any(word in text for word in words)


def output_contracts(catalogue: Catalogue) -> Iterator[BootstrapEntry]:
    """What each of the catalogue's tools returns: MCP at this version has no field for it (seed 11.12).

    A tool that is served is described by its declaration, the others by the catalogue, and so marked.
    """
    yield _contract(
        "_contract",
        "crc-v1",
        {
            "schema": CRC_SCHEMA,
            "negotiate": "argument contract: 'legacy' gives the plain object",
            "envelope": "freshness, memories_used, receipts_used, autonomy_consumed and links of what was found",
            "default_when_negotiated": CRC_WHEN,
        },
    )
    for name, contract in _documented().items():
        served = catalogue.by_name.get(name)
        crc = {"contract": "crc-v1", "kind": contract.crc_kind, "schema": CRC_SCHEMA} if contract.crc_kind else {}
        described = {"output": contract.output, "served": False} if served is None else {"output": served.output}
        yield _contract(name, name, {**crc, **described})


class _Documented(msgspec.Struct, frozen=True):
    output: tuple[str, ...]
    crc_kind: str | None = None


@cache
def _documented() -> Mapping[str, _Documented]:
    """The output of every tool of the catalogue, served or not, in its order."""
    text = files("crux.tools").joinpath("contracts.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, _Documented])


def _contract(slug: str, key: str, value: dict[str, object]) -> BootstrapEntry:
    return BootstrapEntry(f"__bootstrap__::{TOOL_OUTPUT}:{slug}", key, msgspec.json.encode(value).decode())
