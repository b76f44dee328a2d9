"""What a tool returns, as the result that goes out."""

import json
from typing import Any

import pytest

from crux.domain.envelope import Envelope
from crux.domain.recall import Autonomy
from crux.tools.results import LARGE_RESULT_BYTES, RawResult, WithMeta, result_of


def decoded(value: object, arguments: object = None) -> Any:
    return json.loads(result_of(value, arguments).encoded())


def test_a_value_is_one_text_item_of_compact_json() -> None:
    assert result_of({"a": "é"}, None).encoded() == '{"content":[{"type":"text","text":"{\\"a\\":\\"é\\"}"}]}'.encode()


def of_size(size: int) -> str:
    return "x" * (size - 2)


@pytest.mark.parametrize("arguments", [None, {}, {"token_budget": None}, [1], "token_budget"])
def test_a_large_result_without_a_budget_says_how_to_narrow_it(arguments: object) -> None:
    assert "_meta" not in decoded(of_size(LARGE_RESULT_BYTES), arguments)
    assert "token_budget" in decoded(of_size(LARGE_RESULT_BYTES + 1), arguments)["_meta"]["crux"]["hint"]


def test_who_set_a_budget_is_not_told_to() -> None:
    assert "_meta" not in decoded(of_size(LARGE_RESULT_BYTES + 1), {"token_budget": 0})


def test_a_raw_result_goes_out_as_it_is() -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    assert decoded(RawResult((image,))) == {"content": [image]}
    assert decoded(RawResult.failure("no")) == {"content": [{"type": "text", "text": "no"}], "isError": True}


def test_an_envelope_goes_out_beside_the_result_and_is_no_part_of_its_size() -> None:
    envelope = Envelope((), (), Autonomy("facts:read", 0, "agent:bob"))
    large = of_size(LARGE_RESULT_BYTES + 1)
    result = result_of(WithMeta(large, {"envelope": envelope}), None)
    assert result.body == result_of(large, None).body
    meta = json.loads(result.encoded())["_meta"]
    assert set(meta) == {"envelope", "crux"}
    assert meta["envelope"] == {
        "receipts_used": [],
        "memories_used": [],
        "autonomy_consumed": {"capability": "facts:read", "cost_credits": 0, "scope": "agent:bob"},
        "predicted_effects": [],
        "links": {},
    }
