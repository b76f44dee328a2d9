"""The settings of the daemon: one typed table, and what is derived from it."""

from crux.config.declaration import STRONG_SECRET_BYTES, declarations
from crux.config.doubts import doubts
from crux.config.oauth import OAuthSettings
from crux.config.parsers import AuthMode
from crux.config.reference import Row, describe, describe_calls, reference_markdown
from crux.config.settings import Settings
from crux.config.sources import Loaded, load
from crux.config.wire import ServerKind, WireSettings

__all__ = [
    "STRONG_SECRET_BYTES",
    "AuthMode",
    "Loaded",
    "OAuthSettings",
    "Row",
    "ServerKind",
    "Settings",
    "WireSettings",
    "declarations",
    "describe",
    "describe_calls",
    "doubts",
    "load",
    "reference_markdown",
]
