"""The Acknowledgements: which facts the latest turns used, as their agents say."""

from __future__ import annotations

from collections import OrderedDict

from crux.actors.actor import Actor, handles
from crux.domain.acknowledgements import MOST_TURNS, Acknowledge, Turn, TurnOf
from crux.domain.bounds import put_latest


class Acknowledgements(Actor):
    """Owns the `MOST_TURNS` turns that were acknowledged last, one for each agent and turn id.

    A restart forgets them: they are for hosts that show what a turn drew on while it is at hand. Asks nobody.
    """

    def __init__(self) -> None:
        self._turns: OrderedDict[tuple[str, str], Turn] = OrderedDict()

    @handles(Acknowledge)
    def acknowledge(self, m: Acknowledge) -> None:
        put_latest(self._turns, (m.turn.agent, m.turn.turn_id), m.turn, MOST_TURNS)

    @handles(TurnOf)
    def turn_of(self, m: TurnOf) -> Turn | None:
        return self._turns.get((m.agent, m.turn_id))
