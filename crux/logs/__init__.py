"""Logging, and the removal of secrets from what is logged or echoed."""

from crux.logs.pipeline import LogFormat, Logger, LogLevel, Redact, configure, get_logger
from crux.logs.redaction import redact_text

__all__ = ["LogFormat", "LogLevel", "Logger", "Redact", "configure", "get_logger", "redact_text"]
