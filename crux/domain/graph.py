"""Which hits of a search are linked: by edges between what they are about, or because one names the other's entity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import frozen

from crux.domain.substrate import Node

DOCUMENT = "document"


@frozen
class About:
    """What a hit is about: `node` is a fact's entity or the document itself, `named` are what a document names."""

    node: Node | None
    named: tuple[Node, ...] = ()

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.named if self.node is None else (self.node, *self.named)


def node_of(name: str) -> Node | None:
    """The node that a name such as `service:billing` or `service/billing` is of; None where it has no two parts."""
    places = [place for separator in ":/" if (place := name.find(separator)) > 0]
    if not places or min(places) + 1 == len(name):
        return None
    return Node(name[: min(places)], name[min(places) + 1 :])


def links(hits: Sequence[About], edges: Iterable[tuple[Node, Node]]) -> list[list[int]]:
    """For each hit, the places of the others that it is linked to."""
    holders: dict[Node, set[int]] = {}
    for place, hit in enumerate(hits):
        for node in hit.nodes:
            holders.setdefault(node, set()).add(place)
    linked: list[set[int]] = [set() for _ in hits]
    for one, other in edges:
        _join(linked, holders.get(one, ()), holders.get(other, ()))
    for place, hit in enumerate(hits):
        for node in hit.named:
            _join(linked, [place], [other for other in holders[node] if hits[other].node == node])
    return [sorted(places - {place}) for place, places in enumerate(linked)]


def _join(linked: list[set[int]], some: Iterable[int], others: Iterable[int]) -> None:
    for one in some:
        for other in others:
            linked[one].add(other)
            linked[other].add(one)
