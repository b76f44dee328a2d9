"""What a command takes: its arguments, its token and its standard streams, refused where they cannot be used."""

import math
import re
import sys
from typing import IO, Any

import click

from crux.errors import CruxError, InvalidArgument

_TOKEN = re.compile(r"[!-~]+")


def text(value: str) -> str:
    """The type of an argument that is sent. Bytes that are not UTF-8 arrive as lone surrogates (PEP 383)."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise click.BadParameter(f"not UTF-8 text (character {error.start + 1})") from None
    return value


class Share(click.FloatRange):
    """A number from 0 to 1. NaN is outside, though no comparison says so."""

    def __init__(self) -> None:
        super().__init__(0, 1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value} is not in the range 0<=x<=1.", param, ctx)
        return number


class InputFile(click.File):
    """A file to read as bytes; - is standard input."""

    def __init__(self) -> None:
        super().__init__("rb")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> IO[bytes]:
        if value == "-":
            return standard_input()
        opened: IO[bytes] = super().convert(value, param, ctx)
        return opened


def standard_input() -> IO[bytes]:
    """Standard input as bytes; raises `CruxError` where the caller has closed it."""
    if sys.stdin is None:
        raise CruxError("standard input is closed")
    return sys.stdin.buffer


def standard_output() -> IO[bytes]:
    """Standard output as bytes; raises `CruxError` where the caller has closed it."""
    if sys.stdout is None:
        raise CruxError("standard output is closed")
    return sys.stdout.buffer


def usable_token(given: str | None, name: str) -> str | None:
    """The token in `given`, None where it is blank.

    Raises `InvalidArgument` for what no header can hold (RFC 6750 2.1); it has `name` in its place.
    """
    token = (given or "").strip()
    if token and _TOKEN.fullmatch(token) is None:
        raise InvalidArgument(f"{name} may hold printable ASCII characters only, and no blanks")
    return token or None
