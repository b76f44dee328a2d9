"""Extensions over HTTP: what each route takes, gives and refuses, over the real actors; calls go to a stand-in."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import trio
from attrs import Factory, define, evolve

from crux.config import AuthMode
from crux.domain.agents import AgentRegistry
from crux.domain.manifests import MOST_MANIFEST_BYTES
from crux.errors import CruxError, Forbidden, NotFound, RateLimited
from crux.transport.auth import HttpAuthenticator, JwtRules
from crux.transport.rest import Api
from tests.conftest import Stack
from tests.contract.rest.conftest import api_on, client_of
from tests.manifests import PUBLIC_KEY_HEX, SIGNER, manifest_json, manifest_of, recipe_json, signed
from tests.unit.transport.callers import AGENT_SCOPES, AGENTS, OPERATOR, OPERATOR_TOKEN, PLANNER_TOKEN, RULES
from tests.unit.transport.callers import signed as jwt_of

Http = httpx.AsyncClient
Who = Callable[..., dict[str, str]]

LOOK, CHANGE = "admin:read", "admin:read facts:write"
SWITCH = "CORECRUXD_EXTENSIONS_ALLOW_UNSIGNED"
INVOKE = "/v1/extensions/ext.quote/tools/ext.quote.daily/invoke"
OUTCOME = {"result": None, "request_id": "req-1"}

Call = tuple[str, str, object, str]


@define
class Calls:
    """Stands for the calls to extensions: writes them down, and answers as it is told."""

    made: list[Call] = Factory(list)
    refusal: CruxError | None = None

    async def invoke(self, extension_id: str, tool: str, args: object, passport: str) -> bytes:
        await trio.lowlevel.checkpoint()
        self.made.append((extension_id, tool, args, passport))
        if self.refusal is not None:
            raise self.refusal
        return json.dumps(OUTCOME).encode()


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def api(stack: Stack, calls: Calls) -> Api:
    services = evolve(stack.services, extension_calls=calls)
    return evolve(api_on(services, stack.mailboxes), max_body_bytes=2 * MOST_MANIFEST_BYTES)


@pytest.fixture(autouse=True)
def unsigned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")


async def install(http: Http, who: Who, document: dict[str, Any] | None = None) -> dict[str, Any]:
    answer = await http.post("/v1/extensions/register", headers=who(), json={"manifest": document or manifest_json()})
    assert answer.status_code == 201, answer.text
    installed: dict[str, Any] = answer.json()
    return installed


async def grant(http: Http, who: Who, passport: str = "alice", **terms: object) -> dict[str, Any]:
    body = {"passport_fpr": passport, **terms}
    answer = await http.post("/v1/extensions/ext.quote/grants", headers=who(), json=body)
    assert answer.status_code == 201, answer.text
    granted: dict[str, Any] = answer.json()
    return granted


def problem(answer: httpx.Response) -> tuple[int, str]:
    """Status and detail of a problem document; fails for anything else."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document = answer.json()
    assert document["status"] == answer.status_code
    assert document["type"].startswith("https://errors.cuecrux.com/")
    return answer.status_code, document["detail"]


def emptied(answer: httpx.Response) -> bool:
    return answer.status_code == 204 and answer.content == b""


# --- installs


async def test_an_extension_is_installed_shown_listed_and_removed(http: Http, who: Who, stack: Stack) -> None:
    answer = await http.post(
        "/v1/extensions/register", headers=who("bob", CHANGE), json={"manifest": manifest_json(), "more": 1}
    )
    installed = answer.json()
    assert answer.status_code == 201
    assert installed == {
        "manifest": {
            **manifest_json(),
            "capabilities": [],
            "network": {"allowed_hosts": [], "requires_user_token": False},
            "data_access": {"tenant_scopes": ["selected"], "content_preview": False, "private_facts": False},
            "safety": {"sandbox": "none", "max_runtime_ms": 0, "max_output_bytes": 0},
        },
        "manifest_hash": installed["manifest_hash"],
        "trust_tier": "unknown",
        "installed_at_unix_ms": stack.clock.us // 1000,
        "installed_by_passport": "bob",
    }
    assert (await http.get("/v1/extensions/ext.quote", headers=who(scopes=LOOK))).json() == installed
    assert (await http.get("/v1/extensions", headers=who(scopes=LOOK))).json() == {
        "count": 1,
        "extensions": [installed],
        "allow_unsigned_dev": True,
    }
    assert emptied(await http.delete("/v1/extensions/ext.quote", headers=who(scopes=CHANGE)))
    gone = await http.get("/v1/extensions/ext.quote", headers=who())
    assert problem(gone) == (404, "extension 'ext.quote' not installed")
    assert problem(await http.delete("/v1/extensions/ext.quote", headers=who())) == problem(gone)


