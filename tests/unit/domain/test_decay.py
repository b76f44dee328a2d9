import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.decay import (
    DecayPolicy,
    Freshness,
    Horizon,
    age_hours,
    default_horizon,
    effective_confidence,
    freshness,
    horizon_from_prose,
    salience,
)

POLICY = DecayPolicy()
HOUR = 3_600_000_000
DAY = 24 * HOUR
NOW = 1_800_000_000_000_000

decaying = st.sampled_from([Horizon.VOLATILE, Horizon.MEDIUM, Horizon.STABLE])


@pytest.mark.parametrize(
    ("horizon", "threshold_us"),
    [(Horizon.VOLATILE, 24 * HOUR), (Horizon.MEDIUM, 35 * DAY), (Horizon.STABLE, 365 * DAY), (Horizon.NONE, None)],
)
def test_each_class_has_its_stock_threshold(horizon: Horizon, threshold_us: int | None) -> None:
    assert POLICY.threshold_us(horizon) == threshold_us


def test_an_operator_sets_the_thresholds() -> None:
    policy = DecayPolicy(volatile_hours=1, medium_days=2, stable_days=3)
    assert [policy.threshold_us(horizon) for horizon in Horizon] == [HOUR, 2 * DAY, 3 * DAY, None]


@pytest.mark.parametrize(
    ("entity", "horizon"),
    [
        ("__ops::coverage", Horizon.VOLATILE),
        ("bench:recall", Horizon.STABLE),
        ("__bootstrap__::doc:start", Horizon.STABLE),
        ("execplan:alpha", Horizon.MEDIUM),
        ("incident:7", Horizon.MEDIUM),
        ("__candidate_fact__::x", Horizon.MEDIUM),
        ("__ops__::coverage", Horizon.NONE),
        ("project bench:recall", Horizon.NONE),
        ("__agent::a::bench:recall", Horizon.NONE),
        ("Bench:recall", Horizon.NONE),
        ("", Horizon.NONE),
    ],
)
def test_the_stored_name_decides_the_class_of_a_fact_whose_writer_does_not(entity: str, horizon: Horizon) -> None:
    assert default_horizon(entity) is horizon


@given(st.sampled_from(Horizon), st.sampled_from(["", " ", "\t\n"]), st.sampled_from([str.upper, str.title, str.lower]))
def test_a_class_is_named_in_any_case_with_space_around_it(horizon: Horizon, space: str, case: object) -> None:
    assert callable(case)
    assert Horizon(f"{space}{case(horizon.value)}{space}") is horizon


@pytest.mark.parametrize("name", ["", "weekly", "sta ble", "x" * 1000, None, 3])
def test_a_name_of_no_class_is_refused(name: Any) -> None:
    with pytest.raises(ValueError, match="is not a valid Horizon"):
        Horizon(name)


@pytest.mark.parametrize(
    ("text", "horizon"),
    [
        ("a few HOURS", Horizon.VOLATILE),
        ("one hour a year", Horizon.VOLATILE),
        ("Stable", Horizon.STABLE),
        ("frozen", Horizon.STABLE),
        ("immutable", Horizon.STABLE),
        ("historical record, 1 day", Horizon.STABLE),
        ("architecture", Horizon.STABLE),
        ("2 years", Horizon.STABLE),
        ("a month and 1 day", Horizon.MEDIUM),
        ("next week", Horizon.MEDIUM),
        ("1 day in the week", Horizon.MEDIUM),
        ("0 days", Horizon.VOLATILE),
        ("1 day", Horizon.VOLATILE),
        ("002 days", Horizon.VOLATILE),
        ("3 days", Horizon.MEDIUM),
        ("10 days, or 1", Horizon.MEDIUM),
        ("daily", Horizon.NONE),
        ("some days", Horizon.MEDIUM),
        ("today", Horizon.MEDIUM),
        ("9" * 10_000 + " days", Horizon.MEDIUM),
        ("", Horizon.NONE),
        ("a while", Horizon.NONE),
    ],
)
def test_prose_is_read_by_its_first_telling_word(text: str, horizon: Horizon) -> None:
    assert horizon_from_prose(text) is horizon


@given(decaying, st.floats(1.0, 4.0))
def test_a_fact_is_fresh_up_to_its_stretched_threshold_and_stale_after(horizon: Horizon, stretch: float) -> None:
    threshold_us = POLICY.threshold_us(horizon)
    assert threshold_us is not None
    last_fresh_us = math.floor(threshold_us * stretch)
    assert freshness(horizon, NOW - last_fresh_us, NOW, POLICY, stretch) is Freshness.FRESH
    assert freshness(horizon, NOW - last_fresh_us - 1, NOW, POLICY, stretch) is Freshness.STALE


@given(decaying)
def test_a_fact_just_confirmed_is_fresh(horizon: Horizon) -> None:
    assert freshness(horizon, NOW, NOW, POLICY) is Freshness.FRESH


@pytest.mark.parametrize(("anchor_us", "now_us"), [(NOW + 1, NOW), (0, NOW), (-5, NOW), (-5, -1), (5, 0)])
def test_an_age_that_makes_no_sense_is_unknown_but_where_age_does_not_matter(anchor_us: int, now_us: int) -> None:
    assert freshness(Horizon.MEDIUM, anchor_us, now_us, POLICY) is Freshness.UNKNOWN
    assert freshness(Horizon.NONE, anchor_us, now_us, POLICY) is Freshness.FRESH


@pytest.mark.parametrize(
    ("access_count", "factor"),
    [(0, 1.0), (1, 1.0 + 0.25 * math.log(2)), (162_753, 4.0 - 1e-6), (162_755, 4.0), (10**18, 4.0)],
)
def test_recall_stretches_a_horizon_up_to_four_times(access_count: int, factor: float) -> None:
    assert salience(access_count) == pytest.approx(factor, abs=2e-6)


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_more_recall_never_makes_a_horizon_shorter(a: int, b: int) -> None:
    less, more = sorted((a, b))
    assert 1.0 <= salience(less) <= salience(more) <= 4.0


@pytest.mark.parametrize(
    ("state", "effective"), [(Freshness.FRESH, 0.8), (Freshness.UNKNOWN, 0.8), (Freshness.STALE, 0.4)]
)
def test_only_a_stale_fact_counts_half(state: Freshness, effective: float) -> None:
    assert effective_confidence(0.8, state) == effective


@pytest.mark.parametrize(
    ("age_us", "hours"), [(0, 0), (HOUR - 1, 0), (HOUR, 1), (49 * HOUR + 1, 49), (-1, 0), (-5 * HOUR, 0)]
)
def test_age_is_in_whole_hours_and_never_negative(age_us: int, hours: int) -> None:
    assert age_hours(NOW - age_us, NOW) == hours
