-- The session of an engine's own id of its conversation: a page that kept only that id finds it.
CREATE INDEX sessions_by_engine_session ON sessions (engine_session_id) WHERE engine_session_id IS NOT NULL;
