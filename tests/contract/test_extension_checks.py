"""Every check of a call to an extension, tried from outside: what the caller is told, what the trail says, whether the
endpoint was called, and that nothing was kept.

The checks 1, 2, 7 and 8 cannot be reached over HTTP, since 0d to 0f say so before; `tests.unit.tools.test_dispatch` has
them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
import trio
from attrs import field, frozen

from tests.endpoints import answer, tolerant
from tests.manifests import manifest_json, recipe_json
from tests.serving import Serving, serving
from tests.upstream import answered_by

SCOPES = {"X-Corecrux-Scopes": "admin:read facts:write query:read"}
ALICE = {**SCOPES, "X-Corecrux-Passport-Id": "alice"}
ID, TOOL = "ext.quote", "ext.quote.daily"
SWITCHES = {"ALLOW_PLAIN_HTTP": "1", "ALLOW_UNSIGNED": "1"}
WRITE = b'{"entity":"quotes::1","key":"k","value":"v"}'
GOOD = answer(b'{"result":1,"fact_writes":[%b]}' % WRITE)
WASM = {"entry": {"kind": "wasm", "path": "x"}, "wasm_module_path": "x.wasm", "wasm_module_sha256": "ab" * 32}


@frozen(kw_only=True)
class Row:
    """A call that fails at `check`. `reason` None: the trail says nothing. `{at}` stands for the endpoint's authority."""

    check: str
    status: int
    detail: str
    reason: str | None = None
    sent: bool = False
    says: bytes = GOOD
    manifest: dict[str, Any] = field(factory=dict)
    grant: dict[str, Any] = field(factory=dict)
    environ: dict[str, str] = field(factory=dict)
    headers: dict[str, str] = field(factory=lambda: ALICE)
    extension: str = ID
    tool: str = TOOL


def without_tools(**members: Any) -> dict[str, Any]:
    return {"external_tool_endpoint": None, **members}


ROWS = [
    Row(check="0a", status=403, detail="insufficient scopes", headers={**ALICE, "X-Corecrux-Scopes": "facts:write"}),
    Row(
        check="0b",
        status=400,
        detail="passport_fpr required (body field or X-Corecrux-Passport-Id header)",
        headers=SCOPES,
    ),
    Row(check="0c", status=404, detail="extension 'ext.other' not installed", extension="ext.other"),
    Row(
        check="0d",
        status=403,
        detail="passport 'bob' has no grant for extension 'ext.quote'",
        headers={**ALICE, "X-Corecrux-Passport-Id": "bob"},
    ),
    Row(
        check="0e",
        status=403,
        detail="tool 'ext.quote.daily' is not in the grant's allowed_tool_names",
        grant={"allowed_tool_names": ["ext.quote.weekly"]},
    ),
    Row(
        check="0f",
        status=400,
        detail="extension 'ext.quote' has unsupported entry.kind HttpRecipe for tool dispatch",
        manifest=recipe_json(ID),
    ),
    Row(
        check="0f, wasm",
        status=501,
        detail="this daemon is built without a WebAssembly runtime: extensions of the kind wasm do not run",
        manifest=without_tools(**WASM),
    ),
    Row(
        check="3",
        status=502,
        detail="plain http endpoint blocked (set CORECRUXD_EXTENSIONS_ALLOW_PLAIN_HTTP=true for dev)",
        reason="plain_http_blocked",
        environ={"ALLOW_PLAIN_HTTP": "0"},
    ),
    Row(
        check="4",
        status=502,
        detail="invalid endpoint 'http://:80/': expected a host: an ASCII name, an IPv4 address, or an IPv6 address in "
        "brackets",
        reason="invalid_endpoint",
        manifest={"external_tool_endpoint": "http://:80/"},
    ),
    Row(
        check="5",
        status=502,
        detail="endpoint '{at}' is not allowed by extension 'ext.quote' network.allowed_hosts",
        reason="endpoint_not_allowed",
        manifest={"network": {"allowed_hosts": ["127.0.0.1:1", "*", "http://127.0.0.1"]}},
    ),
    Row(
        check="6",
        status=502,
        detail="tool 'ext.quote.hourly' is not declared by extension 'ext.quote'",
        reason="tool_not_in_manifest",
        tool="ext.quote.hourly",
    ),
    Row(
        check="10",
        status=429,
        detail="rate limited (cap 0/min)",
        reason="rate_limited",
        grant={"rate_limit_per_min": 0},
    ),
    Row(
        check="11",
        status=502,
        detail="request too large (105 bytes, max 104)",
        reason="request_too_large",
        environ={"MAX_REQUEST_BYTES": "104"},
    ),
    Row(
        check="12, address",
        status=502,
        detail="endpoint '169.254.169.254' leads to a link-local, metadata, multicast or unspecified address, which is "
        "never called",
        reason="endpoint_not_allowed",
        manifest={"external_tool_endpoint": "http://169.254.169.254/latest"},
    ),
    Row(
        check="12",
        status=502,
        detail="the call to '{at}' failed: the connection was closed without an answer",
        reason="transport",
        sent=True,
        says=b"",
    ),
    Row(
        check="12, time",
        status=502,
        detail="no answer from '{at}' within 0 s",
        reason="transport",
        environ={"TIMEOUT_SECONDS": "0"},
    ),
    Row(
        check="13",
        status=502,
        detail="response too large (73 bytes, max 72)",
        reason="response_too_large",
        sent=True,
        environ={"MAX_RESPONSE_BYTES": "72"},
    ),
    Row(
        check="14",
        status=502,
        detail="upstream returned status 500: " + "x" * 512,
        reason="upstream_error",
        sent=True,
        says=answer(b"x" * 513, b"500 Broken"),
    ),
    Row(
        check="15",
        status=502,
        detail="upstream returned malformed response: Object missing required field `result`",
        reason="malformed_response",
        sent=True,
        says=answer(b'{"fact_writes":[%b]}' % WRITE),
    ),
    Row(
        check="15, one write",
        status=502,
        detail="upstream returned malformed response: Object missing required field `entity` - at `$.fact_writes[1]`",
        reason="malformed_response",
        sent=True,
        says=answer(b'{"result":1,"fact_writes":[%b,{}]}' % WRITE),
    ),
]


