-- A run's id is its owner's own: another owner may have a run of the same id, in a session of theirs.

CREATE TABLE runs_by_owner (
    id             TEXT    NOT NULL,
    session_id     TEXT    NOT NULL,
    status         TEXT    NOT NULL CHECK (status IN ('running', 'succeeded', 'failed', 'cancelled', 'stale')),
    opened_session INTEGER NOT NULL DEFAULT 0,
    started_at     INTEGER NOT NULL,
    heartbeat_at   INTEGER,
    finished_at    INTEGER,
    result         TEXT,
    stale_at       INTEGER,
    PRIMARY KEY (id, session_id)
) STRICT;

INSERT INTO runs_by_owner
    SELECT id, session_id, status, opened_session, started_at, heartbeat_at, finished_at, result, stale_at FROM runs;
DROP TABLE runs;
ALTER TABLE runs_by_owner RENAME TO runs;

CREATE INDEX runs_running ON runs (COALESCE(heartbeat_at, started_at), id) WHERE status = 'running';
CREATE INDEX runs_by_session ON runs (session_id, started_at);
