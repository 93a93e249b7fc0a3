-- What a run reported when it finished, and since when it has been called stale.

ALTER TABLE runs ADD COLUMN result TEXT;
ALTER TABLE runs ADD COLUMN stale_at INTEGER;
