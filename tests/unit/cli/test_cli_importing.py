import json
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.cli import importing
from crux.cli.importing import Line, Numbered, batches, choose, read_lines
from crux.errors import InvalidArgument
from tests.unit.cli.conftest import Cli
from tests.unit.cli.stub import Stub, fact


def as_lines(*facts: dict[str, object]) -> bytes:
    return b"".join(json.dumps(fact).encode() + b"\n" for fact in facts)


def stored(facts: list[dict[str, object]]) -> tuple[list[object], dict[str, int]]:
    drafts, left_out = choose(read_lines(as_lines(*facts).splitlines()))
    return [json.loads(bytes(numbered.draft))["value"] for numbered in drafts], dict(left_out)


def test_an_exported_fact_is_sent_with_what_its_writer_decided(cli: Cli, stub: Stub, tmp_path: Path) -> None:
    stub.answer("PUT /v1/facts/bulk", {"facts": []}, status=201)
    file = tmp_path / "facts.jsonl"
    file.write_bytes(
        as_lines(fact(horizon_class="stable", source_receipt="r"), {"entity": "e", "key": "k", "value": ""})
    )
    result = cli("facts", "--url", stub.url, "import", str(file))
    assert (result.exit_code, result.stdout, result.stderr) == (0, "imported 2 facts\n", "")
    assert stub.asked[0].json() == [
        {
            "entity": "project-alpha",
            "key": "status",
            "value": "shipped",
            "confidence": 0.9,
            "source_receipt": "r",
            "horizon_class": "stable",
        },
        {"entity": "e", "key": "k", "value": ""},
    ]


def test_standard_input_can_be_imported(cli: Cli, stub: Stub) -> None:
    stub.answer("PUT /v1/facts/bulk", {"facts": []}, status=201)
    result = cli("facts", "--url", stub.url, "import", "-", stdin=b"\n \n" + as_lines(fact()))
    assert result.stdout == "imported 1 facts\n"


def test_an_empty_file_asks_the_daemon_nothing(cli: Cli, stub: Stub) -> None:
    result = cli("facts", "--url", stub.url, "import", "-", stdin=b"")
    assert (result.exit_code, result.stdout, stub.asked) == (0, "imported 0 facts\n", [])


def chain(*links: tuple[str, str | None], **members: object) -> list[dict[str, object]]:
    """One chain of facts, each (id, id of what replaced it); values are the ids."""
    return [fact(fact_id=own, value=own, superseded_by=by, **members) for own, by in links]


@pytest.mark.parametrize(
    ("facts", "values", "left_out"),
    [
        (chain(("a", "b"), ("b", "c"), ("c", None)), ["a", "b", "c"], {}),
        (chain(("a", "b"), ("b", "c")), [], {"retired": 2}),
        (chain(("a", "x"), ("b", None)), ["b"], {"retired": 1}),
        ([*chain(("a", "b")), *chain(("b", None), entity="other")], ["b"], {"retired": 1}),
        ([*chain(("a", "b")), *chain(("b", None), deleted=True)], [], {"retired": 1, "deleted": 1}),
        (chain(("a", None), private=True), [], {"private": 1}),
        (chain(("a", None), entity="__ops__::x"), [], {"of the daemon's own": 1}),
        (chain(("a", None), entity="__agent::b::x"), [], {"of the daemon's own": 1}),
        (chain(("a", None), entity="__bootstrap__::x"), ["a"], {}),
    ],
)
def test_what_was_gone_private_or_not_ours_does_not_come_back(
    facts: list[dict[str, object]], values: list[str], left_out: dict[str, int]
) -> None:
    assert stored(facts) == (values, left_out)


def test_what_is_left_out_is_counted(cli: Cli, stub: Stub) -> None:
    stub.answer("PUT /v1/facts/bulk", {"facts": []}, status=201)
    content = as_lines(fact(), fact(private=True), fact(deleted=True), fact(deleted=True))
    result = cli("facts", "--url", stub.url, "import", "-", stdin=content)
    assert result.stdout == "imported 1 facts; left out 2 deleted, 1 private\n"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "line 2: Input data was truncated"),
        (b"[]", "line 2: Expected `object`, got `array`"),
        (b'{"entity": "e", "key": "k"}', "line 2: Object missing required field `value`"),
        (b'{"entity": "", "key": "k", "value": "v"}', "line 2: Expected `str` of length >= 1 - at `$.entity`"),
        (b'{"entity": "e", "key": "k", "value": 1}', "line 2: Expected `str`, got `int` - at `$.value`"),
        (b'{"entity": "e", "key": "k", "value": "v", "confidence": 2}', "at `$.confidence`"),
        (b'{"entity": "e", "key": "k", "value": "v", "horizon_class": "soon"}', "at `$.horizon_class`"),
        (b'{"entity": "e", "key": "k", "value": "\xff"}', "line 2: "),
        (b'{"entity": "e", "key": "k", "value": "\\ud800"}', "line 2: text must be Unicode without lone surrogates"),
        (b'{"entity": "e", "key": "k", "value": "a\\u0000b"}', "line 2: text must not hold NUL"),
        (
            b'{"entity": "e", "key": "k", "value": "v", "more": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            "nested deeper",
        ),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_imported(line: bytes, complaint: str, cli: Cli, stub: Stub) -> None:
    result = cli("facts", "--url", stub.url, "import", "-", stdin=as_lines(fact()) + line + b"\n" + as_lines(fact()))
    assert result.exit_code == 1
    assert complaint in result.stderr
    assert result.stderr.endswith("Nothing was imported\n")
    assert stub.asked == []


def test_an_escaped_escape_is_no_nul() -> None:
    ((_, line),) = read_lines([rb'{"entity": "e", "key": "k", "value": "\\u0000"}'])
    assert line.value == r"\u0000"


def test_of_many_wrong_lines_the_first_is_explained_and_the_next_are_numbered() -> None:
    with pytest.raises(InvalidArgument) as refusal:
        read_lines([b"{"] * 12)
    assert refusal.value.message == (
        "line 1: Input data was truncated; lines 2, 3, 4, 5, 6, 7, 8, 9 and 3 more are wrong too. Nothing was imported"
    )


def test_a_refused_batch_says_which_lines_and_how_many_are_stored(cli: Cli, stub: Stub) -> None:
    stub.answer("PUT /v1/facts/bulk", {"facts": []}, status=201)
    stub.answer("PUT /v1/facts/bulk", {"title": "Bad Request", "detail": "no"}, status=400)
    with patch.object(importing, "BATCH_FACTS", 2):
        result = cli("facts", "--url", stub.url, "import", "-", stdin=b"\n" + as_lines(*[fact()] * 5))
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "crux: storing lines 4 to 5 failed: Bad Request: no; the 2 facts before them are stored, those after them are "
        "not\n"
    )
    assert len(stub.asked) == 2


@given(st.lists(st.integers(0, 40)), st.integers(1, 5), st.integers(1, 60))
def test_batches_keep_every_draft_in_order_and_their_bounds(sizes: list[int], most: int, most_bytes: int) -> None:
    lines = [(number, Line("e", "k", "v" * size)) for number, size in enumerate(sizes)]
    drafts, _ = choose(lines)
    with patch.object(importing, "BATCH_FACTS", most), patch.object(importing, "BATCH_BYTES", most_bytes):
        found = list(batches(drafts))
    assert [numbered for batch in found for numbered in batch] == drafts

    def size(batch: list[Numbered]) -> int:
        return sum(len(bytes(numbered.draft)) for numbered in batch)

    assert all(0 < len(batch) <= most and (len(batch) == 1 or size(batch) <= most_bytes) for batch in found)
