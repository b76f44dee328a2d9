"""The settings of the daemon: one typed table, and what is derived from it."""

from crux.config.declaration import STRONG_SECRET_BYTES, declarations, masked
from crux.config.parsers import AuthMode
from crux.config.reference import Row, describe, reference_markdown
from crux.config.settings import Settings
from crux.config.sources import Loaded, load

__all__ = [
    "STRONG_SECRET_BYTES",
    "AuthMode",
    "Loaded",
    "Row",
    "Settings",
    "declarations",
    "describe",
    "load",
    "masked",
    "reference_markdown",
]
