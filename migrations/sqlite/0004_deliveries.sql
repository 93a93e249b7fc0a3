-- The timeline as an outbox: what happened, in the order in which it was committed, and what of it goes to whom.

-- One above the highest at each insert; one writer at a time makes that the order of commits.
ALTER TABLE timeline ADD COLUMN seq INTEGER;

UPDATE timeline SET seq = numbered.seq
FROM (SELECT id, row_number() OVER (ORDER BY at, id) AS seq FROM timeline) AS numbered
WHERE numbered.id = timeline.id;

CREATE UNIQUE INDEX timeline_by_seq ON timeline (seq);

-- How far each webhook of the settings has been served with deliveries.
CREATE TABLE webhooks (
    name       TEXT    NOT NULL PRIMARY KEY,
    -- The last entry that was looked at.
    seq        INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE deliveries (
    id              TEXT    NOT NULL PRIMARY KEY,
    webhook         TEXT    NOT NULL,
    seq             INTEGER NOT NULL,
    session_id      TEXT    NOT NULL,
    status          TEXT    NOT NULL CHECK (status IN ('pending', 'delivered', 'given_up')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    -- While an attempt is under way: when it counts as lost with the process that made it.
    next_attempt_at INTEGER NOT NULL,
    -- 1 where the last attempt failed because the receiver could not be reached: it is due again once another one got through.
    unreached       INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL,
    finished_at     INTEGER,
    last_error      TEXT
) STRICT;

CREATE UNIQUE INDEX deliveries_once ON deliveries (webhook, seq);
-- What is due, and what stands before it in the same session.
CREATE INDEX deliveries_due ON deliveries (webhook, next_attempt_at, seq) WHERE status = 'pending';
CREATE INDEX deliveries_by_session ON deliveries (webhook, session_id, seq) WHERE status = 'pending';
CREATE INDEX deliveries_by_status ON deliveries (status, id);
CREATE INDEX deliveries_by_time ON deliveries (created_at);
