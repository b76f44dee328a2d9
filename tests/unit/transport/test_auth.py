from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crux.config import AuthMode, Settings
from crux.domain.agents import AgentRegistry
from crux.domain.privacy import ANONYMOUS, RAW_ADMIN, Viewer
from crux.errors import Forbidden, InvalidArgument, StartRefused, Unauthorized
from crux.transport.auth import Principal, auth_mode_of, authenticator_of
from tests.unit.transport.callers import (
    AGENT_SCOPES,
    AGENTS,
    KEY,
    NOBODY,
    OPERATOR,
    OPERATOR_TOKEN,
    PLANNER_TOKEN,
    WRITER_TOKEN,
    Headers,
    bearer,
    http,
    passport,
    scopes,
    signed,
)

# --- the principal


def test_a_missing_scope_is_forbidden_with_the_scopes_that_would_do() -> None:
    caller = Principal("planner", "planner", frozenset({"query:read"}))
    caller.require_any("admin:read", "query:read")
    with pytest.raises(Forbidden) as refused:
        caller.require_any("facts:write", "admin:write")
    assert refused.value.data == {"code": "MISSING_SCOPE", "missingAnyScope": ["facts:write", "admin:write"]}
    assert "facts:write, admin:write" in refused.value.message


def test_of_scopes_that_are_all_needed_those_that_are_missing_are_told() -> None:
    caller = Principal("planner", "planner", frozenset({"query:read", "admin:read"}))
    caller.require_all("admin:read", "query:read")
    caller.require_all()
    with pytest.raises(Forbidden, match=r"^insufficient scopes$") as refused:
        caller.require_all("facts:write", "admin:read", "admin:write")
    assert refused.value.data == {"code": "MISSING_SCOPE", "missingScopes": ["facts:write", "admin:write"]}


@pytest.mark.parametrize(
    ("registry", "token", "is_operator"), [(AGENTS, PLANNER_TOKEN, False), (OPERATOR, OPERATOR_TOKEN, True)]
)
def test_an_agent_is_no_operator(registry: AgentRegistry, token: str, is_operator: bool) -> None:
    caller = http(AuthMode.JWT_HS256, registry).authenticate([bearer(token)])
    if is_operator:
        caller.require_operator()
        return
    with pytest.raises(Forbidden, match="agent 'planner'") as refused:
        caller.require_operator()
    assert refused.value.data == {"code": "OPERATORS_ONLY"}


@pytest.mark.parametrize("own", ["alice", None])
def test_a_bound_caller_acts_as_itself_and_any_other_as_whom_it_names(own: str | None) -> None:
    bound, free = Principal(None, own, frozenset(), bound=True), Principal(None, own, frozenset())
    for caller in (bound, free):
        assert (caller.acting_as(None), caller.acting_as(own)) == (own, own)
    for named in ("bob", ""):
        assert free.acting_as(named) == named
        with pytest.raises(Forbidden) as refused:
            bound.acting_as(named)
        assert refused.value.data == {"code": "PASSPORT_MISMATCH"}


def test_scopes_are_compared_literally() -> None:
    caller = Principal(None, None, frozenset({"admin:*", "Facts:write"}))
    for scope in ("admin:read", "facts:write"):
        with pytest.raises(Forbidden):
            caller.require_any(scope)


def test_where_every_check_passes_no_scope_is_missing() -> None:
    Principal(None, None, scopes=None).require_any("facts:write")
    Principal(None, None, scopes=None).require_all("facts:write", "admin:read")


@pytest.mark.parametrize(
    ("caller", "for_read", "for_write"),
    [
        (Principal(None, "alice", scopes=None), Viewer(owners=("alice",)), Viewer(owners=("alice",))),
        (Principal(None, "alice", AGENT_SCOPES), Viewer(owners=("alice",)), Viewer(owners=("alice",))),
        (Principal(None, None, scopes=None), RAW_ADMIN, RAW_ADMIN),
        (Principal(None, None, frozenset({"admin:read"})), RAW_ADMIN, ANONYMOUS),
        (Principal(None, None, frozenset({"admin:write"})), ANONYMOUS, RAW_ADMIN),
        (Principal(None, None, frozenset({"query:read", "facts:write"})), ANONYMOUS, ANONYMOUS),
        (Principal(None, None, AGENT_SCOPES, confined=True), ANONYMOUS, ANONYMOUS),
        (Principal(None, "alice", AGENT_SCOPES, confined=True), Viewer(owners=("alice",)), Viewer(owners=("alice",))),
    ],
)
def test_a_passport_sees_its_own_an_administrator_everything_and_others_what_is_public(
    caller: Principal, for_read: Viewer, for_write: Viewer
) -> None:
    assert caller.viewer_for_read == for_read
    assert caller.viewer_for_write == for_write