async def test_who_installed_it_is_left_out_where_nobody_says_who_they_are(http: Http, who: Who) -> None:
    assert "installed_by_passport" not in await install(http, who)


async def test_a_second_install_is_a_conflict_whatever_its_manifest_says(http: Http, who: Who) -> None:
    await install(http, who)
    broken = {**manifest_json(), "name": ""}
    answer = await http.post("/v1/extensions/register", headers=who(), json={"manifest": broken})
    assert problem(answer) == (409, "extension 'ext.quote' is already installed")


@pytest.mark.parametrize("value", ["1", "true", " YES ", "On", None, "", "0", "off", "2", "enabled"])
async def test_the_switch_for_unsigned_manifests_is_read_for_each_request(
    http: Http, who: Who, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    if value is None:
        monkeypatch.delenv(SWITCH)
    else:
        monkeypatch.setenv(SWITCH, value)
    on = value in {"1", "true", " YES ", "On"}
    assert (await http.get("/v1/extensions", headers=who())).json()["allow_unsigned_dev"] is on
    answer = await http.post("/v1/extensions/register", headers=who(), json={"manifest": manifest_json()})
    assert answer.status_code == (201 if on else 400)
    if not on:
        assert SWITCH in problem(answer)[1]


async def test_a_manifest_that_is_signed_with_a_trusted_key_needs_no_switch(
    http: Http, who: Who, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SWITCH)
    signature = signed(manifest_of(manifest_json())).signature
    assert signature is not None
    document = manifest_json(signature={"alg": "ed25519", "passport_fpr": SIGNER, "sig": signature.sig})
    key = {"passport_fpr": SIGNER, "public_key_hex": PUBLIC_KEY_HEX, "trust_tier": "community_reviewed"}
    assert (await http.post("/v1/extensions/keys", headers=who(), json=key)).status_code == 201
    assert (await install(http, who, document))["trust_tier"] == "community_reviewed"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"[]", "the body must be an object"),
        (b"{}", "the body must be an object"),
        (b'{"manifest": null}', "manifest"),
        (b'{"manifest": {}}', "schema"),
        (json.dumps({"manifest": {**manifest_json(), "id": "Ext"}}).encode(), "got 'Ext'"),
        (json.dumps({"manifest": {**manifest_json(), "id": "keys"}}).encode(), "'keys'"),
        (json.dumps({"manifest": {**manifest_json(), "name": " "}}).encode(), "field 'name' is required"),
    ],
)
async def test_a_body_without_a_manifest_to_install_is_refused(http: Http, who: Who, body: bytes, told: str) -> None:
    status, detail = problem(await http.post("/v1/extensions/register", headers=who(), content=body))
    assert (status, told in detail) == (400, True), detail


async def test_a_schema_is_judged_last(http: Http, who: Who) -> None:
    await install(http, who)
    broken = [{"name": "ext.broken", "description": "d", "input_schema": {"type": 5}}]
    for changes, status, told in (
        ({}, 409, "already installed"),
        ({"id": "Ext"}, 400, "got 'Ext'"),
        ({"id": "ext.b", "external_tool_endpoint": None}, 400, "field 'external_tool_endpoint' is required"),
        ({"id": "ext.b"}, 400, "the input_schema of tool 'ext.broken' is no valid JSON Schema"),
    ):
        document = {**manifest_json(), "tools": broken, **changes}
        answer = await http.post("/v1/extensions/register", headers=who(), json={"manifest": document})
        assert (problem(answer)[0], told in problem(answer)[1]) == (status, True), problem(answer)


async def test_a_body_of_a_mebibyte_is_read_and_no_larger_one(http: Http, who: Who) -> None:
    small = json.dumps({"manifest": manifest_json()}).encode()
    largest = small.ljust(MOST_MANIFEST_BYTES)
    too_large = await http.post("/v1/extensions/register", headers=who(), content=largest + b" ")
    assert problem(too_large)[0] == 413
    assert (await http.post("/v1/extensions/register", headers=who(), content=largest)).status_code == 201


