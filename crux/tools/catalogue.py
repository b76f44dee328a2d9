"""The catalogue: the tools that work, in the order in which they are listed."""

from crux.tools.artefacts import artefact_get, artefact_list, artefact_put
from crux.tools.bootstrap import get_bootstrap
from crux.tools.edges import edge_delete, edge_get, edge_list, edge_upsert
from crux.tools.entities import (
    entity_delete,
    entity_get,
    entity_history,
    entity_list,
    entity_upsert,
    kind_get,
    kind_list,
)
from crux.tools.facts import delete_fact, fact_history, list_entities, query_facts, store_fact
from crux.tools.gaps import get_gaps
from crux.tools.identity import get_agent_identity
from crux.tools.memory_consolidation import memory_consolidate, memory_contradictions
from crux.tools.memory_forget import memory_forget, memory_forget_dry_run
from crux.tools.memory_freshness import memory_freshness, memory_reverify, memory_set_horizon, memory_sweep_candidates
from crux.tools.memory_panel import memory_edit, memory_history, memory_pin, memory_view
from crux.tools.memory_use import memory_acknowledge_use
from crux.tools.registry import Catalogue
from crux.tools.retrieval import query, query_expand, query_scan
from crux.tools.session import cuecrux_session

CATALOGUE = Catalogue.of(
    [
        cuecrux_session,
        query,
        query_scan,
        query_expand,
        store_fact,
        query_facts,
        delete_fact,
        list_entities,
        get_bootstrap,
        fact_history,
        memory_acknowledge_use,
        memory_forget,
        memory_forget_dry_run,
        memory_view,
        memory_edit,
        memory_pin,
        memory_history,
        memory_freshness,
        memory_sweep_candidates,
        memory_contradictions,
        memory_consolidate,
        memory_set_horizon,
        memory_reverify,
        artefact_put,
        artefact_get,
        artefact_list,
        get_gaps,
        get_agent_identity,
        entity_upsert,
        entity_get,
        entity_list,
        entity_delete,
        entity_history,
        edge_upsert,
        edge_get,
        edge_list,
        edge_delete,
        kind_list,
        kind_get,
    ]
)
