-- Facts, every version of them. `value` stands last: what only ranks or filters need not read past it.
CREATE TABLE facts (
    seq            INTEGER PRIMARY KEY,
    fact_id        TEXT    NOT NULL,
    tenant         TEXT    NOT NULL,
    owner          TEXT,             -- NULL: public; '': the daemon's own; else the agent that alone may see it
    shown          TEXT    NOT NULL, -- the entity as its owner sees it
    entity         TEXT    NOT NULL, -- the entity as stored
    key            TEXT    NOT NULL,
    version        INTEGER NOT NULL,
    stored_at      INTEGER NOT NULL, -- this and the other times: microseconds since the Unix epoch
    tokens         INTEGER NOT NULL,
    confidence     REAL    NOT NULL,
    horizon        TEXT    NOT NULL,
    private        INTEGER NOT NULL,
    deleted        INTEGER NOT NULL,
    supersedes     TEXT,
    superseded_by  TEXT,
    actor          TEXT,
    source_receipt TEXT,
    reverified_at  INTEGER,
    valid_from     INTEGER,
    valid_to       INTEGER,
    value          TEXT    NOT NULL
) STRICT;

CREATE UNIQUE INDEX facts_by_id ON facts (fact_id);
CREATE INDEX facts_by_chain ON facts (shown, key, seq);

-- Words of live facts (neither deleted nor superseded, and not the daemon's own), folded, findable by any part of three
-- characters or more.
CREATE VIRTUAL TABLE facts_text USING fts5 (text, tokenize = 'trigram');
INSERT INTO facts_text (facts_text, rank) VALUES ('usermerge', 2);

-- One row, rewritten to learn whether writing works.
CREATE TABLE probe (id INTEGER PRIMARY KEY CHECK (id = 1), written_at INTEGER NOT NULL) STRICT;
