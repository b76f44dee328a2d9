"""What people do with agents' memory that agents do not: undo a consolidation."""

from crux.domain.consolidation import UndoConsolidation
from crux.errors import NotFound
from crux.tools.schema import shortened
from crux.transport.rest.route import ADMINISTER, HttpCall, Reply, json_reply, route


@route("DELETE", "/v1/memory/consolidations/<text:consolidation_id>", ADMINISTER, for_operators=True)
async def undo_consolidation(call: HttpCall, consolidation_id: str) -> Reply:
    """Bring back the facts that a consolidation retired, and delete the one that it made of them."""
    record = await call.ask(call.api.services.facts, UndoConsolidation(consolidation_id))
    if record is None:
        raise NotFound(f"no consolidation {shortened(consolidation_id)}")
    return json_reply(
        {
            "consolidation_id": record.consolidation_id,
            "undone": True,
            "deleted_fact_id": record.canonical_fact_id,
            "restored_fact_ids": [replaced.fact_id for replaced in record.replaced],
        }
    )


ROUTES = (undo_consolidation,)
