"""What a fresh daemon tells agents about itself (protocol 15).

Agents read these entries with `get_bootstrap`, often all of a topic at once: each is short, and names a tool that some
daemons lack only on the condition that `tools/list` shows it.
"""

from attrs import frozen

from crux.domain.privacy import BOOTSTRAP_PREFIX


@frozen
class Entry:
    """One piece of guidance as it is stored: `key` is its title, `value` its text."""

    entity: str
    key: str
    value: str


def _entry(name: str, title: str, text: str) -> Entry:
    return Entry(BOOTSTRAP_PREFIX + name, title, " ".join(text.split()))


STOCK: tuple[Entry, ...] = (
    _entry(
        "doc:getting-started",
        "First calls",
        """
        Crux keeps what agents learn, across sessions and between agents. Connect over MCP (Streamable HTTP,
        protocol 2024-11-05) to http://127.0.0.1:14801/mcp. Then: (1) get_bootstrap {"topic": "pattern"} for
        the working habits. (2) query_facts {"query": "<words of your task>", "token_budget": 800} for what is
        already known. (3) store_fact with entity, key and value for each thing worth knowing tomorrow. This
        advice is the same for every daemon: where it names a tool that tools/list does not show, yours may
        lack it. Topics of get_bootstrap: doc, pattern, resolution (what an error means), tool-output (what
        each tool returns).
        """,
    ),
    _entry(
        "doc:endpoints",
        "Ports, and who they are for",
        """
        Agents use MCP at http://127.0.0.1:14801/mcp: POST carries one JSON-RPC request and brings its answer;
        GET says which protocol and version this is, or opens a push stream when it asks for an event stream.
        Scripts and people use HTTP at http://127.0.0.1:14800, for
        example /healthz, /v1/version and /v1/facts. There is no /mcp on 14800. MCP reports a failed call in
        the JSON body under status 200; HTTP uses the status. Both ports are the defaults and listen on this
        machine only; the operator may have moved them (CORECRUXD_MCP_HOST, CORECRUXD_MCP_PORT,
        CORECRUXD_HTTP_HOST, CORECRUXD_HTTP_PORT). To let an agent in, an operator shares the MCP address and
        a token, never the data directory. Before an upgrade the operator makes a
        backup: a copy of that directory while the daemon is stopped, or of the database with sqlite3.
        """,
    ),
    _entry(
        "doc:identity-and-privacy",
        "Who you are and who can read you",
        """
        Your bearer token is your identity: the operator names agents in CRUX_AGENT_TOKENS
        (name:token,name:token) or sets one CRUX_AGENT_TOKEN, whose agent is `default`. Without tokens every
        caller is anonymous. A fact is readable by every agent of the daemon unless you store it with
        private: true; then you alone see it, under the entity you gave. An anonymous caller cannot store
        private facts. Entities that begin with __agent:: or another of the daemon's own __name__:: prefixes
        are refused by the fact tools; __bootstrap__:: is open, for guidance that all agents should read.
        Keep passwords and keys out of facts altogether, private ones too.
        """,
    ),
    _entry(
        "doc:local-and-hosted",
        "What works without any service",
        """
        The description of every tool starts with a marker. [local] means that it runs inside this daemon, on
        this machine, and needs no network; all tools of this release are local. There are no [hosted] ones,
        such as sync_pull or sync_push, and nothing to configure for them: if a task needs another machine to
        see what you stored, tell the operator, who can carry public facts over with `crux facts export` and
        `crux facts import`. Integration with a service is never automatic: what you store stays in the data
        directory of this daemon.
        """,
    ),
    _entry(
        "doc:tool-surface",
        "What tools/list shows",
        """
        tools/list comes whole, without paging. By default it shows every tool that works. The operator may
        narrow it to the core floor, or to that and what suits your work: tell it with cuecrux_session
        {"intent": ...}, one of audit_review, compliance_export, document_ingest, session_review,
        knowledge_query; it counts for an hour. What is hidden so can be called by its name all the same. A
        capability token may take tools away for good: calls of them are refused with -32030. Advice that names
        a tool which this daemon lacks was written for one that has it: take the way without it. When you hear
        that the list has changed, or after a restart, ask for it once more. What a tool returns is described
        by get_bootstrap {"topic": "tool-output", "query": "<its name>"}.
        """,
    ),
    _entry(
        "pattern:session-loop",
        "A session from start to end",
        """
        Resume, work, save, hand off. Resume: query_facts for the entity of your project with a
        token_budget, and get_session for your saved state when tools/list shows it. Work: store each result
        as soon as it is certain; a session may end without warning. Save: at every milestone store a fact
        with entity session:<project> and key next-step that says what comes next. When tools/list shows
        save_session and session_checkpoint, use those: save_session keeps a JSON state under an id,
        session_checkpoint keeps goal, decisions, open questions and next step (its token_budget is
        required). Hand off: create_handoff when it is listed, else a fact that names who goes on and from
        where.
        """,
    ),
    _entry(
        "pattern:recall-before-act",
        "Look before you act",
        """
        Before you plan, change or answer something, ask what is known: query_facts {"query": "deploy
        staging", "token_budget": 800}; any one of the words is enough for a match, so few and telling words
        are best. With an entity argument you get that entity only. Always pass token_budget, 500 to 1500
        for a look. Leaving it out applies no bound but top_k (10 unless you set it), and facts can be long.
        Within a budget the best fact always comes whole, then as many as fit, then pointers to others. Read
        confidence and freshness too: check a stale fact before you rely on it. For documents use query when
        tools/list shows it, with a token_budget likewise.
        """,
    ),
    _entry(
        "pattern:store-facts-well",
        "Facts that can be found again",
        """
        One fact holds one property: entity names the thing (project:atlas, host:build-7, person:ada), key
        the property (status, owner, deploy-command), value a short text that makes sense on its own. Use
        the same names every time: storing the same entity and key again makes a new version and the old
        value becomes history (fact_history). confidence runs from 0 to 1; say 0.6 for a guess.
        source_receipt notes where it comes from. horizon_class says how soon it goes stale: volatile (a
        day), medium (weeks), stable (a year), none (never); a stale fact counts half. supersedes lists the
        ids of facts under other names that this one replaces. private: true keeps it to yourself.
        """,
    ),
    _entry(
        "pattern:scan-then-expand",
        "Pointers first, text second",
        """
        Read long material in two steps, so that only what you chose fills your context. When tools/list
        shows query_scan: call it with tenant_id, query and token_budget; it returns ids and scores without
        text. Pick the few that matter and pass their ids as result_ids to query_expand, which returns the
        text. query searches the same documents and public facts, fewer of them, and takes a min_score. Both say
        which words of your question nothing is known of (coverage.gaps); where coverage is low the answer is
        probably not there, so rephrase once and then stop. For facts, a small
        token_budget on query_facts does the same: the best come whole, more as pointers; ask again with the
        entity of the one you need.
        """,
    ),
    _entry(
        "pattern:tend-memory",
        "Keep what you know true",
        """
        Now and then, when tools/list shows these: memory_sweep_candidates lists what is stale or replaced. A stale
        fact that you have checked: memory_reverify. One that is wrong: memory_edit, or store_fact with the same
        entity and key. One that goes stale too soon or too late: memory_set_horizon. memory_contradictions finds
        names of which one fact says yes and another no; memory_consolidate makes one fact of several. memory_pin
        what must stay. To be rid of something for good, memory_forget_dry_run first, then memory_forget with the
        same scope: values are erased and do not come back. To only hide one fact, delete_fact.
        """,
    ),
    _entry(
        "pattern:records-and-links",
        "Things with a shape, and what links them",
        """
        A fact holds one value. For a thing of many parts use entity_upsert with a kind, an id and a JSON payload,
        when tools/list shows it; kind_list names the kinds that are checked, others may be used as well. Link
        things with edge_upsert: from, what the link says, to. Facts about service:billing belong to the node of
        kind service and id billing, and a search ranks hits higher that are linked to each other. What is too
        large to carry along: artefact_put keeps it for you alone, for a week unless you say otherwise, and
        artefact_get brings it back.
        """,
    ),
    _entry(
        "pattern:coordinate",
        "Working beside other agents",
        """
        Other agents may be at work on the same things. When tools/list shows get_constraints and
        check_constraints, read the rules at the start and test a risky action before you take it; a verdict
        of block means do not. When it shows approval_request, queue what only a human may decide (its
        token_budget is required) and go on with other work meanwhile. When it shows create_handoff, pass
        work on with it; the receiver calls accept_handoff with the package, unchanged. Where these tools
        are missing, use facts: entity claim:<project>, key the file or task, value who has it and until
        when, horizon_class volatile; look there first, and store `done` at the end.
        """,
    ),
    _entry(
        "pattern:check-posture",
        "Know the state of the daemon first",
        """
        Before work that relies on another machine, call sync_status when tools/list shows it: it says
        whether this daemon stands alone, is mirrored, or is degraded, and what to do. Take `degraded` or
        `not configured` to mean that what you see here is all you get, and that nothing you store reaches
        another machine. Before maintenance call update_status when it is listed: it says whether a newer
        version exists and never changes anything itself. Where neither is listed the daemon stands alone.
        Its version is in serverInfo of the initialize answer, and at http://127.0.0.1:14800/v1/version;
        http://127.0.0.1:14800/readyz says whether it can store.
        """,
    ),
    _entry(
        "resolution:method-not-found",
        "-32601: no such method or tool",
        """
        The HTTP status is 200 and the error is in the body, so look for `error` before you read `result`. It
        has a code and a message, no data. `method not found`: this daemon has initialize,
        notifications/initialized, tools/list and tools/call. There are no resources, prompts, completion,
        logging, roots or ping; do not retry, carry on without them. `unknown tool`: compare the name, letter
        by letter, with tools/list, which shows all that there are. A tool that this text or your memory names
        may be missing from this release: take the way without it, and do not retry.
        """,
    ),
    _entry(
        "resolution:capability-denied",
        "-32030: refused, whoever asks",
        """
        The daemon understood the call and will not do it; the same call fails again, whoever makes it. With a
        reason_code in error.data, the daemon's capability token does not allow the tool: the code says why
        (denied:capability_not_permitted: the token does not name it; denied:token_expired: its time is over),
        stamp and refusal_receipt say which token that was. Only the operator can change that: go on without
        the tool, and say that you did. With an error_code, the record belongs to the daemon itself, or a
        consolidation stands on it: leave it alone. With protected, the fact is pinned, private, backed by a
        receipt or very sure. With requires_passport, connect with an agent's token.
        """,
    ),
    _entry(
        "resolution:invalid-params",
        "-32602: an argument is wrong or missing",
        """
        The message names the argument and what was expected; correct that one and call again. Frequent
        causes: a required argument left out (store_fact needs entity, key and value, all text); a number sent
        as text; a word that is not among those allowed; confidence outside 0 to 1; private: true without an
        agent token; an entity with a reserved prefix; a fact id in supersedes that you cannot see. null
        counts as left out, arguments that a tool does not know are ignored, and a limit that is too high is
        lowered. tools/list has the schema of every tool, with an example.
        """,
    ),
    _entry(
        "resolution:unauthorized",
        "401, 403 and 421: the daemon does not let you in",
        """
        401: this daemon wants a token, and your request carried none, or one that does not hold. Send one header
        `Authorization: Bearer <token>`, with that capital B and one space. An agent's token is 32 to 256
        characters of letters, digits and . _ ~ - without quotes or line ends; the operator restarts the daemon
        to change them. Where WWW-Authenticate names resource_metadata, an access token of the authorization
        server named there is taken too; it only reads, and other tools answer -32601. 503: too many tokens are
        being looked up; try again. 403 about the origin: you call from a web page; the operator
        adds its origin to CRUX_ALLOWED_ORIGINS. 421: you used a host name that the daemon does not answer to;
        call 127.0.0.1, or the operator adds the name to CRUX_ALLOWED_HOSTS.
        """,
    ),
)
