-- Memory is looked at by time, the latest or the oldest first, whatever the clock did meanwhile.
CREATE INDEX facts_by_time ON facts (stored_at);