# --- keys


async def test_a_key_is_trusted_shown_replaced_and_removed(http: Http, who: Who, stack: Stack) -> None:
    key = {"passport_fpr": "p_1:x", "public_key_hex": PUBLIC_KEY_HEX, "trust_tier": "first_party"}
    answer = await http.post("/v1/extensions/keys", headers=who(scopes=CHANGE), json={**key, "added_by": "me"})
    assert (answer.status_code, answer.json()) == (201, {"passport_fpr": "p_1:x"})
    shown = {"public_key_hex": PUBLIC_KEY_HEX, "trust_tier": "first_party", "added_at_unix_ms": stack.clock.us // 1000}
    listed = (await http.get("/v1/extensions/keys", headers=who(scopes=LOOK))).json()
    assert listed == {"count": 1, "keys": {"p_1:x": {**shown, "added_by": "me"}}}
    await http.post("/v1/extensions/keys", headers=who(), json={**key, "trust_tier": "unknown"})
    listed = (await http.get("/v1/extensions/keys", headers=who())).json()
    assert listed == {"count": 1, "keys": {"p_1:x": {**shown, "trust_tier": "unknown", "added_by": ""}}}
    assert emptied(await http.delete("/v1/extensions/keys/p_1:x", headers=who(scopes=CHANGE)))
    gone = await http.delete("/v1/extensions/keys/p_1:x", headers=who())
    assert problem(gone) == (404, "key 'p_1:x' is not in the keyring")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"passport_fpr": None}, "'passport_fpr' is required"),
        ({"passport_fpr": "a b"}, "'passport_fpr' must be"),
        ({"public_key_hex": "ab"}, "'public_key_hex' must be 64 hex digits"),
        ({"public_key_hex": 1}, "'public_key_hex' must be a string"),
        ({"trust_tier": "great"}, "'trust_tier' must be one of"),
        ({"trust_tier": None}, "'trust_tier' is required"),
        ({"added_by": ["me"]}, "'added_by' must be a string"),
    ],
)
async def test_what_is_no_key_is_refused_by_name(http: Http, who: Who, change: dict[str, object], told: str) -> None:
    body = {"passport_fpr": "p", "public_key_hex": PUBLIC_KEY_HEX, "trust_tier": "unknown", **change}
    status, detail = problem(await http.post("/v1/extensions/keys", headers=who(), json=body))
    assert (status, told in detail) == (400, True), detail


# --- grants


async def test_a_grant_is_issued_listed_and_revoked(http: Http, who: Who, stack: Stack) -> None:
    await install(http, who)
    terms = {
        "passport_fpr": "auth0|a/b",
        "allowed_tool_names": ["ext.quote.daily"],
        "allowed_prefixes_read": ["r::"],
        "allowed_prefixes_write": ["w::"],
        "rate_limit_per_min": 0,
    }
    answer = await http.post("/v1/extensions/ext.quote/grants", headers=who("bob", CHANGE), json=terms)
    granted = {
        "extension_id": "ext.quote",
        **terms,
        "granted_at_unix_ms": stack.clock.us // 1000,
        "granted_by_passport": "bob",
    }
    assert (answer.status_code, answer.json()) == (201, granted)
    listed = (await http.get("/v1/extensions/ext.quote/grants", headers=who(scopes=LOOK))).json()
    assert listed == {"extension_id": "ext.quote", "count": 1, "grants": [granted]}
    one = "/v1/extensions/ext.quote/grants/auth0%7Ca%2Fb"
    assert emptied(await http.delete(one, headers=who(scopes=CHANGE)))
    gone = (404, "passport 'auth0|a/b' has no grant for extension 'ext.quote'")
    assert problem(await http.delete(one, headers=who())) == gone


async def test_a_grant_says_by_default_every_tool_no_write_and_the_rate_of_the_daemon(http: Http, who: Who) -> None:
    await install(http, who)
    granted = await grant(http, who, allowed_tool_names=None, rate_limit_per_min=None)
    del granted["granted_at_unix_ms"]
    lists = ("allowed_tool_names", "allowed_prefixes_read", "allowed_prefixes_write")
    assert granted == {"extension_id": "ext.quote", "passport_fpr": "alice", **{name: [] for name in lists}}


