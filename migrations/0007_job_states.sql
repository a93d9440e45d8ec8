-- For people in psql: every job with the state it is in, as the console shows it.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

CREATE VIEW countersign.job_states AS
WITH place AS (
    SELECT ready.id, 'ready' AS state, ready.attempt, ready.attempts_allowed, ready.run_at AS since,
        NULL::uuid AS worker
    FROM countersign.ready
    UNION ALL
    -- A waiting row whose time has come counts as ready everywhere.
    SELECT waiting.id, CASE WHEN waiting.run_at <= now() THEN 'ready' ELSE 'waiting' END,
        waiting.attempt, waiting.attempts_allowed, waiting.run_at, NULL
    FROM countersign.waiting
    UNION ALL
    SELECT blocked.id, 'blocked', blocked.attempt, blocked.attempts_allowed, blocked.run_at, NULL
    FROM countersign.blocked
    UNION ALL
    SELECT running.id, 'running', running.attempt, running.attempts_allowed, running.claimed_at,
        running.worker
    FROM countersign.running
    UNION ALL
    SELECT review.id, 'needs_review', review.attempt, NULL, review.entered_at, review.worker
    FROM countersign.review
    UNION ALL
    SELECT ended.id, ended.state, ended.attempt, NULL, ended.ended_at, ended.worker
    FROM countersign.ended
)
SELECT place.id, jobs.name, jobs.queue, place.state, place.attempt, place.attempts_allowed,
    place.since, place.worker, jobs.priority, jobs.created_at
FROM place
LEFT JOIN countersign.jobs ON jobs.id = place.id;

GRANT SELECT ON countersign.job_states TO countersign_runtime;
