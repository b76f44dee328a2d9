"""The declared ask-directions."""

from graphlib import TopologicalSorter
from pathlib import Path

from crux.actors.clock import SystemClock
from crux.actors.mailbox import Mailbox
from crux.actors.observations import Observations
from crux.actors.topology import ASKS
from crux.actors.traces import TraceRing
from crux.daemon import _actors
from crux.domain.decay import DecayPolicy
from crux.domain.privacy import PrivacyRules
from crux.storage.engine import SqliteEngine
from crux.tools.catalogue import CATALOGUE
from crux.tools.registry import Services


def test_no_actor_can_wait_for_itself_through_others() -> None:
    order = list(TopologicalSorter(ASKS).static_order())
    assert set(order) == set(ASKS), "an actor may be asked that is not declared"


async def test_the_daemon_starts_exactly_the_actors_that_are_declared(tmp_path: Path) -> None:
    engine = await SqliteEngine.open(tmp_path, DecayPolicy())
    mailboxes = {name: Mailbox(name) for name in ASKS}
    services = Services(
        facts=mailboxes["facts"],
        recall=mailboxes["recall"],
        clock=SystemClock(),
        privacy=PrivacyRules(),
        decay=DecayPolicy(),
        node_id="",
        base_url="",
        catalogue=CATALOGUE,
        intents=mailboxes["intents"],
        traces=mailboxes["traces"],
        mcp_url=None,
    )

    def unbuilt() -> Observations:
        raise AssertionError("nothing is built before it is started")

    assert [
        actor.mailbox.name
        for actor in _actors(mailboxes, services, engine, lambda: TraceRing(services.clock, 1), unbuilt)
    ] == list(ASKS)
    engine.close()


def test_the_picture_in_the_documents_shows_every_direction() -> None:
    page = (Path(__file__).parents[3] / "docs" / "architecture.md").read_text()
    for actor, asked in ASKS.items():
        assert f"--> {actor}[" in page
        for other in asked:
            assert f"{actor} --> {other}" in page
