-- Which queues are paused: the claim takes nothing from them. And indexes to look at one queue alone.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

-- A queue is there as soon as a job names it; only a paused one needs a row.
CREATE TABLE countersign.queues (
    name text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 200),
    paused_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX waiting_of_queue ON countersign.waiting (queue, run_at, id);
CREATE INDEX blocked_of_queue ON countersign.blocked (queue, id);

GRANT SELECT, INSERT, DELETE ON countersign.queues TO countersign_runtime;
