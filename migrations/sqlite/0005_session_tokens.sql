-- A token of a session's engine, which can only keep that session; null in everybody else's.
ALTER TABLE tokens ADD COLUMN session_id TEXT;
-- Which start of the session it was made for: the tokens of earlier ones are revoked.
ALTER TABLE tokens ADD COLUMN generation INTEGER;

CREATE INDEX tokens_by_session ON tokens (session_id) WHERE session_id IS NOT NULL;