# --- mode off


@pytest.mark.parametrize("registry", [NOBODY, OPERATOR, AGENTS])
@pytest.mark.parametrize("credential", [bearer(PLANNER_TOKEN), bearer("nonsense"), scopes("query:read")])
def test_off_looks_at_the_passport_header_and_nothing_else(
    registry: AgentRegistry, credential: tuple[bytes, bytes]
) -> None:
    off = http(AuthMode.OFF, registry)
    assert off.authenticate([credential]) == Principal(None, None, scopes=None)
    assert off.authenticate([credential, passport("alice")]) == Principal(None, "alice", scopes=None)


@pytest.mark.parametrize("mode", AuthMode)
def test_a_malformed_passport_header_is_refused_in_every_mode(mode: AuthMode) -> None:
    for headers in ([passport("b@d")], [passport("alice"), passport("bob")]):
        with pytest.raises(InvalidArgument) as refused:
            http(mode).authenticate(headers)
        assert refused.value.data == {"code": "invalid-passport-header"}


# --- agent tokens

TOKEN_MODES = pytest.mark.parametrize("mode", [AuthMode.DEV_SCOPES, AuthMode.JWT_HS256])


@TOKEN_MODES
def test_the_operator_acts_as_itself_or_as_whom_it_names_with_all_agent_scopes(mode: AuthMode) -> None:
    authenticator = http(mode, OPERATOR)
    assert authenticator.authenticate([bearer(OPERATOR_TOKEN)]) == Principal("default", "default", AGENT_SCOPES)
    assert authenticator.authenticate([bearer(OPERATOR_TOKEN), passport("p_alice")]) == Principal(
        "default", "p_alice", AGENT_SCOPES
    )


@TOKEN_MODES
def test_other_agents_act_as_themselves_only_and_never_write_as_admin(mode: AuthMode) -> None:
    authenticator = http(mode, AGENTS)
    planner = Principal("planner", "planner", AGENT_SCOPES - {"admin:write"}, bound=True, agent=True)
    assert authenticator.authenticate([bearer(PLANNER_TOKEN)]) == planner
    assert authenticator.authenticate([bearer(PLANNER_TOKEN), passport("planner")]) == planner
    for other in ("writer", "p_alice", "Planner"):
        with pytest.raises(Forbidden, match="'planner'") as refused:
            authenticator.authenticate([bearer(PLANNER_TOKEN), passport(other)])
        assert refused.value.data == {"code": "PASSPORT_HEADER_MISMATCH"}


@TOKEN_MODES
def test_an_agent_called_default_in_the_list_is_no_operator(mode: AuthMode) -> None:
    authenticator = http(mode, AgentRegistry.parse(None, f"default:{PLANNER_TOKEN}"))
    caller = authenticator.authenticate([bearer(PLANNER_TOKEN)])
    assert caller.scopes == AGENT_SCOPES - {"admin:write"}
    with pytest.raises(Forbidden):
        authenticator.authenticate([bearer(PLANNER_TOKEN), passport("p_alice")])


@TOKEN_MODES
@pytest.mark.parametrize("scheme", [b"Bearer ", b"bearer ", b"Bearer  "])
def test_an_agent_token_is_looked_for_first_and_trimmed(mode: AuthMode, scheme: bytes) -> None:
    headers = [scopes("admin:write"), (b"authorization", scheme + PLANNER_TOKEN.encode() + b" ")]
    assert http(mode, AGENTS).authenticate(headers).name == "planner"
    assert "admin:write" not in (http(mode, AGENTS).authenticate(headers).scopes or ())


