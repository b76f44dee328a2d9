"""The thousand facts that every server searches, and the answer that counts as right.

The data is the same in each run and each process: servers and generator build it alike.
"""

import random
from collections.abc import Mapping
from typing import Any

import msgspec
from attrs import frozen

from bench.failure import BenchFailed

COUNT = 1_000
TOP_K = 5
NEEDLE = "quokka"
"""A word in one fact of 125: more than `TOP_K`, far fewer than all."""
PROOF = "eucalyptus"
"""Stands in the values with the needle and not in the request, so that an echo of the request proves nothing."""

_WORDS = (
    "amber basalt cedar delta ember fjord garnet harbour indigo juniper kelp lagoon marble nectar opal pebble quartz "
    "river saffron tundra umber valley willow xenon yarrow zephyr"
).split()


@frozen
class Fact:
    """One fact as a client stores it."""

    entity: str
    key: str
    value: str


def make_facts() -> tuple[Fact, ...]:
    """`COUNT` facts about 50 entities, values of about 80 bytes; every 125th has the needle."""
    rng = random.Random(20)
    return tuple(
        Fact(
            entity=f"service-{number % 50}",
            key=f"setting-{number}",
            value=f"{NEEDLE} {PROOF} {number}"
            if number % 125 == 7
            else f"{' '.join(rng.choices(_WORDS, k=11))} {number}",
        )
        for number in range(COUNT)
    )


def search(facts: tuple[Fact, ...], query: str, top_k: int) -> str:
    """The peers' tool: scan for a word, as compact JSON of the first `top_k` rows."""
    word = query.lower()
    rows = [
        {"entity": fact.entity, "key": fact.key, "value": fact.value, "confidence": 1.0}
        for fact in facts
        if word in fact.value
    ]
    return msgspec.json.encode({"rows": rows[:top_k]}).decode()


def tool_call(tool: str, arguments: Mapping[str, object]) -> bytes:
    """The body of one `tools/call`."""
    params = {"name": tool, "arguments": arguments}
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})


def tool_answer(text: str) -> bytes:
    """The body of an answer whose only content is `text`."""
    return msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}})


def content_of(body: bytes) -> Any:
    """The JSON document in the text of a tool's answer; raises `BenchFailed` for an error or anything else."""
    try:
        answer = msgspec.json.decode(body)
        if "error" not in answer and not answer["result"].get("isError", False):
            return msgspec.json.decode(answer["result"]["content"][0]["text"])
    except (msgspec.DecodeError, LookupError, TypeError, AttributeError) as broken:
        raise BenchFailed(f"no tool result: {body[:300]!r}") from broken
    raise BenchFailed(f"the tool refused: {body[:300]!r}")


def check_rows(body: bytes) -> None:
    """Raise `BenchFailed` unless the answer has `TOP_K` rows and each is a fact with the needle."""
    content = content_of(body)
    rows = content.get("rows", []) if isinstance(content, dict) else []
    if len(rows) != TOP_K or not all(PROOF in row.get("value", "") for row in rows):
        raise BenchFailed(f"expected {TOP_K} rows with {PROOF!r}, got {body[:300]!r}")


def check_has(member: str, body: bytes) -> None:
    """Raise `BenchFailed` unless the result has `member`."""
    content = content_of(body)
    if not isinstance(content, dict) or member not in content:
        raise BenchFailed(f"expected a result with {member!r}, got {body[:300]!r}")
