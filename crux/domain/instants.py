"""Instants as text: microseconds since the Unix epoch to RFC 3339 and back."""

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_HH_MM = r"(?:[01]\d|2[0-3]):[0-5]\d"
_RFC3339 = re.compile(rf"(\d{{4}}-\d\d-\d\d)[Tt]({_HH_MM}):(\d\d)(?:\.(\d{{1,9}}))?([Zz]|[+-]{_HH_MM})", re.ASCII)


def rfc3339(us: int) -> str:
    """`us` in UTC with six fraction digits, such as `2026-11-30T18:59:22.123456Z`.

    Texts of one form sort as their instants do. Raises `OverflowError` outside the years 1 to 9999.
    """
    return (_EPOCH + timedelta(microseconds=us)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_rfc3339(text: str) -> int:
    """The microsecond that `text` names, whatever its offset (RFC 3339 5.6); further fraction digits are cut off.

    A leap second, which exists only at the end of a UTC day (5.7), counts as the second after it. Raises `ValueError`
    for anything else than an instant of the years 1 to 9999.
    """
    try:
        return _parse(text)
    except (ValueError, OverflowError):
        raise ValueError(f"expected an RFC 3339 instant such as 2026-11-30T18:59:22Z, got {text[:40]!r}") from None


def _parse(text: str) -> int:
    if (match := _RFC3339.fullmatch(text)) is None:
        raise ValueError("not of the form")
    date, minute, second, fraction, offset = match.groups(default="")
    leap = second == "60"
    moment = datetime.fromisoformat(f"{date}T{minute}:{'59' if leap else second}{offset.upper()}").astimezone(UTC)
    if leap:
        if (moment.hour, moment.minute) != (23, 59):
            raise ValueError("no leap second")
        moment += timedelta(seconds=1)
    return (moment - _EPOCH) // _MICROSECOND + int(fraction[:6].ljust(6, "0"))
