-- When somebody certainly used the session who is not a run in it: it only moves forward.
ALTER TABLE sessions ADD COLUMN shared_at INTEGER;