# --- dev_scopes


@pytest.mark.parametrize(
    ("headers", "declared"),
    [
        ([scopes("query:read, facts:write\tadmin:read,,")], {"query:read", "facts:write", "admin:read"}),
        ([scopes("query:read"), scopes("facts:write")], {"query:read", "facts:write"}),
        ([scopes("query:read"), bearer("admin:write")], {"query:read"}),
        ([scopes("")], set()),
        ([scopes(""), bearer("admin:write")], set()),
        ([bearer("query:read facts:write")], {"query:read", "facts:write"}),
        ([(b"authorization", b"bearer query:read,facts:write")], {"query:read", "facts:write"}),
        ([bearer("")], set()),
    ],
)
def test_a_development_client_declares_its_scopes(headers: Headers, declared: set[str]) -> None:
    assert http(AuthMode.DEV_SCOPES).authenticate(headers) == Principal(None, None, frozenset(declared))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [passport("alice")],
        [(b"authorization", b"Basic abc")],
        [(b"authorization", b"Bearer query:read"), (b"authorization", b"Bearer query:read")],
    ],
)
def test_a_development_client_that_declares_nothing_is_unauthenticated(headers: Headers) -> None:
    with pytest.raises(Unauthorized, match="X-Corecrux-Scopes") as refused:
        http(AuthMode.DEV_SCOPES).authenticate(headers)
    assert refused.value.data == {"code": "UNAUTHENTICATED", "hint": refused.value.message}


def test_without_agents_a_development_client_may_name_anybody_and_be_raw_administrator() -> None:
    dev = http(AuthMode.DEV_SCOPES)
    assert dev.authenticate([scopes("query:read"), passport("planner")]).viewer_for_read.owners == ("planner",)
    assert dev.authenticate([scopes("admin:read")]).viewer_for_read is RAW_ADMIN


@pytest.mark.parametrize("registry", [OPERATOR, AGENTS])
def test_where_agents_have_tokens_a_self_declared_caller_never_sees_what_is_theirs(registry: AgentRegistry) -> None:
    dev = http(AuthMode.DEV_SCOPES, registry)
    everything = scopes("admin:read admin:write passport:impersonate")
    caller = dev.authenticate([everything])
    assert (caller.viewer_for_read, caller.viewer_for_write) == (ANONYMOUS, ANONYMOUS)
    for name in (*registry.names, "p_alice", "somebody.whose.token.was.withdrawn"):
        with pytest.raises(Forbidden, match="Authorization: Bearer") as refused:
            dev.authenticate([everything, passport(name)])
        assert refused.value.data == {"code": "PASSPORT_HEADER_UNBOUND"}


@pytest.mark.parametrize("token", ["mistyped-token", "x" * 40, "query:read mistyped", "QUERY:READ"])
def test_where_agents_have_tokens_a_bearer_that_is_neither_token_nor_scopes_is_refused(token: str) -> None:
    with pytest.raises(Unauthorized, match="belongs to no agent"):
        http(AuthMode.DEV_SCOPES, AGENTS).authenticate([(b"authorization", f"Bearer {token}".encode())])
    declared = http(AuthMode.DEV_SCOPES, AGENTS).authenticate([(b"authorization", b"Bearer query:read, facts:write")])
    assert declared.scopes == frozenset({"query:read", "facts:write"})


# --- what the settings ask for


@pytest.mark.parametrize(
    ("chosen", "registry", "mode"),
    [
        ({}, NOBODY, AuthMode.DEV_SCOPES),
        ({"auth_mode": AuthMode.OFF}, NOBODY, AuthMode.OFF),
        (
            {"auth_mode": AuthMode.JWT_HS256, "jwt_hs256_secret": KEY, "http_host": "10.0.0.1"},
            NOBODY,
            AuthMode.JWT_HS256,
        ),
        ({"auth_mode": AuthMode.OFF, "mcp_host": "10.0.0.1"}, AGENTS, AuthMode.OFF),
        ({"mcp_host": "10.0.0.1", "mcp_enabled": False}, NOBODY, AuthMode.DEV_SCOPES),
    ],
)
def test_the_settings_say_how_callers_are_known(
    chosen: dict[str, Any], registry: AgentRegistry, mode: AuthMode
) -> None:
    settings = Settings(**chosen)
    assert auth_mode_of(settings, registry) is mode
    authenticator = authenticator_of(settings, registry)
    if mode is AuthMode.JWT_HS256:
        assert authenticator.authenticate([bearer(signed({"sub": "anna"}))]).name == "anna"
    else:
        scope = next(iter(settings.agent_token_http_scopes))
        assert authenticator.authenticate([scopes(scope)]).has_any(scope)


