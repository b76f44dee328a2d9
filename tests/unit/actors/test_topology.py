"""The declared ask-directions."""

from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from graphlib import TopologicalSorter
from pathlib import Path

from crux.actors.clock import SystemClock
from crux.actors.introspection import Introspector
from crux.actors.topology import ASKS
from crux.composition import Resources, compose
from crux.config import Settings
from crux.domain.agents import AgentRegistry
from crux.domain.decay import DecayPolicy
from crux.domain.oauth import AccessRules
from crux.domain.outbound import Answer
from crux.storage.engine import SqliteEngine
from crux.tools.catalogue import CATALOGUE
from crux.transport.auth import authenticator_of
from crux.transport.listening import bind
from tests.rcx_tokens import KEY


def test_no_actor_can_wait_for_itself_through_others() -> None:
    order = list(TopologicalSorter(ASKS).static_order())
    assert set(order) == set(ASKS), "an actor may be asked that is not declared"


async def unused(*args: object, **given: object) -> Answer:
    raise AssertionError("nothing is called")


async def composed(directory: Path, introspector: Callable[[], Introspector] | None) -> list[str]:
    """The names of the actors that a daemon is made of, in the order in which they start."""
    settings, registry = Settings(data_dir=directory), AgentRegistry()
    async with AsyncExitStack() as stack:
        engine = stack.enter_context(closing(await SqliteEngine.open(directory, DecayPolicy())))
        (http,) = await bind("127.0.0.1", 0, "PORT")
        stack.enter_context(http)
        parts = compose(
            Resources(
                settings=settings,
                registry=registry,
                authenticator=authenticator_of(settings, registry),
                catalogue=CATALOGUE,
                clock=SystemClock(),
                key=KEY,
                node_id="ab" * 16,
                router=None,
                engine=engine,
                http=[http],
                mcp=[],
                introspector=introspector,
                post=unused,
                redactions={},
            )
        )
    names = [actor.mailbox.name for actor in parts.actors]
    assert names == list(parts.mailboxes)
    return names


async def test_the_daemon_starts_exactly_the_actors_that_are_declared(tmp_path: Path) -> None:
    async def nobody(token: str) -> None:
        return None

    def introspector() -> Introspector:
        return Introspector(nobody, AccessRules("https://crux.example", "work"), SystemClock())

    assert await composed(tmp_path, introspector) == list(ASKS)
    assert set(ASKS).difference(await composed(tmp_path, None)) == {"introspection"}, "where no OAuth tokens are taken"


def test_the_picture_in_the_documents_shows_every_direction() -> None:
    page = (Path(__file__).parents[3] / "docs" / "architecture.md").read_text()
    for actor, asked in ASKS.items():
        assert f"--> {actor}[" in page
        for other in asked:
            assert f"{actor} --> {other}" in page