async def test_the_grants_of_what_is_not_installed_are_none(http: Http, who: Who) -> None:
    listed = (await http.get("/v1/extensions/nope/grants", headers=who())).json()
    assert listed == {"extension_id": "nope", "count": 0, "grants": []}


@pytest.mark.parametrize(
    ("extension_id", "body", "refusal"),
    [
        ("nope", {"passport_fpr": ""}, (404, "extension 'nope' not installed")),
        ("ext.quote", {"passport_fpr": " "}, (400, "'passport_fpr' must not be blank")),
        ("ext.quote", {}, (400, "'passport_fpr' is required: a string (Who may call)")),
        (
            "ext.quote",
            {"passport_fpr": "bob", "allowed_prefixes_write": ["__passport"]},
            (400, "prefix '__passport' cannot be granted: entities that start with '__' belong to the daemon"),
        ),
        (
            "ext.quote",
            {"passport_fpr": "bob", "allowed_prefixes_read": ["dec"]},
            (
                400,
                "prefix 'dec' cannot be granted: it reaches entities that start with 'decisions::', which is reserved",
            ),
        ),
        (
            "ext.quote",
            {"passport_fpr": "alice"},
            (409, "passport 'alice' has a grant for extension 'ext.quote' already: revoke it first"),
        ),
        (
            "ext.quote",
            {"passport_fpr": "bob", "rate_limit_per_min": 2**32},
            (400, "'rate_limit_per_min' must be an integer from 0 to 4294967295, got '4294967296'"),
        ),
        (
            "ext.quote",
            {"passport_fpr": "bob", "rate_limit_per_min": 1.5},
            (400, "'rate_limit_per_min' must be an integer, got 1.5"),
        ),
        (
            "ext.quote",
            {"passport_fpr": "bob", "allowed_tool_names": "ext.quote.daily"},
            (400, "'allowed_tool_names' must be an array of strings, got \"ext.quote.daily\""),
        ),
    ],
)
async def test_what_cannot_be_granted_is_refused_and_why(
    http: Http, who: Who, extension_id: str, body: dict[str, object], refusal: tuple[int, str]
) -> None:
    await install(http, who)
    await grant(http, who)
    answer = await http.post(f"/v1/extensions/{extension_id}/grants", headers=who(), json=body)
    assert problem(answer) == refusal


# --- calls


async def test_a_call_is_made_as_it_was_asked_for_and_its_outcome_comes_back(
    http: Http, who: Who, calls: Calls
) -> None:
    answer = await http.post(INVOKE, headers=who("p_alice", CHANGE), json={"args": {"topic": "engineering"}})
    assert (answer.status_code, answer.json()) == (200, OUTCOME)
    assert answer.headers["content-type"] == "application/json"
    assert calls.made == [("ext.quote", "ext.quote.daily", {"topic": "engineering"}, "p_alice")]


@pytest.mark.parametrize(
    ("body", "args"),
    [
        (b"", {}),
        (b"{}", {}),
        (b'{"args": null}', None),
        (b'{"args": [1, "a"]}', [1, "a"]),
        (b'{"args": "text", "other": 1}', "text"),
    ],
)
async def test_arguments_may_be_any_value_and_are_an_empty_object_by_default(
    http: Http, who: Who, calls: Calls, body: bytes, args: object
) -> None:
    assert (await http.post(INVOKE, headers=who("alice"), content=body)).status_code == 200
    assert [made[2] for made in calls.made] == [args]


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"passport_fpr": 1}', b'{"args": "\\u0000"}'])
async def test_a_body_that_is_no_call_is_refused(http: Http, who: Who, calls: Calls, body: bytes) -> None:
    assert problem(await http.post(INVOKE, headers=who("alice"), content=body))[0] == 400
    assert calls.made == []


async def test_a_call_of_nobody_is_refused(http: Http, who: Who, calls: Calls) -> None:
    required = (400, "passport_fpr required (body field or X-Corecrux-Passport-Id header)")
    for body in ({}, {"passport_fpr": None}):
        assert problem(await http.post(INVOKE, headers=who(), json=body)) == required
    assert calls.made == []


