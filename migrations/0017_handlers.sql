-- Handlers: what each name is, as workers' code declares it, and which worker handles which names.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

-- Written by each worker when it begins; kept when no code has the name any more.
CREATE TABLE countersign.handlers (
    name text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 200),
    queue text NOT NULL CHECK (length(queue) BETWEEN 1 AND 200),
    attempts integer NOT NULL CHECK (attempts >= 1),
    time_limit double precision CHECK (time_limit > 0),
    on_lost text NOT NULL CHECK (on_lost IN ('attempts', 'review')),
    safe_to_repeat boolean NOT NULL,
    most_at_once integer CHECK (most_at_once >= 1),
    effects text CHECK (length(effects) BETWEEN 1 AND 500),
    how_to_check text CHECK (length(how_to_check) BETWEEN 1 AND 500),
    owner text CHECK (length(owner) BETWEEN 1 AND 500),
    runbook text CHECK (length(runbook) BETWEEN 1 AND 500),
    first_declared_at timestamptz NOT NULL DEFAULT now(),
    declared_at timestamptz NOT NULL DEFAULT now(),
    declared_by uuid NOT NULL
);
GRANT SELECT, INSERT, UPDATE ON countersign.handlers TO countersign_runtime;

-- The names that a worker handles, and since when it takes no more jobs before it stops.
ALTER TABLE countersign.workers
    ADD COLUMN handles text[] NOT NULL DEFAULT '{}',
    ADD COLUMN draining_at timestamptz;
-- Tombstones by the page. A beat changes none of these columns, so it stays a heap-only update.
CREATE INDEX workers_lost ON countersign.workers (lost_at, id) WHERE lost_at IS NOT NULL;
CREATE INDEX workers_stopped ON countersign.workers (stopped_at, id) WHERE stopped_at IS NOT NULL;
