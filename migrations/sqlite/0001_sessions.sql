-- Sessions, the runners that hold their engines, and what happened to them.
--
-- Portable on purpose: times are whole milliseconds UTC, ids and words are TEXT, JSON is TEXT.
-- Columns that are GENERATED are the store's own: they give an index a name that every dialect can look up.

CREATE TABLE sessions (
    id                 TEXT    NOT NULL PRIMARY KEY
                       CHECK (length(id) BETWEEN 1 AND 64 AND id NOT GLOB '*[^A-Za-z0-9_-]*'),
    runner_id          TEXT    NOT NULL
                       CHECK (length(runner_id) BETWEEN 1 AND 64 AND runner_id NOT GLOB '*[^A-Za-z0-9_-]*'),
    owner_id           TEXT,
    repo               TEXT    NOT NULL,
    engine             TEXT    NOT NULL,
    engine_session_id  TEXT,
    status             TEXT    NOT NULL CHECK (status IN ('starting', 'active', 'ended')),
    generation         INTEGER NOT NULL DEFAULT 1 CHECK (generation >= 1),
    reopened           INTEGER NOT NULL DEFAULT 0 CHECK (reopened >= 0),
    started_at         INTEGER,
    attached_at        INTEGER,
    updated_at         INTEGER,
    last_activity_at   INTEGER,
    last_activity_kind TEXT    CHECK (last_activity_kind IN
                       ('capture', 'message', 'run', 'copilot', 'timeline', 'engine', 'start', 'keep')),
    driver             TEXT,
    driver_at          INTEGER,
    keep_until         INTEGER,
    keep_reason        TEXT,
    idle_after_ms      INTEGER,
    next_check_at      INTEGER,
    -- The wait that led to next_check_at, doubled by the next failure.
    check_delay_ms     INTEGER,
    ended_at           INTEGER,
    end_reason         TEXT,
    -- When it was last used, as far as the row tells.
    last_used_at       INTEGER GENERATED ALWAYS AS (COALESCE(last_activity_at, updated_at, started_at)) VIRTUAL,
    -- When its own window is over; null where the rule's window counts.
    own_due_at         INTEGER GENERATED ALWAYS AS
                       (COALESCE(last_activity_at, updated_at, started_at) + idle_after_ms) VIRTUAL,
    -- The latest of the times that touches do not write, so that touches do not move its index.
    latest_stamp_at    INTEGER GENERATED ALWAYS AS (MAX(COALESCE(started_at, 0), COALESCE(attached_at, 0),
                       COALESCE(updated_at, 0), COALESCE(driver_at, 0))) VIRTUAL
) STRICT;

-- One open session per owner and repo; rows without an owner count as one owner.
CREATE UNIQUE INDEX sessions_one_open ON sessions (COALESCE(owner_id, ''), repo) WHERE status <> 'ended';
-- The idle part's candidates: an index lookup, oldest first.
CREATE INDEX sessions_last_used ON sessions (last_used_at, id) WHERE status <> 'ended';
-- Rows with a window of their own, which the lookup above cannot narrow.
CREATE INDEX sessions_own_due ON sessions (own_due_at, id) WHERE status <> 'ended' AND idle_after_ms IS NOT NULL;
-- Rows with a time in the future.
CREATE INDEX sessions_latest_stamp ON sessions (latest_stamp_at) WHERE status <> 'ended';
CREATE INDEX sessions_starting ON sessions (COALESCE(attached_at, started_at), id) WHERE status = 'starting';
CREATE INDEX sessions_postponed ON sessions (next_check_at) WHERE status <> 'ended' AND next_check_at IS NOT NULL;
CREATE INDEX sessions_open_by_runner ON sessions (runner_id, id) WHERE status <> 'ended';
CREATE INDEX sessions_by_owner ON sessions (owner_id, id);
CREATE INDEX sessions_ended_at ON sessions (ended_at) WHERE status = 'ended';
-- The row that a new start in the same place may take up again, if its machine is back.
CREATE INDEX sessions_machine_gone ON sessions (COALESCE(owner_id, ''), repo, ended_at)
    WHERE status = 'ended' AND end_reason = 'machine_gone';

CREATE TABLE runners (
    id                       TEXT    NOT NULL PRIMARY KEY
                             CHECK (length(id) BETWEEN 1 AND 64 AND id NOT GLOB '*[^A-Za-z0-9_-]*'),
    url                      TEXT    NOT NULL,
    token_file               TEXT,
    created_at               INTEGER NOT NULL,
    last_seen_at             INTEGER,
    epoch                    INTEGER,
    protocol                 INTEGER,
    identity                 TEXT,
    state_id                 TEXT,
    require_conditional_stop INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE runs (
    id             TEXT    NOT NULL PRIMARY KEY,
    session_id     TEXT    NOT NULL,
    status         TEXT    NOT NULL CHECK (status IN ('running', 'succeeded', 'failed', 'cancelled', 'stale')),
    opened_session INTEGER NOT NULL DEFAULT 0,
    started_at     INTEGER NOT NULL,
    heartbeat_at   INTEGER,
    finished_at    INTEGER
) STRICT;

CREATE INDEX runs_running ON runs (COALESCE(heartbeat_at, started_at), id) WHERE status = 'running';
CREATE INDEX runs_by_session ON runs (session_id, started_at);

CREATE TABLE timeline (
    id         TEXT    NOT NULL PRIMARY KEY,
    session_id TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    at         INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    actor      TEXT    NOT NULL,
    reason     TEXT,
    message    TEXT    NOT NULL,
    evidence   TEXT    NOT NULL DEFAULT '{}',
    -- What may be written only once per session: 'ended:GENERATION:REOPENED', 'stopped:GENERATION', 'refused:…'.
    once       TEXT,
    -- 1 on an entry that rests on a runner's word that the engine is gone.
    engine_gone INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE UNIQUE INDEX timeline_once ON timeline (session_id, once) WHERE once IS NOT NULL;
-- At most one entry says that the engine of one start is gone.
CREATE UNIQUE INDEX timeline_engine_gone ON timeline (session_id, generation) WHERE engine_gone = 1;
CREATE INDEX timeline_by_session ON timeline (session_id, at, id);
CREATE INDEX timeline_by_time ON timeline (at, id);

CREATE TABLE sweeps (
    id          TEXT    NOT NULL PRIMARY KEY,
    "trigger"   TEXT    NOT NULL CHECK ("trigger" IN ('schedule', 'manual', 'api')),
    started_at  INTEGER NOT NULL,
    finished_at INTEGER,
    eventful    INTEGER NOT NULL DEFAULT 0,
    report      TEXT
) STRICT;

CREATE INDEX sweeps_by_time ON sweeps (started_at, id);
CREATE INDEX sweeps_by_event ON sweeps (eventful, started_at, id);

-- What a pass did to a session, committed together with the row and its entry.
CREATE TABLE sweep_items (
    sweep_id   TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    part       TEXT    NOT NULL,
    verdict    TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    message    TEXT    NOT NULL,
    at         INTEGER NOT NULL
) STRICT;

CREATE INDEX sweep_items_by_sweep ON sweep_items (sweep_id, at);

CREATE TABLE tokens (
    id         TEXT    NOT NULL PRIMARY KEY,
    hash       TEXT    NOT NULL UNIQUE,
    owner_id   TEXT    NOT NULL,
    scope      TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT;

CREATE TABLE settings (
    name  TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

-- Signs of life of the processes that record activity, to notice a crash.
CREATE TABLE workers (
    id       TEXT    NOT NULL PRIMARY KEY,
    alive_at INTEGER NOT NULL
) STRICT;
