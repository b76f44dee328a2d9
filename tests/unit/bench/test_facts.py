"""What the bench takes for a right answer."""

import msgspec
import pytest

from bench.facts import COUNT, NEEDLE, PROOF, TOP_K, check_has, check_rows, make_facts, search, tool_answer, tool_call
from bench.failure import BenchFailed

FACTS = make_facts()


def rows(count: int, value: str) -> bytes:
    return tool_answer(msgspec.json.encode({"rows": [{"value": value}] * count}).decode())


def test_the_facts_are_the_same_in_every_process_and_no_two_share_a_key() -> None:
    assert make_facts() == FACTS
    assert len({(fact.entity, fact.key) for fact in FACTS}) == COUNT


def test_more_facts_than_an_answer_holds_have_the_needle_but_few() -> None:
    with_needle = [fact for fact in FACTS if NEEDLE in fact.value]
    assert TOP_K < len(with_needle) < COUNT / 50
    assert all((PROOF in fact.value) == (fact in with_needle) for fact in FACTS)


def test_a_search_of_the_facts_is_a_right_answer() -> None:
    check_rows(tool_answer(search(FACTS, NEEDLE.upper(), TOP_K)))


def test_an_echo_of_the_request_has_no_proof() -> None:
    assert PROOF.encode() not in tool_call("query_facts", {"query": NEEDLE, "top_k": TOP_K})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'{"result":{}}',
        b'{"result":{"content":[]}}',
        b'{"error":{"code":-32603,"message":"no"}}',
        b'{"result":{"isError":true,"content":[{"type":"text","text":"{}"}]}}',
        tool_answer("no rows"),
        tool_answer("[]"),
        tool_answer("{}"),
        rows(TOP_K - 1, PROOF),
        rows(TOP_K + 1, PROOF),
        rows(TOP_K, NEEDLE),
    ],
)
def test_anything_but_the_rows_asked_for_fails_the_bench(body: bytes) -> None:
    with pytest.raises(BenchFailed):
        check_rows(body)


def test_a_result_must_have_the_member_asked_for() -> None:
    check_has("agent_name", tool_answer('{"agent_name":"anonymous"}'))
    with pytest.raises(BenchFailed, match="agent_name"):
        check_has("agent_name", tool_answer('{"name":"anonymous"}'))
