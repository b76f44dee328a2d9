"""What an agent does in a session, over one connection that stays open."""

from __future__ import annotations

import unicodedata

import jsonschema
import pytest

from crux import __version__
from crux.tools.catalogue import CATALOGUE
from tests.clients.client import Client, Exchange, Refused
from tests.clients.sdks import Kind
from tests.daemons import Daemon

TEXTS = {
    "emoji with joiners and tones": "👩‍👩‍👧‍👦 👋🏽 🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    "Chinese, Japanese, Korean": "記憶は続く。记忆犹存。기억은 남는다. 𠮷野家",
    "right to left, with marks": "שָׁלוֹם \u200fمرحبًا\u200f \u202babc\u202c",
    "combining characters": unicodedata.normalize("NFD", "Åéñ ế") + " next to " + unicodedata.normalize("NFC", "Åéñ ế"),
    "line ends of every kind": "a\nb\r\nc\rd\u0085e\u2028f\u2029g",
    "controls and blanks": " \t\x01\x1f\x7f\ufeff\u00a0\u200b\ufffd\U0010ffff ",
    "what JSON, SQL and HTML escape": """\\u0041 " ' \\ / </script> %s {0} '; DROP TABLE facts; --""",
}


def test_a_client_settles_on_the_version_that_crux_speaks(client: Client, kind: Kind, wire: list[Exchange]) -> None:
    assert client.server == f"crux {__version__}"
    assert client.protocol == "2024-11-05"
    client.tools()  # by its answer all of the handshake has been answered
    posts = [(exchange.method, exchange.status, exchange.error) for exchange in wire if exchange.verb == "POST"]
    handshake = [
        *((probe, 200, -32601) for probe in kind.probes),
        ("initialize", 200, None),
        ("notifications/initialized", 202, None),
    ]
    assert posts[: len(handshake)] == handshake


def test_a_client_opens_a_stream_and_does_without_ending_its_session(kind: Kind, daemon: Daemon) -> None:
    wire: list[Exchange] = []
    with kind.connect(daemon.mcp, None, wire) as client:
        client.tools()
    assert wire[-1].verb == "DELETE"
    assert {exchange.status for exchange in wire if exchange.verb == "GET"} == {200}
    assert {exchange.status for exchange in wire if exchange.verb == "DELETE"} == {405}


def test_the_tools_are_listed_in_catalogue_order(client: Client) -> None:
    listed = client.tools()
    assert [tool["name"] for tool in listed] == [tool.name for tool in CATALOGUE.tools]
    for tool in listed:
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        assert "crux" in tool["_meta"]


def test_a_fact_that_was_stored_is_found(client: Client, entity: str) -> None:
    stored = client.call("store_fact", entity=entity, key="owner", value="the platform team")
    assert (stored["entity"], stored["key"], stored["version"]) == (entity, "owner", 1)
    found = client.call("query_facts", query="platform", entity=entity, token_budget=500)
    assert [(row["fact_id"], row["value"]) for row in found["rows"]] == [(stored["fact_id"], "the platform team")]


def test_an_unknown_tool_is_refused_by_its_name(client: Client) -> None:
    with pytest.raises(Refused) as refused:
        client.call("nope")
    assert refused.value.code == -32601
    assert "unknown tool: nope" in refused.value.message
    assert refused.value.data is None


def test_an_unknown_method_is_refused_and_the_session_goes_on(client: Client) -> None:
    with pytest.raises(Refused) as refused:
        client.resources()
    assert refused.value.code == -32601
    assert "resources/list" in refused.value.message
    assert client.call("list_entities")["entities"] is not None


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("store_fact", {"entity": "a", "key": "k"}, "value"),
        ("store_fact", {"entity": "a", "key": "k", "value": 7}, "value"),
        ("store_fact", {"entity": "a", "key": "k", "value": "v", "horizon_class": "soon"}, "horizon_class"),
        ("query_facts", {"top_k": "ten"}, "top_k"),
        ("query_facts", {"token_budget": -1}, "token_budget"),
    ],
)
def test_a_wrong_argument_is_refused_by_its_name(
    client: Client, tool: str, arguments: dict[str, object], named: str
) -> None:
    with pytest.raises(Refused) as refused:
        client.call(tool, **arguments)
    assert refused.value.code == -32602
    assert f"'{named}'" in refused.value.message
    assert isinstance(refused.value.data, dict)
    assert refused.value.data["param"] == named


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_text_comes_back_as_it_was(client: Client, entity: str, text: str) -> None:
    client.call("store_fact", entity=entity, key="text", value=text)
    (row,) = client.call("query_facts", entity=entity)["rows"]
    assert row["value"].encode() == text.encode()


def test_a_megabyte_comes_back_as_it_was(client: Client, entity: str) -> None:
    text = "".join(f"line {number} holds ∞\n" for number in range(50_000))
    assert len(text.encode()) > 1_000_000
    client.call("store_fact", entity=entity, key="text", value=text)
    (row,) = client.call("query_facts", entity=entity)["rows"]
    assert row["value"] == text


def test_history_shows_what_was_replaced_and_deleted(client: Client, entity: str) -> None:
    first = client.call("store_fact", entity=entity, key="owner", value="one")
    second = client.call("store_fact", entity=entity, key="owner", value="two")
    assert second["superseded_fact_ids"] == [first["fact_id"]]
    assert client.call("delete_fact", fact_id=second["fact_id"]) == {"deleted": True, "fact_id": second["fact_id"]}
    assert client.call("query_facts", entity=entity)["rows"] == []
    versions = client.call("fact_history", entity=entity, key="owner")["versions"]
    assert [(version["value"], version["deleted"]) for version in versions] == [("one", False), ("two", True)]
    assert client.call("delete_fact", fact_id="f_unknown")["deleted"] is False


def test_what_was_stored_is_searched_for_and_read(client: Client, entity: str) -> None:
    client.call("store_fact", entity=entity, key="retry policy", value="exponential backoff, five tries, Zürich 東京")
    for question in (f"{entity} backoff", "zurich exponential tries", "東京 tries"):
        found = client.call("query", tenant_id="default", query=question, limit=50, token_budget=5000)
        hits = {
            row.get("entity"): pointer["id"] for row, pointer in zip(found["results"], found["pointers"], strict=True)
        }
        assert entity in hits, question
        read = client.call("query_expand", tenant_id="default", result_ids=[hits[entity]])
        assert read["results"][0]["content"] == (
            f"{entity} retry policy = exponential backoff, five tries, Zürich 東京"
        )


def test_memory_is_looked_at_linked_and_described(client: Client, entity: str) -> None:
    stored = client.call("store_fact", entity=entity, key="state", value="green", horizon_class="volatile")
    viewed = client.call("memory_view", entity=entity)
    assert [fact["id"] for fact in viewed["facts"]] == [stored["fact_id"]]
    assert client.call("memory_freshness", entity=entity)["rows"][0]["freshness"] == "fresh"
    record = client.call("entity_upsert", kind="story", id=entity, payload={"of": entity})["entity"]
    assert client.call("entity_get", kind="story", id=entity)["entity"] == record
    link = {"from_kind": "story", "from_id": entity, "to_kind": "story", "to_id": "end"}
    assert client.call("edge_upsert", **link, edge_kind="has")["edge"]["version"] >= 1
    contract = client.call("get_bootstrap", topic="tool-output", query="memory_view")
    assert any(fact["key"] == "memory_view" for fact in contract["facts"])
