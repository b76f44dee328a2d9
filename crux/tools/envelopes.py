"""The audit envelope beside a tool's answer, where the operator has envelopes on (Decision 3)."""

from collections.abc import Sequence
from typing import TypeVar

from crux.domain.envelope import envelope_of_facts
from crux.domain.facts import Fact
from crux.tools.registry import Call
from crux.tools.results import WithMeta

T = TypeVar("T")


def with_envelope(answer: T, facts: Sequence[Fact], call: Call, now_us: int) -> T | WithMeta:
    """The answer, and beside it what it draws on: `facts`, in its order."""
    if not call.services.audit_envelope:
        return answer
    envelope = envelope_of_facts(
        facts,
        agent=call.agent,
        node_id=call.services.node_id,
        base_url=call.services.base_url,
        now_us=now_us,
        policy=call.services.decay,
    )
    return WithMeta(answer, {"envelope": envelope})
