-- Schedules: rules that enqueue a job every interval, in the versions that live code declares of each.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

-- What code says of a schedule. Numbered as first declared: while it is seen, the newest is in force.
CREATE TABLE countersign.schedule_versions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule text NOT NULL CHECK (length(schedule) BETWEEN 1 AND 200),
    fingerprint text NOT NULL,
    every interval NOT NULL CHECK (every >= interval '1 second'),
    job text NOT NULL CHECK (length(job) BETWEEN 1 AND 200),
    queue text NOT NULL CHECK (length(queue) BETWEEN 1 AND 200),
    args jsonb NOT NULL,
    priority smallint NOT NULL,
    attempts integer CHECK (attempts >= 1),
    time_limit double precision CHECK (time_limit > 0 AND time_limit < 'Infinity'),
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (schedule, fingerprint)
);

-- One row for each name, kept when no code has it any more. last_skip: why the schedule's last due
-- time without a job of its own had none, and last_skip_at when that was noticed.
CREATE TABLE countersign.schedules (
    name text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 200),
    version bigint NOT NULL REFERENCES countersign.schedule_versions (id),
    due_at timestamptz NOT NULL,
    last_job uuid,
    seen_at timestamptz NOT NULL DEFAULT now(),
    paused_at timestamptz,
    archived_at timestamptz,
    last_skip text,
    last_skip_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CHECK ((last_skip IS NULL) = (last_skip_at IS NULL))
);

GRANT SELECT, INSERT, UPDATE ON countersign.schedules TO countersign_runtime;
GRANT SELECT, INSERT, UPDATE, DELETE ON countersign.schedule_versions TO countersign_runtime;

-- The schedule that asked for the job; NULL where somebody enqueued it.
ALTER TABLE countersign.jobs ADD COLUMN schedule text;
