-- One row: how often values were erased since the indices were last cleaned of their words.
CREATE TABLE upkeep (id INTEGER PRIMARY KEY CHECK (id = 1), erased INTEGER NOT NULL) STRICT;
INSERT INTO upkeep VALUES (1, 0);

-- Pins and other records are looked up by their whole name; facts of one author by it.
CREATE INDEX facts_by_actor ON facts (actor) WHERE actor IS NOT NULL;
