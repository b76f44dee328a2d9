import io
import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import structlog
from quart.logging import has_level_handler

from crux.logs import LogFormat, LogLevel, Redact, configure, get_logger
from crux.logs.pipeline import _Adopted

log = get_logger("crux.test")


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    root = logging.getLogger()
    level = root.level
    yield
    structlog.reset_defaults()
    root.setLevel(level)
    for handler in [handler for handler in root.handlers if isinstance(handler, _Adopted)]:
        root.removeHandler(handler)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def json_lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


def test_json_is_one_object_a_line_with_time_level_event_and_fields(stream: io.StringIO) -> None:
    configure(LogFormat.JSON, LogLevel.INFO, Redact.ON, stream=stream)
    log.info("listener\nready", port=14801)
    log.bind(actor="facts").warning("mailbox is full", depth=3)
    first, second = json_lines(stream)
    assert datetime.fromisoformat(first.pop("timestamp")).tzinfo == UTC
    assert first == {"level": "info", "event": "listener\nready", "module": "crux.test", "port": 14801}
    assert (second["level"], second["actor"], second["depth"]) == ("warn", "facts", 3)


@pytest.mark.parametrize("level", list(LogLevel))
def test_a_level_lets_itself_and_what_is_more_severe_through(level: LogLevel, stream: io.StringIO) -> None:
    configure(LogFormat.JSON, level, Redact.ON, stream=stream)
    for write in (log.trace, log.debug, log.info, log.warning, log.error):
        write("event")
    written = [line["level"] for line in json_lines(stream)]
    assert written == [other.value for other in LogLevel][list(LogLevel).index(level) :]


def test_text_is_one_plain_line(stream: io.StringIO) -> None:
    configure(LogFormat.TEXT, LogLevel.INFO, Redact.ON, stream=stream)
    log.warning("disk is nearly full", free_bytes=7, path="/data", note="a b", empty="", parts=["x"])
    time, _, rest = stream.getvalue().partition(" ")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", time)
    fields = "module=crux.test free_bytes=7 path=/data note='a b' empty='' parts=['x']"
    assert rest == f"warn  disk is nearly full  {fields}\n"


def test_text_on_a_terminal_colours_warnings_and_errors() -> None:
    terminal = Terminal()
    configure(LogFormat.TEXT, LogLevel.INFO, Redact.ON, stream=terminal)
    log.info("calm")
    log.error("broken")
    calm, broken = terminal.getvalue().splitlines()
    assert "\x1b[31merror\x1b[0m broken" in broken
    assert "\x1b[3" not in calm


def test_an_event_cannot_forge_a_line_or_drive_the_terminal(stream: io.StringIO) -> None:
    configure(LogFormat.TEXT, LogLevel.INFO, Redact.ON, stream=stream)
    log.info("a\nforged\x1b[2J\u2028", **{"na\nme": "b\nc\x1b"})
    assert stream.getvalue().count("\n") == 1
    assert "a\\nforged\\x1b[2J\\u2028" in stream.getvalue()
    assert "na\\nme='b\\nc\\x1b'" in stream.getvalue()


def test_secrets_are_taken_out_of_event_fields_and_traceback(stream: io.StringIO) -> None:
    hits = configure(LogFormat.JSON, LogLevel.INFO, Redact.ON, stream=stream)
    try:
        raise RuntimeError("password=hunter2")
    except RuntimeError:
        log.exception(
            "call with token=hunter2 failed", request={"headers": [{"cookie": "hunter2"}]}, raw=b"secret=hunter2"
        )
    assert "hunter2" not in stream.getvalue()
    (line,) = json_lines(stream)
    assert line["level"] == "error"
    assert line["exception"].startswith("Traceback")
    assert line["exception"].endswith("RuntimeError: password=[redacted:pair]")
    assert hits == {"pair": stream.getvalue().count("[redacted:pair]"), "field": 1}


def test_an_exception_can_be_handed_in_and_is_shown_on_lines_of_its_own(stream: io.StringIO) -> None:
    configure(LogFormat.TEXT, LogLevel.INFO, Redact.ON, stream=stream)
    log.error("actor failed", exc_info=ExceptionGroup("two", [ValueError("a\x1b"), KeyError("b")]))
    lines = stream.getvalue().splitlines()
    assert lines[0].endswith("error actor failed  module=crux.test")
    assert any(line.endswith("ValueError: a\\x1b") for line in lines)


