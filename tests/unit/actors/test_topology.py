"""The declared ask-directions."""

from graphlib import TopologicalSorter

from crux.actors.topology import ASKS


def test_no_actor_can_wait_for_itself_through_others() -> None:
    order = list(TopologicalSorter(ASKS).static_order())
    assert set(order) == set(ASKS), "an actor may be asked that is not declared"
