-- Where the id of a job that has not ended stands: ready, waiting, blocked, running or review.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

-- Rows of ready, waiting and blocked are inserted and deleted, never updated: a claim relies on it.
CREATE TABLE countersign.ready (
    id uuid PRIMARY KEY,
    queue text NOT NULL,
    name text NOT NULL,
    rank integer NOT NULL,
    run_at timestamptz NOT NULL,
    attempt integer NOT NULL DEFAULT 0,
    attempts_allowed integer
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX ready_claim ON countersign.ready (queue, name, rank, run_at, id);

CREATE TABLE countersign.waiting (LIKE countersign.ready INCLUDING DEFAULTS INCLUDING STORAGE)
    WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
ALTER TABLE countersign.waiting ADD PRIMARY KEY (id);
CREATE INDEX waiting_due ON countersign.waiting (run_at, id);

CREATE TABLE countersign.blocked (
    LIKE countersign.ready INCLUDING DEFAULTS INCLUDING STORAGE,
    serial_key text NOT NULL
);
ALTER TABLE countersign.blocked ADD PRIMARY KEY (id);
CREATE INDEX blocked_heads ON countersign.blocked (serial_key, rank, run_at, id);

-- attempts_allowed and on_lost stand here as the claim resolved them, so that any worker can
-- recover the job, in its old place, without knowing its handler.
CREATE TABLE countersign.running (
    id uuid PRIMARY KEY,
    attempt integer NOT NULL CHECK (attempt >= 1),
    worker uuid NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now(),
    queue text NOT NULL,
    name text NOT NULL,
    rank integer NOT NULL,
    run_at timestamptz NOT NULL,
    attempts_allowed integer NOT NULL CHECK (attempts_allowed >= 1),
    on_lost text NOT NULL CHECK (on_lost IN ('attempts', 'review')),
    child_pid integer,
    started_at timestamptz,
    stop_requested_at timestamptz
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
CREATE INDEX running_stops ON countersign.running (worker) WHERE stop_requested_at IS NOT NULL;

CREATE TABLE countersign.review (
    id uuid PRIMARY KEY,
    entered_at timestamptz NOT NULL DEFAULT now(),
    why text NOT NULL CHECK (why IN ('lost', 'crashed', 'crashed_again', 'disputed', 'unreadable')),
    attempt integer NOT NULL,
    worker uuid,
    claimed_at timestamptz,
    started_at timestamptz,
    child_pid integer,
    signal integer,
    error text CHECK (octet_length(error) <= 1024)
);
CREATE INDEX review_listed ON countersign.review (entered_at, id);

-- One row for each run that ended without completing its job.
CREATE TABLE countersign.runs (
    job_id uuid NOT NULL,
    attempt integer NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('failed', 'timed_out', 'crashed', 'lost', 'stopped',
        'returned', 'deferred', 'late_completed', 'late_failed')),
    worker uuid,
    child_pid integer,
    signal integer,
    claimed_at timestamptz,
    started_at timestamptz,
    ended_at timestamptz NOT NULL DEFAULT now(),
    error text CHECK (octet_length(error) <= 1024),
    error_type text,
    error_place text,
    traceback text CHECK (octet_length(traceback) <= 16384),
    PRIMARY KEY (job_id, attempt, outcome)
);

GRANT SELECT, INSERT, DELETE ON countersign.ready, countersign.waiting, countersign.blocked,
    countersign.review TO countersign_runtime;
-- No row of these two is ever updated; FOR UPDATE asks for the right to, on one column at least.
GRANT UPDATE (id) ON countersign.ready, countersign.waiting TO countersign_runtime;
GRANT SELECT, INSERT, UPDATE, DELETE ON countersign.running TO countersign_runtime;
GRANT SELECT, INSERT ON countersign.runs TO countersign_runtime;
