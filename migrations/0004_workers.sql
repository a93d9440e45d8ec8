-- One row for each worker session, kept as a tombstone after its death.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

CREATE TABLE countersign.workers (
    id uuid PRIMARY KEY,
    name text CHECK (length(name) BETWEEN 1 AND 200),
    host text NOT NULL,
    pid integer NOT NULL,
    boot_id text NOT NULL,
    pid_namespace text NOT NULL,
    version text NOT NULL,
    queues text[] NOT NULL,
    slots integer NOT NULL CHECK (slots >= 1),
    started_at timestamptz NOT NULL DEFAULT now(),
    beat_at timestamptz NOT NULL DEFAULT now(),
    stopped_at timestamptz,
    lost_at timestamptz,
    lost_by uuid,
    lost_rule text CHECK (lost_rule IN ('stale', 'same_host', 'gave_up')),
    CHECK ((lost_at IS NULL) = (lost_rule IS NULL))
) WITH (fillfactor = 50);
-- Never on beat_at: a beat must stay a heap-only update.
CREATE INDEX workers_live ON countersign.workers (host) WHERE stopped_at IS NULL AND lost_at IS NULL;

GRANT SELECT, INSERT, UPDATE ON countersign.workers TO countersign_runtime;
