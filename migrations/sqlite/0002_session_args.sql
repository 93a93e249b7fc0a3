-- The arguments that a session's engine was started with, for its next start: a JSON array of texts, null for none.
ALTER TABLE sessions ADD COLUMN args TEXT;
