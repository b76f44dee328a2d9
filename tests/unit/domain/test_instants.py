from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.instants import parse_rfc3339, rfc3339

FIRST_US = -62_135_596_800_000_000
LAST_US = 253_402_300_799_999_999
DAY_US = 86_400_000_000
instants = st.integers(FIRST_US, LAST_US)


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (1_796_065_162_123_456, "2026-11-30T18:59:22.123456Z"),
        (FIRST_US, "0001-01-01T00:00:00.000000Z"),
        (LAST_US, "9999-12-31T23:59:59.999999Z"),
    ],
)
def test_an_instant_is_written_in_utc_with_six_fraction_digits(us: int, text: str) -> None:
    assert rfc3339(us) == text


@pytest.mark.parametrize("us", [FIRST_US - 1, LAST_US + 1])
def test_an_instant_outside_the_years_1_to_9999_cannot_be_written(us: int) -> None:
    with pytest.raises(OverflowError):
        rfc3339(us)


@given(instants)
def test_what_is_written_reads_back(us: int) -> None:
    assert parse_rfc3339(rfc3339(us)) == us


@given(instants, instants)
def test_texts_sort_as_their_instants(a: int, b: int) -> None:
    assert (rfc3339(a) < rfc3339(b)) == (a < b)


@given(st.integers(FIRST_US + DAY_US, LAST_US - DAY_US), st.integers(-1439, 1439))
def test_an_instant_reads_the_same_at_any_offset(us: int, offset_min: int) -> None:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)
    assert parse_rfc3339(moment.astimezone(timezone(timedelta(minutes=offset_min))).isoformat()) == us


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("2026-11-30T18:59:22Z", "2026-11-30T18:59:22.000000Z"),
        ("2026-11-30t18:59:22z", "2026-11-30T18:59:22.000000Z"),
        ("2026-11-30T18:59:22.5+00:00", "2026-11-30T18:59:22.500000Z"),
        ("2026-11-30T18:59:22.000001999-00:00", "2026-11-30T18:59:22.000001Z"),
        ("2026-12-01T00:29:22+05:30", "2026-11-30T18:59:22.000000Z"),
        ("2026-11-30T10:59:22.123456789-08:00", "2026-11-30T18:59:22.123456Z"),
        ("2026-11-30T18:58:22-23:59", "2026-12-01T18:57:22.000000Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000000Z"),
        ("1969-12-31T23:59:59.9999999Z", "1969-12-31T23:59:59.999999Z"),
        ("1990-12-31T23:59:60Z", "1991-01-01T00:00:00.000000Z"),
        ("1990-12-31T15:59:60.25-08:00", "1991-01-01T00:00:00.250000Z"),
    ],
)
def test_every_form_of_rfc_3339_is_read(text: str, utc: str) -> None:
    assert rfc3339(parse_rfc3339(text)) == utc


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-11-30",
        "2026-11-30T18:59:22",
        "2026-11-30 18:59:22Z",
        "2026-11-30T18:59Z",
        "2026-11-30T18:59:22.Z",
        "2026-11-30T18:59:22.1234567890Z",
        "2026-11-30T18:59:22Z\n",
        "2026-11-30T18:59:22+0100",
        "2026-11-30T18:59:22+24:00",
        "2026-11-30T18:59:22+01:60",
        "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-11-30T24:00:00Z",
        "2026-11-30T18:60:00Z",
        "2026-11-30T18:59:61Z",
        "2026-11-30T18:59:60Z",
        "2026-11-30T23:58:60Z",
        "1990-12-31T23:59:60+01:00",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "9999-12-31T23:59:60Z",
        "٢٠٢٦-11-30T18:59:22Z",
    ],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="expected an RFC 3339 instant such as 2026-11-30T18:59:22Z, got "):
        parse_rfc3339(text)


def test_a_refusal_quotes_no_more_than_forty_characters() -> None:
    with pytest.raises(ValueError, match=r"got 'x{40}'$"):
        parse_rfc3339("x" * 10_000)
