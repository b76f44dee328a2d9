"""Which facts an agent may say that it used."""

import pytest

from crux.domain.acknowledgements import Used, sort_facts, used
from crux.domain.decay import DAY_US
from crux.domain.facts import Draft, Fact, next_version
from crux.domain.privacy import Viewer, private_entity

BOB = Viewer(("bob",))


def fact(entity: str, *, private: bool = False, at: int = 0) -> Fact:
    return next_version(Draft(entity, "k", "v", private=private), None, fact_id=f"f_{entity}", now_us=at)


def test_what_cannot_be_seen_is_as_unknown_as_what_never_was() -> None:
    own = fact(private_entity("bob", "a"), private=True)
    found = sort_facts(
        [
            fact("a"),
            own,
            fact(private_entity("eve", "a"), private=True),
            fact("decisions::1", private=True),
            None,
            fact("__bootstrap__::x"),
        ],
        BOB,
    )
    assert (found.kept, found.not_found, found.redacted) == ((fact("a"), own), 3, 1)
    assert [memory.topic for memory in used(found.kept, BOB, 0)] == ["a", "a"]


@pytest.mark.parametrize(("now", "days"), [(DAY_US - 1, 0), (DAY_US, 1), (0, 0), (-1, None)])
def test_an_age_is_told_in_whole_days(now: int, days: int | None) -> None:
    assert used([fact("a")], BOB, now) == (Used("f_a", "a", days),)