@pytest.mark.parametrize(
    "chosen",
    [
        {"http_host": "10.0.0.1"},
        {"auth_mode": AuthMode.OFF, "mcp_host": "10.0.0.1"},
        {"auth_mode": AuthMode.JWT_HS256},
        {"jwt_hs256_secret": b"short"},
    ],
)
def test_settings_that_would_let_strangers_in_refuse_the_start(chosen: dict[str, Any]) -> None:
    with pytest.raises(StartRefused):
        authenticator_of(Settings(**chosen), NOBODY)


# --- what is an agent's own


header_pairs = st.tuples(
    st.sampled_from([b"authorization", b"x-corecrux-scopes", b"x-corecrux-passport-id", b"host"]),
    st.one_of(
        st.binary(max_size=20),
        st.binary(max_size=40).map(lambda value: b"Bearer " + value),
        st.sampled_from([b"planner", b"writer", b"admin:read admin:write", b"Bearer " + PLANNER_TOKEN.encode()]),
    ),
)


@given(st.sampled_from([AuthMode.DEV_SCOPES, AuthMode.JWT_HS256]), st.lists(header_pairs, max_size=4))
@example(AuthMode.DEV_SCOPES, [(b"x-corecrux-passport-id", b"writer"), (b"x-corecrux-scopes", b"admin:read")])
def test_no_headers_let_a_caller_see_the_private_facts_of_an_agent_without_its_token(
    mode: AuthMode, headers: Headers
) -> None:
    try:
        caller = http(mode, AGENTS).authenticate(headers)
    except (Unauthorized, Forbidden, InvalidArgument):
        return
    for viewer in (caller.viewer_for_read, caller.viewer_for_write):
        assert not viewer.sees_all
        assert "writer" not in viewer.owners
        assert "planner" not in viewer.owners or bearer(PLANNER_TOKEN) in headers


# --- routes without scopes


def recognised(mode: AuthMode, registry: AgentRegistry, *headers: tuple[bytes, bytes]) -> Principal:
    return http(mode, registry).recognise([(b"host", b"localhost"), *headers])


@pytest.mark.parametrize("mode", AuthMode)
def test_on_a_route_without_scopes_a_caller_that_says_nothing_is_nobody(mode: AuthMode) -> None:
    nobody = recognised(mode, NOBODY)
    assert (nobody.name, nobody.passport, nobody.scopes) == (None, None, frozenset())
    assert nobody.viewer_for_write == ANONYMOUS


def test_on_a_route_without_scopes_a_caller_that_says_who_it_is_has_to_be_that() -> None:
    assert recognised(AuthMode.DEV_SCOPES, AGENTS, bearer(WRITER_TOKEN)).passport == "writer"
    assert recognised(AuthMode.DEV_SCOPES, NOBODY, scopes(""), passport("x")).passport == "x"
    assert recognised(AuthMode.OFF, NOBODY, passport("x")).passport == "x"
    for mode, header in (
        (AuthMode.JWT_HS256, bearer("no-jwt")),
        (AuthMode.JWT_HS256, passport("x")),
        (AuthMode.DEV_SCOPES, passport("x")),
    ):
        with pytest.raises(Unauthorized):
            recognised(mode, NOBODY, header)


@pytest.mark.parametrize("mode", [AuthMode.DEV_SCOPES, AuthMode.JWT_HS256])
def test_where_agents_have_tokens_no_route_without_scopes_serves_a_nameless_caller(mode: AuthMode) -> None:
    for header in ([], [scopes("query:read")]):
        with pytest.raises(Unauthorized):
            recognised(mode, AGENTS, *header)
