"""Which hits are linked."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.graph import About, links, node_of
from crux.domain.substrate import Node

A, B, C = Node("k", "a"), Node("k", "b"), Node("k", "c")


@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("service:billing", Node("service", "billing")),
        ("service/billing", Node("service", "billing")),
        ("a/b:c", Node("a", "b:c")),
        ("a:b/c", Node("a", "b/c")),
        ("plain", None),
        (":x", None),
        ("x:", None),
        ("", None),
    ],
)
def test_a_name_of_two_parts_is_a_node(name: str, node: Node | None) -> None:
    assert node_of(name) == node


def test_edges_link_hits_and_so_does_naming_an_entity() -> None:
    hits = [About(A), About(B), About(Node("document", "d"), (A, C)), About(None)]
    assert links(hits, [(A, B)]) == [[1, 2], [0, 2], [0, 1], []]
    assert links(hits, []) == [[2], [], [0], []]
    assert links([About(Node("document", "d"), (A,)), About(Node("document", "e"), (A,))], []) == [[], []]
    assert links([About(A)], [(A, A)]) == [[]]


nodes = st.sampled_from([A, B, C])


@given(
    st.lists(st.builds(About, st.none() | nodes, st.lists(nodes, max_size=2).map(tuple)), max_size=6),
    st.lists(st.tuples(nodes, nodes), max_size=4),
)
def test_a_link_goes_both_ways_and_never_to_oneself(hits: list[About], edges: list[tuple[Node, Node]]) -> None:
    linked = links(hits, edges)
    for place, places in enumerate(linked):
        assert place not in places
        assert all(place in linked[other] for other in places)
