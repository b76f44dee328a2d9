"""The catalogue: the tools that work, in the order in which they are listed."""

from crux.tools.bootstrap import get_bootstrap
from crux.tools.facts import delete_fact, fact_history, list_entities, query_facts, store_fact
from crux.tools.gaps import get_gaps
from crux.tools.identity import get_agent_identity
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
        get_gaps,
        get_agent_identity,
    ]
)
