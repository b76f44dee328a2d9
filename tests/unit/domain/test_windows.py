"""The two counts over a minute, held against what counting by hand gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.windows import (
    LIMIT_PER_MIN,
    MOST_COUNTED,
    WINDOW_S,
    Attempts,
    EventWindow,
    Fate,
    admitted,
    count_event,
    counted,
    effective_cap,
)
from crux.errors import RateLimited

STEPS_S = st.sampled_from([0.0, 0.1, 0.3, 1.0, 7.0, 29.9, 30.0, 59.0, 60.0, 61.0])


def refusal(attempts: Attempts, cap: int, now_s: float) -> RateLimited:
    with pytest.raises(RateLimited) as caught:
        admitted(attempts, cap, now_s)
    return caught.value


@given(st.lists(st.tuples(STEPS_S, st.integers(0, 4))))
def test_what_is_admitted_is_what_a_list_of_all_attempts_would_admit(steps: list[tuple[float, int]]) -> None:
    now_s, attempts, made = 0.0, Attempts(), list[float]()
    for wait_s, cap in steps:
        now_s += wait_s
        counting = [at for at in made if at + 60 > now_s]
        try:
            attempts = admitted(attempts, cap, now_s)
        except RateLimited:
            assert len(counting) >= cap
        else:
            assert len(counting) < cap
            made.append(now_s)
        assert counted(attempts, now_s) == tuple(at + 60 for at in made if at + 60 > now_s)


@given(st.lists(STEPS_S, max_size=12), st.integers(1, 4))
def test_whoever_comes_again_when_told_to_is_admitted(steps: list[float], cap: int) -> None:
    now_s, attempts = 0.0, Attempts()
    for wait_s in steps:
        now_s += wait_s
        if len(counted(attempts, now_s)) < cap:
            attempts = admitted(attempts, cap, now_s)
            continue
        retry_after_s = refusal(attempts, cap, now_s).retry_after_s
        assert retry_after_s is not None
        assert 1 <= retry_after_s <= 60
        admitted(attempts, cap, now_s + retry_after_s + 1e-9)  # sums of floats are as exact as that


@pytest.mark.parametrize(("later_s", "counts"), [(0, True), (59.999, True), (60, False), (60.001, False)])
def test_an_attempt_counts_until_the_instant_at_which_it_is_a_window_old(later_s: float, counts: bool) -> None:
    attempts = admitted((), 1, 100.0)
    assert bool(counted(attempts, 100 + later_s)) is counts


@pytest.mark.parametrize(("later_s", "retry_after_s"), [(0, 60), (0.5, 60), (1, 59), (59, 1), (59.5, 1), (59.999, 1)])
def test_a_refusal_says_in_whole_seconds_when_to_come_again(later_s: float, retry_after_s: int) -> None:
    error = refusal(admitted((), 1, 0.0), 1, later_s)
    assert (str(error), error.status, error.retry_after_s) == ("rate limited (cap 1/min)", 429, retry_after_s)


def test_below_a_cap_that_was_lowered_as_many_attempts_must_go_as_are_too_many() -> None:
    attempts = Attempts()
    for at in (0.0, 10.0, 20.0):
        attempts = admitted(attempts, 3, at)
    assert [refusal(attempts, cap, 30).retry_after_s for cap in (3, 2, 1)] == [30, 40, 50]


@pytest.mark.parametrize("attempts", [(), (60.0,)])
def test_a_cap_of_zero_admits_nothing_and_promises_nothing(attempts: Attempts) -> None:
    error = refusal(attempts, 0, 1.0)
    assert (str(error), error.retry_after_s) == ("rate limited (cap 0/min)", None)


def test_the_wait_of_one_refusal_is_not_that_of_another() -> None:
    refusal((60.0,), 1, 1.0)
    assert RateLimited("elsewhere").retry_after_s is None


@pytest.mark.parametrize(
    ("cap", "effective"),
    [(0, 0), (MOST_COUNTED - 1, MOST_COUNTED - 1), (MOST_COUNTED, MOST_COUNTED), (MOST_COUNTED + 1, MOST_COUNTED)],
)
def test_a_cap_is_enforced_as_it_is_up_to_what_can_be_counted(cap: int, effective: int) -> None:
    assert effective_cap(cap) == effective


@pytest.mark.parametrize("cap", [MOST_COUNTED, MOST_COUNTED + 1, 4_294_967_295])
def test_no_cap_makes_anybody_hold_more_than_can_be_counted(cap: int) -> None:
    nearly = (60.0,) * (MOST_COUNTED - 1)
    full = admitted(nearly, cap, 1.0)
    assert len(full) == MOST_COUNTED
    assert str(refusal(full, cap, 1.0)) == f"rate limited (cap {MOST_COUNTED}/min)"


def fates(times: int, at_s: float, window: EventWindow | None = None) -> tuple[list[Fate], EventWindow]:
    seen: list[Fate] = []
    for _ in range(times):
        counted_event = count_event(window, at_s)
        window = counted_event.window
        seen.append(counted_event.fate)
    assert window is not None
    return seen, window


def test_of_a_window_s_events_sixty_are_kept_then_one_marker_then_nothing() -> None:
    seen, window = fates(LIMIT_PER_MIN + 3, 5.0)
    assert LIMIT_PER_MIN == 60
    assert seen == [Fate.KEPT] * 60 + [Fate.MARKED] + [Fate.SILENT] * 2
    assert window == EventWindow(5.0 + WINDOW_S, 63, 2)


@pytest.mark.parametrize(("at_s", "fate"), [(5.0, Fate.SILENT), (64.999, Fate.SILENT), (65.0, Fate.KEPT)])
def test_a_window_ends_sixty_seconds_after_its_first_event(at_s: float, fate: Fate) -> None:
    _, window = fates(61, 5.0)
    counted_event = count_event(window, at_s)
    assert counted_event.fate is fate
    if fate is Fate.KEPT:
        assert counted_event.window == EventWindow(at_s + WINDOW_S, 1)


def test_a_marker_tells_of_the_silence_since_the_one_before_it_and_no_more() -> None:
    _, window = fates(61 + 7, 0.0)
    _, window = fates(10, 60.0, window)
    assert window.silent == 7, "this window had no marker"
    _, window = fates(60, 120.0, window)
    marked = count_event(window, 120.0)
    assert (marked.fate, marked.silent_before, marked.window.silent) == (Fate.MARKED, 7, 0)


@given(st.lists(st.tuples(st.integers(1, 70), STEPS_S)))
def test_every_event_is_kept_or_told_of_by_a_marker_or_waits_for_the_next_one(bursts: list[tuple[int, float]]) -> None:
    window: EventWindow | None = None
    now_s, came, told = 0.0, 0, 0
    for times, wait_s in bursts:
        now_s += wait_s
        for _ in range(times):
            counted_event = count_event(window, now_s)
            window = counted_event.window
            came += 1
            told += counted_event.silent_before + (counted_event.fate is not Fate.SILENT)
    assert came == told + (0 if window is None else window.silent)
