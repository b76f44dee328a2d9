"""A pipeline of plain callables that turns an event into one line on standard error.

An event is a short text with named fields: `log = get_logger(__name__)`, then `log.info("listener ready", port=14801)`.
Lines of libraries that use the standard `logging` module, at warning and above, go the same way.
"""

import logging
import re
import sys
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from functools import partial
from math import isfinite
from typing import TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from crux.logs.redaction import redact_value


class LogFormat(Enum):
    """The shape of a line: for people, or one JSON object."""

    TEXT = "text"
    JSON = "json"


class LogLevel(Enum):
    """Severities, least severe first."""

    TRACE = "trace"
    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


class Redact(Enum):
    """What happens to secrets in log lines: taken out, only counted, or not looked for."""

    ON = "on"
    AUDIT = "audit"
    OFF = "off"


class Logger(structlog.BoundLoggerBase):
    """Writes events; `bind(**fields)` gives a logger whose events all carry these fields."""

    def trace(self, event: str, **fields: object) -> None:
        """What only the search for one bug needs."""
        self._write(LogLevel.TRACE, event, fields)

    def debug(self, event: str, **fields: object) -> None:
        """What a developer wants to see."""
        self._write(LogLevel.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        """What an operator wants to see once."""
        self._write(LogLevel.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """What works, but not as well or as long as it should."""
        self._write(LogLevel.WARN, event, fields)

    def error(self, event: str, **fields: object) -> None:
        """What failed; `exc_info=error` adds the traceback of an exception."""
        self._write(LogLevel.ERROR, event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """What failed, with the traceback of the exception being handled."""
        self._write(LogLevel.ERROR, event, {"exc_info": True, **fields})

    def _write(self, level: LogLevel, event: str, fields: dict[str, object]) -> None:
        with suppress(structlog.DropEvent):
            args, kwargs = self._process_event(level.value, event, fields)
            self._logger.msg(*args, **kwargs)


def get_logger(module: str) -> Logger:
    """The logger of one module; it may be made before `configure` and always obeys the latest one."""
    logger: Logger = structlog.wrap_logger(None, wrapper_class=Logger, logger_factory_args=(module,))
    return logger


def configure(
    log_format: LogFormat, log_level: LogLevel, redact: Redact, *, stream: TextIO | None = None
) -> Counter[str]:
    """Set up logging for the whole process, onto `stream` (standard error).

    Returns the live count of redactions by rule, for the metrics. Calling it again replaces the earlier set-up.
    """
    out = sys.stderr if stream is None else stream
    hits: Counter[str] = Counter()
    steps: list[Processor] = [
        _drop_below(log_level),
        _add_origin,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _plain_fields,
    ]
    if redact is not Redact.OFF:
        steps.append(_redactor(hits, replace=redact is Redact.ON))
    if log_format is LogFormat.JSON:
        steps.append(structlog.processors.JSONRenderer())
    else:
        steps.append(_text_renderer(colours=out.isatty()))
    structlog.configure(steps, wrapper_class=Logger, logger_factory=partial(_Sink, out))
    _adopt_standard_logging()
    return hits


_SEVERITY = {level.value: rank for rank, level in enumerate(LogLevel)}
_DEEPEST = 8
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_BUT_LAYOUT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_COLOURS = {"warn": "\x1b[33m", "error": "\x1b[31m"}
_COLOUR_END = "\x1b[0m"


def _drop_below(least: LogLevel) -> Processor:
    threshold = _SEVERITY[least.value]

    def drop(_logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if _SEVERITY[method] < threshold:
            raise structlog.DropEvent
        return event

    return drop


def _add_origin(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    module = {"module": logger.module} if logger.module else {}
    return {**module, **event, "level": method}


def _plain_fields(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {name: _plain(value) for name, value in event.items()}


def _plain(value: object, depth: int = 0) -> object:
    """`value` as JSON can carry it; what has no such form, or is nested too deep (or in itself), becomes its text."""
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)):
        return value
    if depth < _DEEPEST and isinstance(value, Mapping):
        return {str(name): _plain(entry, depth + 1) for name, entry in value.items()}
    if depth < _DEEPEST and isinstance(value, list | tuple | set | frozenset):
        return [_plain(entry, depth + 1) for entry in value]
    return repr(value) if isinstance(value, bytes) else str(value)


def _redactor(hits: Counter[str], *, replace: bool) -> Processor:
    def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        clean = redact_value(event, hits)
        return clean if replace and isinstance(clean, dict) else event

    return redact


def _text_renderer(*, colours: bool) -> Processor:
    """Lines such as `2026-01-31T12:00:00.000000Z warn  disk is nearly full  free_bytes=1024`.

    No event can forge a line or drive the terminal: control characters are shown as escapes, except the layout of a
    traceback, which follows on lines of its own.
    """

    def render(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
        level, traceback = event.pop("level"), event.pop("exception", None)
        start, end = (_COLOURS.get(level, ""), _COLOUR_END) if colours else ("", "")
        head = f"{event.pop('timestamp')} {start}{level:5}{end} {_escape(_CONTROL, event.pop('event'))}"
        fields = " ".join(f"{_escape(_CONTROL, name)}={_quoted(value)}" for name, value in event.items())
        tail = "" if traceback is None else "\n" + _escape(_CONTROL_BUT_LAYOUT, traceback)
        return f"{head}  {fields}{tail}"

    return render


def _quoted(value: object) -> str:
    bare = isinstance(value, str) and value.isprintable() and value and not set(value) & {" ", "=", '"', "'"}
    return str(value) if bare else repr(value)


def _escape(characters: re.Pattern[str], text: object) -> str:
    return characters.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


class _Sink(structlog.WriteLogger):
    """Writes the finished lines of one module; structlog's lock keeps the lines of several threads apart."""

    def __init__(self, stream: TextIO, module: str | None = None) -> None:
        super().__init__(stream)
        self.module = module

    def msg(self, message: str) -> None:
        # A stream that is closed or full must not stop the daemon, and there is nowhere else to say so.
        with suppress(OSError, ValueError):
            super().msg(message)


class _Adopted(logging.Handler):
    """Hands a record of the standard `logging` module to the pipeline."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            text = record.getMessage()
        except (TypeError, ValueError, KeyError):  # a library's wrong arguments are worth a line, not a failure
            text = f"{record.msg} {record.args!r}"
        logger = get_logger(record.name)
        write = logger.error if record.levelno >= logging.ERROR else logger.warning
        write(text, exc_info=record.exc_info)


def _adopt_standard_logging() -> None:
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, _Adopted):
            root.removeHandler(handler)
    root.addHandler(_Adopted(logging.WARNING))
    root.setLevel(logging.WARNING)
