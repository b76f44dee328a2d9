import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.bootstrap import STOCK, Entry, normalise_topic, topic_prefix

CATALOGUE = Path(__file__).parent.parent.parent / "data" / "catalogue.json"
# Those that later releases bring are named on the condition that they are listed.
TOOLS_NAMED = {tool["name"] for tool in json.loads(CATALOGUE.read_text())}
ARGUMENTS_NAMED = {"token_budget", "source_receipt", "horizon_class", "result_ids", "tenant_id", "top_k", "min_score"}
OTHER_WORDS = {
    "error_code", "reason_code", "capability_not_permitted", "token_expired", "refusal_receipt", "resource_metadata",
    "requires_passport",
    "audit_review", "compliance_export", "document_ingest", "session_review", "knowledge_query",
}  # fmt: skip
# What no release has yet.
NOT_THERE = re.compile(r"stdio|\bext\.")


@pytest.mark.parametrize(
    ("topic", "prefix"),
    [
        ("doc", "__bootstrap__::doc:"),
        ("docs", "__bootstrap__::doc:"),
        ("pattern", "__bootstrap__::pattern:"),
        ("patterns", "__bootstrap__::pattern:"),
        ("error", "__bootstrap__::resolution:"),
        ("errors", "__bootstrap__::resolution:"),
        ("resolution", "__bootstrap__::resolution:"),
        ("resolutions", "__bootstrap__::resolution:"),
        ("tool", "__bootstrap__::tool-output:"),
        ("tool-output", "__bootstrap__::tool-output:"),
        ("tool-outputs", "__bootstrap__::tool-output:"),
        (" Docs\n", "__bootstrap__::doc:"),
        ("TOOL-OUTPUT", "__bootstrap__::tool-output:"),
        ("Deploy", "__bootstrap__::Deploy:"),
        (" team:rules ", "__bootstrap__::team:rules:"),
        ("tools", "__bootstrap__::tools:"),
        ("", "__bootstrap__:::"),
        (None, "__bootstrap__::"),
    ],
)
def test_a_topic_names_a_prefix(topic: str | None, prefix: str) -> None:
    assert topic_prefix(topic) == prefix


@given(st.text())
def test_normalising_a_topic_twice_changes_nothing_more(topic: str) -> None:
    once = normalise_topic(topic)
    assert normalise_topic(once) == once
    assert topic_prefix(topic) == f"__bootstrap__::{once}:"


def test_the_stock_covers_these_subjects() -> None:
    assert [entry.entity.removeprefix("__bootstrap__::") for entry in STOCK] == [
        "doc:getting-started",
        "doc:endpoints",
        "doc:identity-and-privacy",
        "doc:local-and-hosted",
        "doc:tool-surface",
        "pattern:session-loop",
        "pattern:recall-before-act",
        "pattern:store-facts-well",
        "pattern:scan-then-expand",
        "pattern:tend-memory",
        "pattern:records-and-links",
        "pattern:coordinate",
        "pattern:check-posture",
        "resolution:method-not-found",
        "resolution:capability-denied",
        "resolution:invalid-params",
        "resolution:unauthorized",
    ]


@pytest.mark.parametrize("entry", STOCK, ids=lambda entry: entry.entity)
def test_an_entry_is_short_and_names_only_what_exists(entry: Entry) -> None:
    assert 60 <= len(entry.value.split()) <= 140
    assert 0 < len(entry.key) <= 60
    assert entry.value.isprintable()
    words = set(re.findall(r"(?<![_\w])[a-z]+(?:_[a-z]+)+(?![_\w])", entry.value))
    assert words <= TOOLS_NAMED | ARGUMENTS_NAMED | OTHER_WORDS
    assert NOT_THERE.search(entry.value) is None
    assert set(re.findall(r"(?<!-)\b\d{5}\b", entry.value)) <= {"14800", "14801"}


@pytest.mark.parametrize("search", ["integration", "automatic integration", "upgrade", "backup"])
def test_a_search_that_a_status_tool_suggests_finds_an_entry_of_docs(search: str) -> None:
    docs = [entry.value.lower() for entry in STOCK if entry.entity.startswith(topic_prefix("docs"))]
    assert any(all(word in text for word in search.split()) for text in docs)
