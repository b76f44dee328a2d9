import json

import pytest

from tests.unit.cli.conftest import Cli
from tests.unit.cli.stub import Stub, fact


def test_get_asks_for_what_the_options_say_and_nothing_else(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /v1/facts", {"facts": [], "total_tokens": 0})
    cli("facts", "--url", stub.url, "get", "two words", "--entity", "e", "--top-k", "3", "--token-budget", "50")
    cli("facts", "--url", stub.url, "--passport", "p", "get", "--all")
    assert [asked.query for asked in stub.asked] == [
        {"query": "two words", "entity": "e", "top_k": "3", "token_budget": "50"},
        {},
    ]
    assert stub.asked[1].headers["x-corecrux-passport-id"] == "p"


def test_several_words_are_one_query(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /v1/facts", {"facts": []})
    assert cli("facts", "--url", stub.url, "get", "two", "words").exit_code == 0
    assert stub.asked[0].query["query"] == "two words"


STOCK = [fact(entity=f"__bootstrap__::{number}") for number in range(3)]
OWN = [fact(entity=f"own-{number}") for number in range(12)]


@pytest.mark.parametrize(
    ("arguments", "asked", "shown", "said"),
    [
        ([], {"top_k": "100"}, OWN[:10], "left out 3 about entities that start with __; --all shows them\n"),
        (
            ["--top-k", "2"],
            {"top_k": "100"},
            OWN[:2],
            "left out 3 about entities that start with __; --all shows them\n",
        ),
        (["--all"], {}, STOCK + OWN, ""),
        (["--entity", "x", "--top-k", "2"], {"entity": "x", "top_k": "2"}, STOCK + OWN, ""),
    ],
)
def test_the_daemons_own_guidance_is_left_out_and_counted_unless_asked_for(
    arguments: list[str],
    asked: dict[str, str],
    shown: list[dict[str, object]],
    said: str,
    cli: Cli,
    stub: Stub,
) -> None:
    stub.answer("GET /v1/facts", {"facts": STOCK + OWN})
    result = cli("facts", "--url", stub.url, "get", *arguments)
    assert [line for line in result.stdout.splitlines() if not line.startswith(" ")] == [
        f"{fact['entity']}  status" for fact in shown
    ]
    assert result.stderr == said
    assert stub.asked[0].query == asked


def test_json_leaves_nothing_out(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /v1/facts", {"facts": STOCK})
    assert json.loads(cli("facts", "--url", stub.url, "get", "--json").stdout) == {"facts": STOCK}
    assert stub.asked[0].query == {}


def test_get_shows_value_and_origin_of_every_fact(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /v1/facts", {"facts": [fact(), fact(entity="b", value="one\ntwo", fact_id="f_2")]})
    assert cli("facts", "--url", stub.url, "get").stdout == (
        "project-alpha  status\n"
        "    shipped\n"
        "    version 1, confidence 0.9, stored 2026-11-30T18:59:22.123456Z, id f_1\n"
        "b  status\n"
        "    one\n"
        "    two\n"
        "    version 1, confidence 0.9, stored 2026-11-30T18:59:22.123456Z, id f_2\n"
    )


def test_a_stored_value_cannot_drive_the_terminal(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /v1/facts", {"facts": [fact(entity="\x1b]0;x\x07", key="[bold]", value="\x1b[2J")]})
    shown = cli("facts", "--url", stub.url, "get").stdout
    assert "\x1b" not in shown
    assert r"\x1b]0;x\x07  [bold]" in shown


def test_a_refusal_cannot_drive_the_terminal_either(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /v1/facts", {"title": "Bad", "detail": "\x1b[2J\nsecond line"}, status=400)
    result = cli("facts", "--url", stub.url, "get")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "crux: Bad: \\x1b[2J second line\n")


@pytest.mark.parametrize(
    ("request_", "command"),
    [
        ("GET /v1/facts", ["get"]),
        ("PUT /v1/facts", ["put", "e", "k", "v"]),
        ("DELETE /v1/facts/f_1", ["delete", "f_1"]),
    ],
)
def test_json_is_the_daemons_answer(request_: str, command: list[str], cli: Cli, stub: Stub) -> None:
    stub.answer(request_, {"more": ["than", "is", "shown"]})
    result = cli("facts", "--url", stub.url, *command, "--json")
    assert json.loads(result.stdout) == {"more": ["than", "is", "shown"]}


@pytest.mark.parametrize("command", [["get"], ["history", "e"]])
def test_nothing_found_is_no_failure(command: list[str], cli: Cli, stub: Stub) -> None:
    stub.answer("GET /v1/facts", {"facts": []})
    stub.answer("GET /v1/facts/entity/e", {"facts": []})
    result = cli("facts", "--url", stub.url, *command)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no facts found\n")


@pytest.mark.parametrize(
    ("arguments", "stdin", "body"),
    [
        (["e", "k", "v"], None, {"entity": "e", "key": "k", "value": "v"}),
        (["e", "k", ""], None, {"entity": "e", "key": "k", "value": ""}),
        (["e", "k", "--", "-5"], None, {"entity": "e", "key": "k", "value": "-5"}),
        (["e", "k", "-"], "one\ntwo\n\n", {"entity": "e", "key": "k", "value": "one\ntwo\n"}),
        (
            ["e", "k", "v", "--confidence", "0", "--source-receipt", "r", "--horizon", "none"],
            None,
            {
                "entity": "e",
                "key": "k",
                "value": "v",
                "confidence": 0.0,
                "source_receipt": "r",
                "horizon_class": "none",
            },
        ),
    ],
)
def test_put_sends_what_was_given(
    arguments: list[str], stdin: str | None, body: dict[str, object], cli: Cli, stub: Stub
) -> None:
    stub.answer("PUT /v1/facts", fact(version=3), status=201)
    result = cli("facts", "--url", stub.url, "put", *arguments, stdin=stdin)
    assert (result.exit_code, result.stdout) == (0, "stored version 3 of project-alpha status, id f_1\n")
    assert stub.asked[0].json() == body


@pytest.mark.parametrize(
    "arguments", [["--confidence", "1.5"], ["--confidence", "nan"], ["--confidence", "inf"], ["--horizon", "soon"]]
)
def test_put_refuses_what_is_out_of_range_before_it_asks(arguments: list[str], cli: Cli, stub: Stub) -> None:
    assert cli("facts", "--url", stub.url, "put", "e", "k", "v", *arguments).exit_code == 2
    assert stub.asked == []


@pytest.mark.parametrize(
    "command",
    [
        ["get", "\udcff"],
        ["get", "--entity", "\udcff"],
        ["put", "\udcff", "k", "v"],
        ["put", "e", "\udcff", "v"],
        ["put", "e", "k", "\udcff"],
        ["put", "e", "k", "v", "--source-receipt", "\udcff"],
        ["history", "\udcff"],
        ["history", "e", "\udcff"],
        ["delete", "\udcff"],
        ["--url", "http://\udcff", "get"],
        ["--passport", "\udcff", "get"],
    ],
)
def test_an_argument_that_is_no_utf_8_is_wrong_usage(command: list[str], cli: Cli, stub: Stub) -> None:
    result = cli("facts", "--url", stub.url, *command)
    assert result.exit_code == 2
    assert "not UTF-8 text" in result.stderr
    assert stub.asked == []


def test_standard_input_has_to_be_text(cli: Cli, stub: Stub) -> None:
    result = cli("facts", "--url", stub.url, "put", "e", "k", "-", stdin=b"ab\xff")
    assert result.exit_code == 2
    assert "not UTF-8 text (byte 2)" in result.stderr
    assert stub.asked == []


HISTORY = {
    "facts": [
        fact(fact_id="f_1", key="owner", value="ada"),
        fact(fact_id="f_2", value="started", superseded_by="f_3"),
        fact(fact_id="f_3", value="shipped", version=2, supersedes="f_2"),
    ]
}


def test_history_shows_each_chain_with_what_became_of_its_versions(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /v1/facts/entity/project-alpha", HISTORY)
    lines = cli("facts", "--url", stub.url, "history", "project-alpha").stdout.splitlines()
    assert [line.partition(", confidence")[0] for line in lines] == [
        "project-alpha  owner",
        "    ada",
        "    version 1, current",
        "project-alpha  status",
        "    started",
        "    version 1, replaced by f_3",
        "    shipped",
        "    version 2, current",
    ]


def test_history_of_a_key_leaves_the_others_out(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /v1/facts/entity/project-alpha", HISTORY)
    assert "ada" not in cli("facts", "--url", stub.url, "history", "project-alpha", "status").stdout
    found = json.loads(cli("facts", "--url", stub.url, "history", "project-alpha", "status", "--json").stdout)
    assert found == {"facts": HISTORY["facts"][1:]}


def test_an_entity_of_any_characters_is_one_part_of_the_path(cli: Cli, stub: Stub) -> None:
    stub.answer("GET /v1/facts/entity/a%2Fb%3A%3Ac%20d%3F%23", {"facts": []})
    assert cli("facts", "--url", stub.url, "history", "a/b::c d?#").exit_code == 0


def test_delete_names_the_fact(cli: Cli, stub: Stub) -> None:
    stub.answer("DELETE /v1/facts/f_1", {"deleted": True})
    assert cli("facts", "--url", stub.url, "delete", "f_1").stdout == "deleted f_1\n"
