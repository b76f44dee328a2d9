from collections import OrderedDict

from hypothesis import given
from hypothesis import strategies as st

from crux.domain.bounds import cut, put_latest


@given(st.text(), st.integers(0, 40))
def test_a_cut_is_the_longest_start_that_fits(text: str, most_bytes: int) -> None:
    fitting = [text[:end] for end in range(len(text) + 1) if len(text[:end].encode()) <= most_bytes]
    assert cut(text, most_bytes) == fitting[-1]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers())), st.integers(1, 5))
def test_what_is_kept_is_what_was_written_last(writes: list[tuple[int, int]], most: int) -> None:
    kept: OrderedDict[int, int] = OrderedDict()
    for key, value in writes:
        put_latest(kept, key, value, most)
    newest_first = list(dict.fromkeys(key for key, _ in reversed(writes)))[:most]
    assert list(reversed(kept)) == newest_first
    assert kept == {key: dict(writes)[key] for key in newest_first}
