"""The bounded store: values end at their instant, and the oldest one makes room."""

from crux.actors.expiring import Expiring


def test_a_value_is_there_until_its_instant_and_gone_from_then_on() -> None:
    store: Expiring[str] = Expiring(2)
    store.put(b"k", "v", 10.0)
    assert store.get(b"k", 9.999) == "v"
    assert store.get(b"k", 10.0) is None
    assert len(store) == 0, "and it is not kept"
    assert store.get(b"unknown", 0.0) is None


def test_one_more_than_fit_pushes_out_the_one_put_in_first() -> None:
    store: Expiring[int] = Expiring(2)
    for number, key in enumerate((b"a", b"b", b"a", b"c")):
        store.put(key, number, 10.0)
    assert [store.get(key, 0.0) for key in (b"a", b"b", b"c")] == [2, None, 3]


def test_a_sweep_forgets_what_has_ended_and_nothing_else() -> None:
    store: Expiring[str] = Expiring(9)
    store.put(b"ended", "v", 5.0)
    store.put(b"lasting", "v", 5.1)
    store.drop(b"never there")
    store.sweep(5.0)
    assert len(store) == 1
    assert store.get(b"lasting", 5.0) == "v"
    store.drop(b"lasting")
    assert len(store) == 0
