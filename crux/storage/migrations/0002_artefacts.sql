-- Blobs that agents park, each owner's under its hash.
CREATE TABLE artefacts (
    id          INTEGER PRIMARY KEY,
    owner       TEXT    NOT NULL,
    artefact_id TEXT    NOT NULL,
    mime_type   TEXT    NOT NULL,
    tool_origin TEXT,
    size_bytes  INTEGER NOT NULL,
    created_at  INTEGER NOT NULL, -- this and the next: microseconds since the Unix epoch
    expires_at  INTEGER,          -- NULL: never
    content     BLOB    NOT NULL,
    UNIQUE (owner, artefact_id)
) STRICT;

CREATE INDEX artefacts_by_expiry ON artefacts (expires_at) WHERE expires_at IS NOT NULL;
