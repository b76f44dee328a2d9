"""`crux ext` against a daemon that answers what a test tells it to."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from crux.cli.extensions import ext as group
from crux.domain.outbound_config import OutboundConfig
from crux.domain.outbound_refusals import DispatchRefused
from tests.unit.cli.conftest import Cli
from tests.unit.cli.stub import Stub

DOCS = Path(__file__).parents[3] / "docs"
EXAMPLE = DOCS / "examples" / "quote.json"
ID = "ext.example.quote"
TOOL = "ext.example.quote.daily"
HASH = "blake3:" + "ab" * 32
INSTALLED: dict[str, Any] = {
    "manifest": json.loads(EXAMPLE.read_text()),
    "manifest_hash": HASH,
    "trust_tier": "unknown",
    "installed_at_unix_ms": 1_796_000_000_123,
    "installed_by_passport": "default",
}
GRANT: dict[str, Any] = {
    "extension_id": ID,
    "passport_fpr": "alice",
    "allowed_tool_names": [],
    "allowed_prefixes_read": [],
    "allowed_prefixes_write": ["personal::quotes::"],
    "granted_at_unix_ms": 1_796_000_000_123,
}
SMALL = {
    **GRANT,
    "passport_fpr": "bob",
    "allowed_tool_names": [TOOL],
    "rate_limit_per_min": 0,
    "allowed_prefixes_write": [],
}
GRANTS = {"extension_id": ID, "count": 2, "grants": [GRANT, SMALL]}
OUTCOME = {
    "result": {"quote": "q", "n": 10**30},
    "accepted_fact_writes": 1,
    "dropped_fact_writes": 1,
    "drop_reasons": ["fact_writes[1] entity 'x\u001b[2J' not covered by grant.allowed_prefixes_write"],
    "upstream_status": 200,
    "elapsed_ms": 143,
    "request_id": "req-1",
}
REGISTER, LIST, ONE = "POST /v1/extensions/register", "GET /v1/extensions", f"GET /v1/extensions/{ID}"
GRANTS_OF, GIVE = f"GET /v1/extensions/{ID}/grants", f"POST /v1/extensions/{ID}/grants"
INVOKE = f"POST /v1/extensions/{ID}/tools/{TOOL}/invoke"
KEYS = "GET /v1/extensions/keys"
TRAIL = "GET /v1/console/integrations"


def ext(cli: Cli, stub: Stub, *args: str, stdin: str | bytes | None = None) -> Result:
    return cli("ext", "--url", stub.url, *args, stdin=stdin)


def test_install_sends_the_manifest_as_it_is_written(cli: Cli, stub: Stub, tmp_path: Path) -> None:
    stub.answer(REGISTER, INSTALLED, status=201)
    file = tmp_path / "m.json"
    file.write_text('{"n": 12345678901234567890123.0,  "id": "x"}')
    result = ext(cli, stub, "install", str(file))
    assert stub.asked[0].body == b'{"manifest":{"n": 12345678901234567890123.0,  "id": "x"}}'
    assert (result.exit_code, result.stdout) == (0, f"installed {ID} 0.1.0, trust unknown, {HASH}\n")
    assert result.stderr == f"nobody can call it yet: crux ext grant {ID} PASSPORT\n"


def test_install_reads_standard_input(cli: Cli, stub: Stub) -> None:
    stub.answer(REGISTER, INSTALLED, status=201)
    assert ext(cli, stub, "install", "-", stdin=EXAMPLE.read_text()).exit_code == 0
    assert stub.asked[0].json() == {"manifest": INSTALLED["manifest"]}


@pytest.mark.parametrize("content", [b"", b"{", b'{"a": "\xff"}', b"[" * 100_000])
def test_a_file_without_json_is_refused_and_not_sent(content: bytes, cli: Cli, stub: Stub, tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_bytes(content)
    for command in (["install"], ["validate"]):
        result = ext(cli, stub, *command, str(file))
        assert result.exit_code == 1
        assert result.stderr.startswith(f"crux: {file}: not valid JSON (")
    assert stub.asked == []


def test_the_list_shows_the_endpoint_that_no_signature_covers(cli: Cli, stub: Stub) -> None:
    stub.answer(LIST, {"count": 1, "extensions": [INSTALLED], "allow_unsigned_dev": True})
    result = ext(cli, stub, "list")
    (row,) = (line for line in result.stdout.splitlines() if ID in line)
    assert row.split() == [
        ID,
        "0.1.0",
        "external_tool",
        "unknown",
        "1",
        "http://127.0.0.1:9000/crux/invoke",
        "2026-11-30",
        "00:53:20Z",
    ]
    assert "CORECRUXD_EXTENSIONS_ALLOW_UNSIGNED" in result.stderr


@pytest.mark.parametrize(
    ("request_", "answer", "command", "said"),
    [
        (LIST, {"count": 0, "extensions": [], "allow_unsigned_dev": False}, ["list"], "nothing is installed\n"),
        (GRANTS_OF, {"extension_id": ID, "count": 0, "grants": []}, ["grants", ID], f"nobody may call {ID}\n"),
        (TRAIL, {"packs": [], "audit_tail": []}, ["audit"], "the audit trail is empty\n"),
        (KEYS, {"count": 0, "keys": {}}, ["keys", "list"], "no key is trusted: "),
    ],
)
def test_nothing_there_is_said_and_is_no_failure(
    request_: str, answer: object, command: list[str], said: str, cli: Cli, stub: Stub
) -> None:
    stub.answer(request_, answer)
    result = ext(cli, stub, *command)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(said)


def test_show_says_what_is_known_and_leaves_out_what_is_not(cli: Cli, stub: Stub) -> None:
    wasm = {**INSTALLED["manifest"], "entry": {"kind": "wasm", "path": "x"}, "network": {}, "summary": ""}
    del wasm["external_tool_endpoint"]
    unknown_by = {name: value for name, value in INSTALLED.items() if name != "installed_by_passport"}
    stub.answer(ONE, INSTALLED, {**unknown_by, "manifest": wasm})
    assert ext(cli, stub, "show", ID).stdout.splitlines() == [
        f"{ID} 0.1.0  Quote of the day",
        "    summary   Returns a quote of the day and asks to keep it as a fact.",
        "    kind      external_tool",
        "    publisher p_example",
        "    trust     unknown",
        f"    hash      {HASH}",
        "    endpoint  http://127.0.0.1:9000/crux/invoke",
        "    hosts     127.0.0.1:9000",
        "    installed 2026-11-30 00:53:20Z by default",
        f"    tool      {TOOL}: Return the quote of the day, for one topic or in general. Answers with quote and topic.",
    ]
    lines = ext(cli, stub, "show", ID).stdout.splitlines()
    assert "    hosts     any" in lines
    assert "    installed 2026-11-30 00:53:20Z" in lines
    assert not any(line.startswith(("    endpoint", "    summary")) for line in lines)


def test_remove_says_which_grants_it_ended(cli: Cli, stub: Stub) -> None:
    stub.answer(ONE, INSTALLED)
    stub.answer(GRANTS_OF, GRANTS)
    stub.answer(f"DELETE /v1/extensions/{ID}", b"", status=204)
    result = ext(cli, stub, "remove", ID)
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        [
            f"removed {ID} 0.1.0",
            "ended the grant of alice: tools: all; fact writes: personal::quotes::; the daemon's default rate",
            f"ended the grant of bob: tools: {TOOL}; fact writes: none; 0 calls a minute",
        ],
    )
    assert [asked.method for asked in stub.asked] == ["GET", "GET", "DELETE"]
    told = json.loads(ext(cli, stub, "remove", ID, "--json").stdout)
    assert (told["extension_id"], told["removed"], len(told["grants_ended"])) == (ID, True, 2)


def test_removing_what_is_not_there_is_the_daemons_refusal(cli: Cli, stub: Stub) -> None:
    stub.answer(ONE, {"title": "Not Found", "detail": f"extension '{ID}' not installed"}, status=404)
    result = ext(cli, stub, "remove", ID)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"crux: Not Found: extension '{ID}' not installed\n"
    assert [asked.method for asked in stub.asked] == ["GET"]


def test_a_grant_holds_what_the_options_say_and_nothing_else(cli: Cli, stub: Stub) -> None:
    stub.answer(GIVE, GRANT, status=201)
    result = ext(cli, stub, "grant", ID, "alice")
    options = ["--tool", "a", "--tool", "b", "--write", "w::", "--write", "v", "--read", "r::", "--rate", "0"]
    warned = ext(cli, stub, "grant", ID, "alice", *options)
    assert [asked.json() for asked in stub.asked] == [
        {"passport_fpr": "alice"},
        {
            "passport_fpr": "alice",
            "allowed_tool_names": ["a", "b"],
            "allowed_prefixes_write": ["w::", "v"],
            "allowed_prefixes_read": ["r::"],
            "rate_limit_per_min": 0,
        },
    ]
    assert result.stdout == (
        f"granted {ID} to alice: tools: all; fact writes: personal::quotes::; the daemon's default rate\n"
    )
    assert (result.stderr, warned.stderr) == ("", "the prefix v also covers vx; end it with :: to stay inside it\n")


@pytest.mark.parametrize(("rate", "code"), [("-1", 2), ("0", 0), (str(2**32 - 1), 0), (str(2**32), 2)])
def test_a_rate_is_a_number_of_32_bits(rate: str, code: int, cli: Cli, stub: Stub) -> None:
    stub.answer(GIVE, GRANT, status=201)
    assert ext(cli, stub, "grant", ID, "alice", "--rate", rate).exit_code == code
    assert len(stub.asked) == (code == 0)


def test_grants_are_a_table(cli: Cli, stub: Stub) -> None:
    stub.answer(GRANTS_OF, GRANTS)
    rows = [line.split() for line in ext(cli, stub, "grants", ID).stdout.splitlines() if "2026" in line]
    when = "2026-11-30", "00:53:20Z"
    assert rows == [
        ["alice", "all", "personal::quotes::", "none", "default", *when],
        ["bob", TOOL, "none", "none", "0", *when],
    ]


def test_revoke_says_what_it_ended(cli: Cli, stub: Stub) -> None:
    stub.answer(GRANTS_OF, GRANTS)
    stub.answer(f"DELETE /v1/extensions/{ID}/grants/bob", b"", status=204)
    result = ext(cli, stub, "revoke", ID, "bob")
    assert (result.exit_code, result.stdout) == (
        0,
        f"ended the grant of bob for {ID}: tools: {TOOL}; fact writes: none; 0 calls a minute\n",
    )
    assert json.loads(ext(cli, stub, "revoke", ID, "bob", "--json").stdout)["grant"]["passport_fpr"] == "bob"


def test_revoking_what_was_not_granted_deletes_nothing(cli: Cli, stub: Stub) -> None:
    stub.answer(GRANTS_OF, GRANTS)
    result = ext(cli, stub, "revoke", ID, "eve")
    assert (result.exit_code, result.stderr) == (
        1,
        f"crux: eve has no grant for {ID}; crux ext grants {ID} lists who has\n",
    )
    assert [asked.method for asked in stub.asked] == ["GET"]


def test_invoke_prints_the_result_and_says_what_became_of_the_writes(cli: Cli, stub: Stub) -> None:
    stub.answer(INVOKE, OUTCOME)
    result = ext(cli, stub, "--passport", "alice", "invoke", ID, TOOL)
    assert (result.exit_code, result.stdout) == (
        0,
        '{\n  "quote": "q",\n  "n": 1000000000000000000000000000000\n}\n',
    )
    assert result.stderr == (
        "kept 1 fact writes, dropped 1; 143 ms, req-1\n"
        "dropped: fact_writes[1] entity 'x\\x1b[2J' not covered by grant.allowed_prefixes_write\n"
    )
    assert stub.asked[0].json() == {"args": {}}, "who calls is for the credential to say"
    assert stub.asked[0].headers["x-corecrux-passport-id"] == "alice"


@pytest.mark.parametrize(
    ("options", "stdin", "body"),
    [
        (["--args", '{"n": 1.0}'], None, b'{"args":{"n": 1.0}}'),
        (["--args", "null"], None, b'{"args":null}'),
        (["--args", "-"], "[1, 2]\n", b'{"args":[1, 2]\n}'),
        (["--as", "bob"], None, b'{"args":{},"passport_fpr":"bob"}'),
        (["--as", ""], None, b'{"args":{},"passport_fpr":""}'),
    ],
)
def test_invoke_sends_what_was_given(options: list[str], stdin: str | None, body: bytes, cli: Cli, stub: Stub) -> None:
    stub.answer(INVOKE, OUTCOME)
    assert ext(cli, stub, "invoke", ID, TOOL, *options, stdin=stdin).exit_code == 0
    assert stub.asked[0].body == body


@pytest.mark.parametrize("given", ["", "{", "nope", '{"a": 1}}'])
def test_arguments_that_are_no_json_are_wrong_usage(given: str, cli: Cli, stub: Stub) -> None:
    result = ext(cli, stub, "invoke", ID, TOOL, "--args", given)
    assert result.exit_code == 2
    assert "--args: not valid JSON" in result.stderr
    assert stub.asked == []


def test_a_failed_call_is_the_daemons_refusal(cli: Cli, stub: Stub) -> None:
    stub.answer(INVOKE, {"title": "Too Many Requests", "detail": "rate limited (cap 10/min)"}, status=429)
    result = ext(cli, stub, "invoke", ID, TOOL)
    assert (result.exit_code, result.stderr) == (1, "crux: Too Many Requests: rate limited (cap 10/min)\n")


def test_the_audit_trail_is_a_table(cli: Cli, stub: Stub) -> None:
    events = [
        {"ts_unix_ms": 1_796_000_000_123, "action": "extension_uninstall", "pack_id": ID},
        {
            "ts_unix_ms": 10**18,
            "action": "extension_invoke_rejected",
            "pack_id": ID,
            "actor": "alice",
            "outcome": "rejected",
            "detail": {
                "tool_name": "t",
                "names": ["a", "b"],
                "cap": 7,
                "no": [],
                "nil": None,
                "reason": "rate_limited",
            },
        },
    ]
    stub.answer(TRAIL, {"packs": [], "audit_tail": events})
    shown = ext(cli, stub, "audit").stdout
    first, second = (line.split() for line in shown.splitlines() if ID in line)
    assert first == ["2026-11-30", "00:53:20Z", "uninstall", ID, "operator"]
    assert second[:5] == [f"{10**18}", "ms", "invoke_rejected", ID, "alice"]
    assert "tool_name t, names a b, cap 7, reason rate_limited" in " ".join(shown.split())


def test_keys_are_listed_added_and_removed(cli: Cli, stub: Stub) -> None:
    key = {"public_key_hex": "ab" * 32, "trust_tier": "first_party", "added_at_unix_ms": 0, "added_by": "me"}
    stub.answer(KEYS, {"count": 1, "keys": {"p_a": key}})
    stub.answer("POST /v1/extensions/keys", {"passport_fpr": "p_a"}, status=201)
    stub.answer("DELETE /v1/extensions/keys/p_a", b"", status=204)
    listed = ext(cli, stub, "keys", "list").stdout.splitlines()
    assert ["p_a", "first_party", "ab" * 32, "1970-01-01", "00:00:00Z", "me"] in [line.split() for line in listed]
    added = ext(cli, stub, "keys", "add", "p_a", "ab" * 32, "--tier", "first_party")
    assert added.stdout == "trusting the key of p_a as first_party\n"
    assert stub.asked[-1].json() == {"passport_fpr": "p_a", "public_key_hex": "ab" * 32, "trust_tier": "first_party"}
    ext(cli, stub, "keys", "add", "p_a", "ab" * 32, "--tier", "unknown", "--added-by", "me")
    assert stub.asked[-1].json() == {
        "passport_fpr": "p_a",
        "public_key_hex": "ab" * 32,
        "trust_tier": "unknown",
        "added_by": "me",
    }
    removed = ext(cli, stub, "keys", "remove", "p_a")
    assert removed.stdout == "removed the key of p_a; what it has signed stays installed\n"
    assert json.loads(ext(cli, stub, "keys", "remove", "p_a", "--json").stdout) == {
        "passport_fpr": "p_a",
        "removed": True,
    }


@pytest.mark.parametrize("tier", [[], ["--tier", "FirstParty"]])
def test_a_key_needs_one_of_the_tiers(tier: list[str], cli: Cli, stub: Stub) -> None:
    assert ext(cli, stub, "keys", "add", "p_a", "ab" * 32, *tier).exit_code == 2
    assert stub.asked == []


@pytest.mark.parametrize(
    ("request_", "command"),
    [
        (REGISTER, ["install", str(EXAMPLE)]),
        (LIST, ["list"]),
        (ONE, ["show", ID]),
        (GIVE, ["grant", ID, "alice"]),
        (GRANTS_OF, ["grants", ID]),
        (INVOKE, ["invoke", ID, TOOL]),
        (TRAIL, ["audit"]),
        (KEYS, ["keys", "list"]),
        ("POST /v1/extensions/keys", ["keys", "add", "p", "ab", "--tier", "unknown"]),
    ],
)
def test_json_is_the_daemons_answer(request_: str, command: list[str], cli: Cli, stub: Stub) -> None:
    stub.answer(request_, {"more": ["than", "is", "shown"]})
    result = ext(cli, stub, *command, "--json")
    assert json.loads(result.stdout) == {"more": ["than", "is", "shown"]}


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("a/b c?#", "/v1/extensions/a%2Fb%20c%3F%23"),
        ("..", "/v1/extensions/%2E%2E"),
        ("p:q", "/v1/extensions/p%3Aq"),
    ],
)
def test_a_name_of_any_characters_is_one_part_of_the_path(name: str, path: str, cli: Cli, stub: Stub) -> None:
    ext(cli, stub, "show", name)
    assert [asked.path for asked in stub.asked] == [path]


def test_what_is_stored_cannot_drive_the_terminal(cli: Cli, stub: Stub) -> None:
    bad = "\x1b[2J"
    manifest = {**INSTALLED["manifest"], "id": bad, "summary": bad, "tools": [{"name": bad, "description": bad}]}
    hostile = {**INSTALLED, "manifest": manifest, "manifest_hash": bad, "trust_tier": bad}
    hostile_grant = {**GRANT, "passport_fpr": bad, "extension_id": bad, "allowed_prefixes_write": [bad]}
    event = {"ts_unix_ms": 1, "action": bad, "pack_id": bad, "detail": {"x": bad}}
    stub.answer(REGISTER, hostile)
    stub.answer(LIST, {"extensions": [hostile]})
    stub.answer(ONE, hostile)
    stub.answer(GIVE, hostile_grant)
    stub.answer(GRANTS_OF, {"grants": [hostile_grant]})
    stub.answer(f"DELETE /v1/extensions/{ID}", b"", status=204)
    stub.answer(TRAIL, {"audit_tail": [event]})
    stub.answer(INVOKE, '{"result": "\x9b2J", "request_id": "r", "elapsed_ms": 1}'.encode())
    stub.answer(
        KEYS, {"keys": {bad: {"public_key_hex": bad, "trust_tier": bad, "added_at_unix_ms": 0, "added_by": bad}}}
    )
    for command in (
        ["install", str(EXAMPLE)],
        ["list"],
        ["show", ID],
        ["grant", ID, "a"],
        ["grants", ID],
        ["remove", ID],
        ["audit"],
        ["invoke", ID, TOOL],
        ["keys", "list"],
    ):
        result = ext(cli, stub, *command)
        assert result.exit_code == 0, result.stderr
        assert not {"\x1b", "\x9b"} & set(result.stdout + result.stderr), command


@pytest.mark.parametrize(
    "command",
    [["show", "\udcff"], ["grant", ID, "\udcff"], ["revoke", ID, "\udcff"], ["invoke", ID, TOOL, "--args", "\udcff"]],
)
def test_an_argument_that_is_no_utf_8_is_wrong_usage(command: list[str], cli: Cli, stub: Stub) -> None:
    result = ext(cli, stub, *command)
    assert result.exit_code == 2
    assert "not UTF-8 text" in result.stderr
    assert stub.asked == []


def test_the_page_names_every_command_reason_and_default() -> None:
    page = (DOCS / "extensions.md").read_text()
    assert [name for name in group.commands if f"`{name} " not in page and f"`{name}`" not in page] == []
    assert [kind.reason for kind in DispatchRefused.__subclasses__() if f"`{kind.reason}`" not in page] == []
    default = OutboundConfig()
    for name, value in (
        ("TIMEOUT_SECONDS", default.timeout_s),
        ("MAX_REQUEST_BYTES", default.max_request_bytes),
        ("MAX_RESPONSE_BYTES", default.max_response_bytes),
        ("DEFAULT_RATE_PER_MIN", default.default_rate_per_min),
    ):
        assert f"| `CORECRUXD_EXTENSIONS_{name}` | {value} |" in page


def test_what_a_manifest_says_begins_no_line_of_its_own(cli: Cli, stub: Stub) -> None:
    manifest = {**INSTALLED["manifest"], "version": "1.0\n    trust     first_party", "summary": "a\n\tb\u200f"}
    stub.answer(ONE, {**INSTALLED, "manifest": manifest})
    lines = ext(cli, stub, "show", ID).stdout.splitlines()
    assert [line for line in lines if line.split()[:1] == ["trust"]] == ["    trust     unknown"]
    assert r"    summary   a\n\tb\u200f" in lines
