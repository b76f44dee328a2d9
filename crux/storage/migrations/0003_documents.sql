-- Whose texts are searched together; `passages` and `terms` are what the tenant's index holds of them.
CREATE TABLE tenants (
    id       INTEGER PRIMARY KEY,
    name     TEXT    NOT NULL UNIQUE,
    passages INTEGER NOT NULL DEFAULT 0,
    terms    INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Texts that are kept to be searched. A document's passages are those from `first` up to, not including, `behind`.
CREATE TABLE documents (
    id           INTEGER PRIMARY KEY,
    tenant       INTEGER NOT NULL REFERENCES tenants (id),
    name         TEXT    NOT NULL,
    content_hash TEXT    NOT NULL, -- BLAKE3 in hex
    stored_at    INTEGER NOT NULL, -- microseconds since the Unix epoch
    first        INTEGER NOT NULL,
    behind       INTEGER NOT NULL,
    title        TEXT,
    uri          TEXT,
    metadata     TEXT,             -- JSON, as it was given
    entities     TEXT,             -- JSON array of names in the graph
    UNIQUE (tenant, name)
) STRICT;

CREATE TABLE passages (
    id       INTEGER PRIMARY KEY,
    document INTEGER NOT NULL REFERENCES documents (id),
    name     TEXT,
    tokens   INTEGER NOT NULL,
    text     TEXT    NOT NULL
) STRICT;

-- Each tenant has an index of its own, so that its statistics say nothing of another: a table `index_<id>`, made with the
-- tenant. `analysis` is how the terms in the indices were made, NULL while they are being made. The number of a passage is
-- never used again, since agents keep handles of what they found; `seal_key` is what these are made with.
CREATE TABLE retrieval (
    id           INTEGER PRIMARY KEY CHECK (id = 1),
    analysis     TEXT,
    next_passage INTEGER NOT NULL,
    seal_key     BLOB    NOT NULL
) STRICT;
INSERT INTO retrieval VALUES (1, NULL, 1, randomblob(32));
