"""Each tool that is listed, held against the catalogue that Crux is made from."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from attrs import frozen

from crux.domain.consequence import consequence_of
from crux.domain.surface import BIASES, SurfaceMode, shape
from crux.tools.bootstrap import output_contracts
from crux.tools.catalogue import CATALOGUE
from crux.tools.reference import reference_markdown
from crux.tools.registry import Tool

CONTRACT = {
    tool["name"]: tool for tool in json.loads((Path(__file__).parent.parent / "data/catalogue.json").read_text())
}
ORDER = list(CONTRACT)
WHOLE = 118  # tools without the one that a flag adds (seed 11.7)


@frozen
class Listed:
    name: str
    affinity: str | None
    floor_rank: int | None


each_tool = pytest.mark.parametrize("tool", CATALOGUE.tools, ids=lambda tool: tool.name)


def test_tools_are_listed_in_catalogue_order() -> None:
    names = [tool.name for tool in CATALOGUE.tools]
    assert names == sorted(names, key=ORDER.index)


def test_each_intent_brings_the_same_tools_as_the_whole_catalogue_as_far_as_they_are_served() -> None:
    whole = [Listed(t["name"], t.get("affinity"), t.get("floor_rank")) for t in CONTRACT.values() if "flag" not in t]
    assert len(whole) == WHOLE
    for intent in (None, *BIASES):
        promised = [tool.name for tool in shape(SurfaceMode.DYNAMIC, intent, (), whole)]
        given = [tool.name for tool in shape(SurfaceMode.DYNAMIC, intent, (), CATALOGUE.tools)]
        if len(CATALOGUE.tools) == WHOLE:
            assert given == promised
        else:  # tools that are not there yet leave room for others
            assert [name for name in promised if name in CATALOGUE.by_name] == [
                name for name in given if name in promised
            ]


@each_tool
def test_a_tool_is_what_the_catalogue_says(tool: Tool) -> None:
    contract = CONTRACT[tool.name]
    assert tool.plane == contract["plane"]
    assert tool.tier == contract["tier"]
    assert tool.affinity == contract.get("affinity")
    assert tool.floor_rank == contract.get("floor_rank")
    assert tool.crc_kind == contract.get("crc_kind")
    assert tool.envelope == contract["envelope"]


@each_tool
def test_a_tool_s_schema_is_the_catalogue_s(tool: Tool) -> None:
    contract = CONTRACT[tool.name]
    schema: Any = tool.listing()["inputSchema"]
    compare_objects(schema, {**contract, "type": "object", "properties": contract["params"]})
    assert schema["examples"] == contract["examples"]


def compare_objects(schema: Any, contract: dict[str, Any]) -> None:
    assert schema["type"] == contract["type"] == "object"
    assert list(schema["properties"]) == [parameter["name"] for parameter in contract["properties"]]
    assert schema.get("required", []) == [p["name"] for p in contract["properties"] if p["required"]]
    assert schema.get("additionalProperties") == contract.get("additional_properties")
    for parameter in contract["properties"]:
        found = schema["properties"][parameter["name"]]
        assert found["type"] == parameter["type"]
        assert found.get("enum") == parameter.get("enum")
        assert ("default" in found, found.get("default")) == ("default" in parameter, parameter.get("default"))
        assert found.get("items", {}).get("type") == parameter.get("items")
        assert (found.get("minimum"), found.get("maximum")) == (parameter.get("min"), parameter.get("max"))
        assert found["description"]
        if "properties" in parameter:
            compare_objects(found, parameter)


@each_tool
def test_a_tool_reads_the_arguments_that_are_not_listed_too(tool: Tool) -> None:
    hidden = {parameter.name for parameter in tool.parameters if parameter.about.hidden}
    assert hidden == {parameter["name"] for parameter in CONTRACT[tool.name].get("undeclared_params", [])}


@each_tool
def test_a_tool_s_own_examples_are_taken(tool: Tool) -> None:
    for example in tool.examples:
        tool.parse(example)


@each_tool
def test_a_tool_returns_the_documented_fields(tool: Tool) -> None:
    promised = {path.rstrip("?[]") for path in tool.output}
    assert {path.rstrip("?[]") for path in CONTRACT[tool.name]["output_fields"]} <= promised


@each_tool
def test_a_tool_carries_its_consequence_metadata(tool: Tool) -> None:
    meta: Any = tool.listing()["_meta"]
    assert meta == {"crux": {"consequence_metadata": consequence_of(tool.name).as_metadata()}}
    assert meta["crux"]["consequence_metadata"]["schema"] == "crux.tool_consequence_metadata.v1"


@each_tool
def test_a_description_starts_with_the_marker_and_says_enough(tool: Tool) -> None:
    assert tool.description.startswith(f"[{tool.tier}] ")
    assert 40 < len(tool.summary) < 400


@each_tool
def test_only_crc_tools_advertise_their_schema(tool: Tool) -> None:
    advert: Any = tool.listing().get("x-crux-output-schema")
    if tool.crc_kind is None:
        assert advert is None
    else:
        assert advert["$ref"] == "https://cuecrux.com/contracts/crc-v1.schema.json"
        assert (advert["contract"], advert["kind"]) == ("crc-v1", tool.crc_kind)
        assert "legacy" in advert["when"]


def test_every_tool_of_the_catalogue_has_an_output_contract() -> None:
    contracts = {entry.key: msgspec.json.decode(entry.value) for entry in output_contracts(CATALOGUE)}
    assert list(contracts) == ["crc-v1", *CONTRACT]
    assert len(CONTRACT) == WHOLE + 1
    for name, contract in CONTRACT.items():
        assert contracts[name].get("kind") == contract.get("crc_kind")
        if (served := CATALOGUE.by_name.get(name)) is None:
            assert (contracts[name]["output"], contracts[name]["served"]) == (contract["output_fields"], False)
        else:
            assert contracts[name]["output"] == list(served.output)
            assert "served" not in contracts[name]


def test_the_reference_page_is_up_to_date() -> None:
    page = Path(__file__).parent.parent.parent / "docs" / "tools.md"
    assert page.read_text() == reference_markdown(), "run make docs"