def test_audit_counts_and_changes_nothing(stream: io.StringIO) -> None:
    hits = configure(LogFormat.JSON, LogLevel.INFO, Redact.AUDIT, stream=stream)
    log.info("password=hunter2", token="abc")
    assert (json_lines(stream)[0]["event"], json_lines(stream)[0]["token"]) == ("password=hunter2", "abc")
    assert hits == {"pair": 1, "field": 1}


def test_off_does_not_look(stream: io.StringIO) -> None:
    hits = configure(LogFormat.JSON, LogLevel.INFO, Redact.OFF, stream=stream)
    log.info("password=hunter2")
    assert json_lines(stream)[0]["event"] == "password=hunter2"
    assert not hits


@pytest.mark.parametrize("redact", list(Redact))
def test_any_value_can_be_logged(redact: Redact, stream: io.StringIO) -> None:
    configure(LogFormat.JSON, LogLevel.INFO, redact, stream=stream)
    loop: list[object] = []
    loop.append(loop)
    log.info("odd", path=Path("/x"), nan=float("nan"), raw=b"\xff", pair=(1, 2.5), keys={3: None}, loop=loop)
    (line,) = json_lines(stream)
    assert (line["path"], line["nan"], line["raw"]) == ("/x", "nan", "b'\\xff'")
    assert (line["pair"], line["keys"]) == ([1, 2.5], {"3": None})


def test_warnings_of_libraries_go_through_the_same_pipeline(stream: io.StringIO) -> None:
    configure(LogFormat.JSON, LogLevel.INFO, Redact.ON, stream=stream)
    library = logging.getLogger("hypercorn.error")
    library.info("not written")
    library.warning("peer sent %s", "token=hunter2")
    try:
        raise OSError("gone")
    except OSError:
        library.critical("stopped", exc_info=True)
    warned, stopped = json_lines(stream)
    assert (warned["level"], warned["event"]) == ("warn", "peer sent token=[redacted:pair]")
    assert (stopped["level"], stopped["module"]) == ("error", "hypercorn.error")
    assert stopped["exception"].endswith("OSError: gone")


def test_a_library_that_logs_wrongly_still_gets_its_line(stream: io.StringIO) -> None:
    configure(LogFormat.JSON, LogLevel.INFO, Redact.ON, stream=stream)
    _Adopted().emit(logging.LogRecord("quart.app", logging.WARNING, "app.py", 1, "%d apples", ("no",), None))
    assert json_lines(stream)[0]["event"] == "%d apples ('no',)"


def test_quart_finds_a_handler_and_starts_no_thread_of_its_own(stream: io.StringIO) -> None:
    configure(LogFormat.JSON, LogLevel.INFO, Redact.ON, stream=stream)
    assert any(isinstance(handler, _Adopted) for handler in logging.getLogger().handlers)
    assert has_level_handler(logging.getLogger("crux.front"))


def test_configuring_again_replaces_the_earlier_set_up(stream: io.StringIO) -> None:
    earlier = io.StringIO()
    configure(LogFormat.JSON, LogLevel.INFO, Redact.ON, stream=earlier)
    configure(LogFormat.JSON, LogLevel.ERROR, Redact.ON, stream=stream)
    log.warning("dropped")
    logging.getLogger("library").error("once")
    assert [line["event"] for line in json_lines(stream)] == ["once"]
    assert earlier.getvalue() == ""


def test_a_closed_stream_does_not_stop_the_caller(stream: io.StringIO) -> None:
    configure(LogFormat.TEXT, LogLevel.INFO, Redact.ON, stream=stream)
    stream.close()
    log.error("nowhere to go")


def test_standard_error_is_the_default_stream(capsys: pytest.CaptureFixture[str]) -> None:
    configure(LogFormat.JSON, LogLevel.INFO, Redact.ON)
    log.info("hello")
    out, err = capsys.readouterr()
    assert out == ""
    assert json.loads(err)["event"] == "hello"


def test_a_logger_of_structlog_itself_is_one_of_ours_with_its_module(stream: io.StringIO) -> None:
    configure(LogFormat.JSON, LogLevel.INFO, Redact.ON, stream=stream)
    structlog.get_logger("crux.other").warning("full")
    structlog.get_logger().info("nameless")
    full, nameless = json_lines(stream)
    assert (full["level"], full["module"]) == ("warn", "crux.other")
    assert "module" not in nameless


def test_a_logger_works_before_logging_is_configured(capsys: pytest.CaptureFixture[str]) -> None:
    log.error("early")
    assert "early" in capsys.readouterr().out