async def trail(daemon: Serving, client: httpx.AsyncClient) -> list[dict[str, Any]]:
    """What the trail says of calls."""
    shown = (await client.get(f"{daemon.http}/v1/console/integrations", headers=SCOPES)).json()["audit_tail"]
    return [event for event in shown if event["action"].startswith("extension_invoke")]


async def kept(daemon: Serving, client: httpx.AsyncClient) -> list[str]:
    facts = (await client.get(f"{daemon.http}/v1/facts?entity=quotes::1", headers=SCOPES)).json()["facts"]
    return [fact["value"] for fact in facts]


async def call(
    daemon: Serving, client: httpx.AsyncClient, url: str, row: Row, monkeypatch: pytest.MonkeyPatch
) -> httpx.Response:
    """Install, grant and call as the row says."""
    for name, value in {**SWITCHES, **row.environ}.items():
        monkeypatch.setenv(f"CORECRUXD_EXTENSIONS_{name}", value)
    members = {"external_tool_endpoint": url, **row.manifest}
    document = manifest_json(tools=(TOOL, "ext.quote.weekly"))
    manifest = {name: value for name, value in {**document, **members}.items() if value is not None}
    if manifest["entry"]["kind"] == "http_recipe":
        manifest = row.manifest
    base = f"{daemon.http}/v1/extensions"
    installed = await client.post(f"{base}/register", json={"manifest": manifest}, headers=SCOPES)
    assert installed.status_code == 201, installed.text
    terms = {"passport_fpr": "alice", "allowed_prefixes_write": ["quotes::"], **row.grant}
    granted = await client.post(f"{base}/{ID}/grants", json=terms, headers=SCOPES)
    assert granted.status_code == 201, granted.text
    return await client.post(f"{base}/{row.extension}/tools/{row.tool}/invoke", json={"args": {}}, headers=row.headers)


async def tried(
    tmp_path: Path, client: httpx.AsyncClient, row: Row, monkeypatch: pytest.MonkeyPatch
) -> tuple[httpx.Response, str, list[dict[str, Any]], int, list[str]]:
    """The answer, the endpoint's authority, what the trail says, how often the endpoint was called, and what is kept."""
    requests: list[bytes] = []

    async def converse(stream: trio.abc.Stream) -> None:
        async with stream:
            requests.append(bytes(await stream.receive_some()))
            await stream.send_all(row.says)

    async with trio.open_nursery() as nursery, serving(tmp_path) as daemon:
        url: str = await nursery.start(answered_by, tolerant(converse))
        response = await call(daemon, client, url, row, monkeypatch)
        found = await trail(daemon, client), len(requests), await kept(daemon, client)
        nursery.cancel_scope.cancel()
    return response, url.removeprefix("http://"), *found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.check)
async def test_a_check_that_fails_ends_the_call_and_keeps_nothing(
    tmp_path: Path, client: httpx.AsyncClient, row: Row, monkeypatch: pytest.MonkeyPatch
) -> None:
    response, authority, events, sent, facts = await tried(tmp_path, client, row, monkeypatch)
    detail = response.json()["detail"]
    assert (response.status_code, detail) == (row.status, row.detail.replace("{at}", authority))
    assert response.headers["content-type"] == "application/problem+json"
    expected = [] if row.reason is None else [{"tool_name": row.tool, "reason": row.reason}]
    assert [event["detail"] for event in events] == expected
    assert {(event["action"], event["actor"], event["outcome"]) for event in events} <= {
        ("extension_invoke_rejected", "alice", "rejected")
    }
    assert sent == row.sent
    assert facts == []


@pytest.mark.parametrize(
    ("row", "accepted", "values"),
    [
        (
            Row(check="all", status=200, detail="", environ={"MAX_REQUEST_BYTES": "105", "MAX_RESPONSE_BYTES": "73"}),
            1,
            ["v"],
        ),
        (Row(check="16", status=200, detail="", grant={"allowed_prefixes_write": []}), 0, []),
    ],
    ids=lambda given: given.check if isinstance(given, Row) else None,
)
async def test_a_call_that_passes_all_keeps_what_its_grant_covers(
    tmp_path: Path,
    client: httpx.AsyncClient,
    row: Row,
    accepted: int,
    values: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bounds are those at which the table's calls fail, one byte further."""
    response, _, events, sent, facts = await tried(tmp_path, client, row, monkeypatch)
    assert response.status_code == 200, response.text
    outcome = response.json()
    assert (outcome["accepted_fact_writes"], outcome["dropped_fact_writes"]) == (accepted, 1 - accepted)
    assert [(event["action"], event["detail"]) for event in events] == [("extension_invoke_ok", {"tool_name": TOOL})]
    assert (sent, facts) == (1, values)
