"""The Acknowledgements: the latest turns, each agent's own."""

from crux.actors.acknowledgements import Acknowledgements
from crux.domain.acknowledgements import MOST_TURNS, Acknowledge, Intent, Turn, TurnOf


def turn(agent: str, turn_id: str, intent: Intent = Intent.ANSWER) -> Turn:
    return Turn(agent, turn_id, intent, ())


def test_the_same_turn_again_takes_the_place_of_the_first() -> None:
    kept = Acknowledgements()
    kept.acknowledge(Acknowledge(turn("bob", "t")))
    kept.acknowledge(Acknowledge(turn("bob", "t", Intent.DECISION)))
    assert kept.turn_of(TurnOf("bob", "t")) == turn("bob", "t", Intent.DECISION)
    assert kept.turn_of(TurnOf("eve", "t")) is None


def test_of_too_many_turns_the_first_one_goes() -> None:
    kept = Acknowledgements()
    for number in range(MOST_TURNS):
        kept.acknowledge(Acknowledge(turn("bob", str(number))))
    assert kept.turn_of(TurnOf("bob", "0")) is not None
    kept.acknowledge(Acknowledge(turn("bob", "more")))
    assert kept.turn_of(TurnOf("bob", "0")) is None
    assert kept.turn_of(TurnOf("bob", "1")) is not None
