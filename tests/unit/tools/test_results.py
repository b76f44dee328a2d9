"""What a tool returns, as the result that goes out."""

import json
from typing import Any

import pytest

from crux.tools.results import LARGE_RESULT_BYTES, RawResult, encode_result, with_meta


def decoded(value: object, arguments: object = None) -> Any:
    return json.loads(encode_result(value, arguments))


def test_a_value_is_one_text_item_of_compact_json() -> None:
    assert encode_result({"a": "é"}, None) == '{"content":[{"type":"text","text":"{\\"a\\":\\"é\\"}"}]}'.encode()


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


def test_meta_is_added_to_a_result_without_any() -> None:
    assert json.loads(with_meta(encode_result(1, None), {"envelope": {}})) == {
        "content": [{"type": "text", "text": "1"}],
        "_meta": {"envelope": {}},
    }