@pytest.mark.parametrize("named", ["bob", "", "auth0|x"])
async def test_the_passport_of_the_body_wins_over_the_header(http: Http, who: Who, calls: Calls, named: str) -> None:
    assert (await http.post(INVOKE, headers=who("alice"), json={"passport_fpr": named})).status_code == 200
    assert [made[3] for made in calls.made] == [named]


@pytest.mark.parametrize(
    "refusal", [NotFound("not installed"), Forbidden("no grant"), RateLimited("rate limited (cap 1/min)")]
)
async def test_a_refused_call_is_answered_with_its_status_and_text(
    http: Http, who: Who, calls: Calls, refusal: CruxError
) -> None:
    calls.refusal = refusal
    answer = await http.post(INVOKE, headers=who("alice"))
    assert problem(answer) == (refusal.status, refusal.message)


@pytest.mark.parametrize("tool", ["ext.a%2Fb", "ext.a/b", "invoke", "%C3%A9"])
async def test_a_tool_may_have_any_name(http: Http, who: Who, calls: Calls, tool: str) -> None:
    url = f"/v1/extensions/ext.quote/tools/{tool}/invoke"
    assert (await http.post(url, headers=who("alice"))).status_code == 200
    assert [made[1] for made in calls.made] == [httpx.URL(f"http://x/{tool}").path[1:]]


# --- who may call for whom (Decision 6)


def bearing(token: str, passport: str | None = None) -> dict[str, str]:
    named = {} if passport is None else {"X-Corecrux-Passport-Id": passport}
    return {"Authorization": f"Bearer {token}", **named}


JWT_MAY = {"scope": CHANGE, "sub": "alice"}


@pytest.mark.parametrize(
    ("mode", "registry", "headers", "named", "acts_as"),
    [
        (AuthMode.OFF, AgentRegistry(), {}, "bob", "bob"),
        (AuthMode.OFF, AGENTS, {"X-Corecrux-Passport-Id": "alice"}, "bob", "bob"),
        (AuthMode.DEV_SCOPES, AgentRegistry(), {"X-Corecrux-Scopes": CHANGE}, "bob", "bob"),
        # Where agents have tokens, a passport needs one: by header and by body.
        (AuthMode.DEV_SCOPES, AGENTS, {"X-Corecrux-Scopes": CHANGE}, "bob", None),
        (AuthMode.DEV_SCOPES, AGENTS, {"X-Corecrux-Scopes": CHANGE}, "", None),
        # The operator.
        (AuthMode.DEV_SCOPES, OPERATOR, bearing(OPERATOR_TOKEN, "p_alice"), None, "p_alice"),
        (AuthMode.DEV_SCOPES, OPERATOR, bearing(OPERATOR_TOKEN), None, "default"),
        (AuthMode.DEV_SCOPES, OPERATOR, bearing(OPERATOR_TOKEN), "bob", "bob"),
        (AuthMode.JWT_HS256, OPERATOR, bearing(OPERATOR_TOKEN, "p_alice"), "bob", "bob"),
        # The other agents.
        (AuthMode.DEV_SCOPES, AGENTS, bearing(PLANNER_TOKEN), None, "planner"),
        (AuthMode.DEV_SCOPES, AGENTS, bearing(PLANNER_TOKEN), "planner", "planner"),
        (AuthMode.DEV_SCOPES, AGENTS, bearing(PLANNER_TOKEN), "writer", None),
        (AuthMode.DEV_SCOPES, AGENTS, bearing(PLANNER_TOKEN), "", None),
        (AuthMode.JWT_HS256, AGENTS, bearing(PLANNER_TOKEN), "writer", None),
        # A JWT.
        (AuthMode.JWT_HS256, AgentRegistry(), JWT_MAY, None, "alice"),
        (AuthMode.JWT_HS256, AgentRegistry(), JWT_MAY, "alice", "alice"),
        (AuthMode.JWT_HS256, AgentRegistry(), JWT_MAY, "bob", None),
        (AuthMode.JWT_HS256, AgentRegistry(), {"scope": CHANGE}, "bob", None),
        (AuthMode.JWT_HS256, AgentRegistry(), {**JWT_MAY, "scp": "passport:impersonate"}, "bob", "bob"),
        (AuthMode.JWT_HS256, AgentRegistry(), {**JWT_MAY, "scp": "admin:write"}, "bob", "bob"),
    ],
)
async def test_a_caller_acts_for_whom_its_credential_lets_it(
    api: Api,
    calls: Calls,
    mode: AuthMode,
    registry: AgentRegistry,
    headers: dict[str, str],
    named: str | None,
    acts_as: str | None,
) -> None:
    if "scope" in headers:
        headers = bearing(jwt_of(headers))
    rules: JwtRules | None = RULES if mode is AuthMode.JWT_HS256 else None
    authenticator = HttpAuthenticator(mode, registry, AGENT_SCOPES, rules)
    async with client_of(evolve(api, authenticator=authenticator)) as http:
        answer = await http.post(INVOKE, headers=headers, json={} if named is None else {"passport_fpr": named})
    if acts_as is None:
        assert problem(answer)[0] == 403
        assert answer.json()["code"] == "PASSPORT_MISMATCH"
    else:
        assert answer.status_code == 200, answer.text
    assert [made[3] for made in calls.made] == ([] if acts_as is None else [acts_as])


