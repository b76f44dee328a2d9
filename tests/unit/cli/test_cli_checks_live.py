import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from crux import __version__
from crux.cli.checks import Site, Verdict, live
from crux.cli.checks.site import Occupant, Port, survey
from crux.cli.client import Credentials
from crux.cli.doctor import attempt
from crux.config import Settings
from crux.domain.surface import ExtensionNames
from crux.storage.directory import hold
from tests.unit.cli.sites import site
from tests.unit.cli.stub import Stub

OK, WARN, FAIL = Verdict.OK, Verdict.WARN, Verdict.FAIL

HEALTHY = {"ok": True, "build": {"version": "0.9.9"}}
DISCOVERY = {"protocolVersion": "2024-11-05", "serverInfo": {"name": "crux", "version": "0.9.9"}}


def look(tmp_path: Path, **settings: object) -> Site:
    return survey(Settings(data_dir=tmp_path, **settings), Credentials(token="t" * 32))  # type: ignore[arg-type]


def at_both(port: int, tmp_path: Path) -> tuple[Port, Port]:
    found = look(tmp_path, http_port=port, mcp_port=port)
    assert found.mcp is not None
    return found.http, found.mcp


def test_a_daemon_is_known_by_its_answers_and_never_sent_a_token(stub: Stub, tmp_path: Path) -> None:
    stub.answer("GET /healthz", HEALTHY)
    stub.answer("GET /mcp", DISCOVERY)
    for port in at_both(stub.port, tmp_path):
        assert (port.occupant, port.detail) == (Occupant.CRUX, "0.9.9")
    assert not any("authorization" in asked.headers for asked in stub.asked)


@pytest.mark.parametrize("body", [b"<html>", {"ok": True}, {"serverInfo": {}}])
def test_whoever_answers_otherwise_is_a_stranger(body: object, stub: Stub, tmp_path: Path) -> None:
    stub.answer("GET /healthz", body)
    stub.answer("GET /mcp", body)
    assert [port.occupant for port in at_both(stub.port, tmp_path)] == [Occupant.STRANGER] * 2


def test_a_free_port_is_found_free_and_stays_so(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as once:
        port = once.getsockname()[1]
    assert [port.occupant for port in at_both(port, tmp_path)] == [Occupant.NOBODY] * 2
    socket.create_server(("127.0.0.1", port)).close()


def test_an_address_of_another_machine_cannot_be_listened_on(tmp_path: Path) -> None:
    assert look(tmp_path, http_host="192.0.2.1", http_port=14800).http.occupant is Occupant.IMPOSSIBLE
    assert look(tmp_path, http_host="nowhere.invalid", http_port=14800).http.occupant is Occupant.IMPOSSIBLE


def test_a_port_that_is_chosen_at_start_is_unknown_and_mcp_may_be_off(tmp_path: Path) -> None:
    found = look(tmp_path, http_port=0, mcp_enabled=False)
    assert (found.http.occupant, found.mcp) == (Occupant.UNKNOWN, None)


def test_the_lock_tells_whether_a_daemon_runs(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, http_port=0, mcp_port=0)
    with hold(tmp_path, {"pid": 4711}):
        held = survey(settings, Credentials())
    assert (held.held, held.holder) == (True, {"pid": 4711})
    assert not survey(settings, Credentials()).held


def port(occupant: Occupant, detail: str = "") -> Port:
    return Port("CORECRUXD_HTTP_PORT", "127.0.0.1:1", occupant, detail)


@pytest.mark.parametrize(
    ("found", "held", "verdict", "text"),
    [
        (port(Occupant.NOBODY), False, OK, "127.0.0.1:1 is free"),
        (port(Occupant.NOBODY), True, FAIL, "has no listener, though a daemon holds the data directory"),
        (port(Occupant.CRUX, __version__), True, OK, f"is answered by Crux {__version__}"),
        (port(Occupant.CRUX, "0.0.9"), True, WARN, f"is answered by Crux 0.0.9, and this is {__version__}"),
        (port(Occupant.CRUX, __version__), False, FAIL, "on another data directory"),
        (port(Occupant.STRANGER), False, FAIL, "taken by another program"),
        (port(Occupant.STRANGER), True, FAIL, "taken by another program"),
        (port(Occupant.IMPOSSIBLE, "no such address"), False, FAIL, "cannot be listened on: no such address"),
        (port(Occupant.UNKNOWN), False, OK, "takes a free port"),
    ],
)
def test_a_port_is_right_when_free_or_answered_by_this_daemon(
    found: Port, held: bool, verdict: Verdict, text: str
) -> None:
    for finding in (live.http_port(site(held=held, http=found)), live.mcp_port(site(held=held, mcp=found))):
        assert (finding.verdict, text in finding.text) == (verdict, True)
        assert finding.mend or verdict is OK


def test_mcp_may_be_switched_off() -> None:
    assert live.mcp_port(site(mcp=None)).verdict is OK


@pytest.fixture
def running(stub: Stub) -> Callable[[], tuple[Verdict, str]]:
    def check() -> tuple[Verdict, str]:
        place = stub.url.removeprefix("http://")
        found = attempt(live.write_and_read, site(held=True, http=Port("", place, Occupant.CRUX, __version__)))
        return found.verdict, found.text

    return check


Check = Callable[[], tuple[Verdict, str]]
STATE = "/v1/sessions/doctor-probe/state"


def test_what_was_written_over_the_api_is_read_again(
    stub: Stub, running: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda size: "5ec4e7")
    stub.answer("GET /readyz", {"ok": True})
    stub.answer(f"PUT {STATE}", {})
    stub.answer(f"GET {STATE}", {"state": {"probe": "5ec4e7"}})
    assert running() == (OK, "written and read again over the API")
    assert stub.asked[1].json() == {"probe": "5ec4e7"}


def test_another_value_than_was_written_fails(stub: Stub, running: Check) -> None:
    stub.answer("GET /readyz", {"ok": True})
    stub.answer(f"PUT {STATE}", {})
    stub.answer(f"GET {STATE}", {"state": {"probe": "an earlier one"}})
    assert running()[0] is FAIL


@pytest.mark.parametrize(
    ("status", "verdict"), [(401, OK), (403, OK), (404, OK), (405, OK), (500, FAIL), (503, FAIL), (507, FAIL)]
)
def test_without_permission_the_daemons_own_word_has_to_do(
    status: int, verdict: Verdict, stub: Stub, running: Check
) -> None:
    stub.answer("GET /readyz", {"ok": True})
    stub.answer(f"PUT {STATE}", {"title": "Refused", "detail": "for this reason"}, status=status)
    found = running()
    assert (found[0], "Refused: for this reason" in found[1]) == (verdict, True)


@pytest.mark.parametrize(
    ("body", "reasons"),
    [
        (
            {"ok": False, "checks": [{"name": "capacity", "error": "full"}, {"name": "facts", "error": "stuck"}]},
            "the daemon is not ready: capacity: full; facts: stuck",
        ),
        ({"title": "Service Unavailable", "detail": "busy"}, "the daemon is not ready: Service Unavailable: busy"),
    ],
)
def test_a_daemon_that_is_not_ready_fails_with_its_reasons(
    body: object, reasons: str, stub: Stub, running: Check
) -> None:
    stub.answer("GET /readyz", body, status=503)
    assert running() == (FAIL, reasons)


def test_a_daemon_somewhere_else_is_not_written_to() -> None:
    assert live.write_and_read(site(held=True, http=port(Occupant.STRANGER))).verdict is WARN


def test_without_a_daemon_a_file_is_written_and_removed(tmp_path: Path) -> None:
    assert live.write_and_read(site(tmp_path)).verdict is OK
    assert list(tmp_path.iterdir()) == []


def test_without_a_directory_there_is_nothing_to_write_to(tmp_path: Path) -> None:
    assert live.write_and_read(site(tmp_path / "missing")).verdict is OK
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_synced_fails_and_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    found = live.write_and_read(site(tmp_path))
    assert (found.verdict, "Input/output error" in found.text) == (FAIL, True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_holds_something_else_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pread", lambda *_: b"")
    assert live.write_and_read(site(tmp_path)).verdict is FAIL


INSTALLED = {"extensions": [{"manifest": {"tools": [{"name": "ext.a.one"}, {"name": "ext.a.two"}]}}, {"manifest": {}}]}


def external(stub: Stub, answer: object, status: int = 200, **settings: object) -> tuple[Verdict, str]:
    stub.answer("GET /v1/extensions", answer, status=status)
    place = stub.url.removeprefix("http://")
    crux = Port("", place, Occupant.CRUX, __version__)
    found = attempt(live.external_tools, site(held=True, http=crux, **settings))  # type: ignore[arg-type]
    return found.verdict, found.text


def test_names_with_dots_are_warned_of(stub: Stub) -> None:
    assert external(stub, INSTALLED) == (WARN, "2 tools of extensions are listed with dots in their names")


def test_names_that_every_host_takes_are_fine(stub: Stub) -> None:
    told = "CRUX_EXTENSION_NAMES is safe; extensions: 2"
    assert external(stub, INSTALLED, extension_names=ExtensionNames.SAFE) == (OK, told)


def test_without_extensions_there_are_no_names_to_warn_of(stub: Stub) -> None:
    assert external(stub, {"extensions": []}) == (OK, "CRUX_EXTENSION_NAMES is verbatim; extensions: 0")


@pytest.mark.parametrize(("status", "verdict"), [(401, OK), (403, OK), (404, OK), (500, FAIL), (504, FAIL)])
def test_what_is_not_shown_is_told_of(stub: Stub, status: int, verdict: Verdict) -> None:
    assert external(stub, {"detail": "no"}, status)[0] is verdict


def test_an_answer_of_another_shape_fails(stub: Stub) -> None:
    assert external(stub, {"extensions": 1})[0] is FAIL


def test_where_no_daemon_runs_nothing_is_asked() -> None:
    assert live.external_tools(site()).verdict is OK