# --- scopes and paths

LOOKING = [("GET", ""), ("GET", "/ext.quote"), ("GET", "/keys"), ("GET", "/ext.quote/grants")]
CHANGING = [
    ("POST", "/register"),
    ("DELETE", "/ext.quote"),
    ("POST", "/keys"),
    ("DELETE", "/keys/p"),
    ("POST", "/ext.quote/grants"),
    ("DELETE", "/ext.quote/grants/alice"),
    ("POST", "/ext.quote/tools/ext.quote.daily/invoke"),
]


@pytest.mark.parametrize(
    ("method", "path", "scopes", "missing"),
    [
        *((*one, "facts:read query:read facts:write admin:write", ["admin:read"]) for one in LOOKING),
        *((*one, "admin:read admin:write", ["facts:write"]) for one in CHANGING),
        *((*one, "facts:write", ["admin:read"]) for one in CHANGING),
        *((*one, "query:read", ["admin:read", "facts:write"]) for one in CHANGING),
    ],
)
async def test_every_scope_of_a_route_is_needed_before_anything_else_is_looked_at(
    http: Http, who: Who, method: str, path: str, scopes: str, missing: list[str]
) -> None:
    answer = await http.request(method, f"/v1/extensions{path}", headers=who("alice", scopes), content=b"no JSON")
    assert problem(answer) == (403, "insufficient scopes")
    assert (answer.json()["code"], answer.json()["missingScopes"]) == ("MISSING_SCOPE", missing)


@pytest.mark.parametrize(("method", "path"), [*LOOKING, *CHANGING])
async def test_agents_look_and_call_and_change_nothing(stack: Stack, calls: Calls, method: str, path: str) -> None:
    """Else an agent could have the daemon call whomever it likes, and put tools before other agents."""
    services = evolve(stack.services, extension_calls=calls)
    api = evolve(api_on(services, ()), authenticator=HttpAuthenticator(AuthMode.JWT_HS256, AGENTS, AGENT_SCOPES, RULES))
    async with client_of(api) as client:
        headers = {"Authorization": f"Bearer {PLANNER_TOKEN}"}
        answer = await client.request(method, f"/v1/extensions{path}", headers=headers)
    refused = answer.status_code == 403 and answer.json()["code"] == "OPERATORS_ONLY"
    assert refused == ((method, path) in CHANGING and not path.endswith("/invoke"))


@pytest.mark.parametrize(("method", "path"), [*LOOKING, *CHANGING])
async def test_without_a_credential_no_route_says_anything(http: Http, method: str, path: str) -> None:
    answer = await http.request(method, f"/v1/extensions{path}")
    assert problem(answer)[0] == 401
    assert answer.json()["code"] == "UNAUTHENTICATED"


async def test_the_words_of_routes_are_not_taken_for_extensions(http: Http, who: Who) -> None:
    await install(http, who, recipe_json("grants"))
    assert (await http.get("/v1/extensions/keys", headers=who())).json() == {"count": 0, "keys": {}}
    assert (await http.get("/v1/extensions/grants", headers=who())).json()["manifest"]["id"] == "grants"
    assert problem(await http.delete("/v1/extensions/keys/grants", headers=who()))[1].startswith("key 'grants'")
    for path in ("register", "registry"):
        answer = await http.get(f"/v1/extensions/{path}", headers=who())
        assert problem(answer) == (404, f"extension '{path}' not installed")
