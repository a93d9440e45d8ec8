"""Pieces of SQL that several transitions share: whole CTEs, joined by `+`."""

from typing import Final, LiteralString

from queue_core.waking import TOLD

WANTED: Final[LiteralString] = """
WITH wanted AS (
    SELECT wanted.id, wanted.seen_state, wanted.seen_attempt
    FROM unnest(%(ids)s::uuid[], %(seen_states)s::text[], %(seen_attempts)s::integer[])
        AS wanted (id, seen_state, seen_attempt)
),
"""
"""The jobs an act is for, with what the person saw of each (NULL: nothing said)."""

ACTS: Final[LiteralString] = """
signed AS (
    INSERT INTO countersign.acts (by, act, subject_kind, subject_id, subject_name, attempt,
        reason, note, kill_after, bulk_id, via)
    SELECT %(by)s, changed.act, 'job', changed.id, changed.name, changed.attempt,
        %(reason)s, %(note)s::text,
        CASE WHEN changed.act = 'cancel_requested' THEN %(kill_after)s::integer END,
        %(bulk_id)s::uuid, %(via)s
    FROM changed
    ORDER BY changed.id
    RETURNING acts.id, acts.subject_id
)
"""
"""One act for each row of `changed` (id, name, attempt, act): `signed`."""

SIGNED: Final[LiteralString] = (
    ACTS
    + """
SELECT changed.id AS job_id, changed.act, signed.id AS act_id, changed.state, changed.attempt
FROM changed
-- Never a nested loop, as a FULL one cannot be: few rows are expected, and a thousand may come.
FULL JOIN signed ON signed.subject_id = changed.id
"""
)
"""Ends a statement: one act for each row of `changed` (id, name, attempt, act, state)."""

SIGNED_BY_NAME: Final[LiteralString] = """
INSERT INTO countersign.acts (by, act, subject_kind, subject_name, reason, note, bulk_id, via)
SELECT %(by)s, %(act)s, %(subject_kind)s, changed.name, %(reason)s, %(note)s::text,
    %(bulk_id)s::uuid, %(via)s
FROM changed
ORDER BY changed.name
RETURNING acts.id
"""
"""Ends a statement: one act for each row of `changed` (name): a queue, schedule or operator."""

PLACED_NOW: Final[LiteralString] = """
bodies AS (
    INSERT INTO countersign.jobs (id, name, queue, args, priority, attempts, time_limit, schedule)
    SELECT asked.id, asked.name, asked.queue, asked.args::jsonb, asked.priority, asked.attempts,
        asked.time_limit, asked.schedule
    FROM asked
),
due AS (
    INSERT INTO countersign.ready (id, queue, name, rank, run_at, attempts_allowed)
    SELECT asked.id, asked.queue, asked.name, -asked.priority::integer, asked.run_at, asked.attempts
    FROM asked
    WHERE asked.run_at <= now()
)
"""
"""A job for each row of `asked`, of which none is for later."""

PLACED: Final[LiteralString] = (
    PLACED_NOW
    + """,
later AS (
    INSERT INTO countersign.waiting (id, queue, name, rank, run_at, attempts_allowed)
    SELECT asked.id, asked.queue, asked.name, -asked.priority::integer, asked.run_at, asked.attempts
    FROM asked
    WHERE asked.run_at > now()
)
"""
)
"""A job for each row of `asked` (id, name, queue, args, priority, attempts, time_limit, schedule,
run_at), due or not."""

WOKEN: Final[LiteralString] = (
    """,
woken AS MATERIALIZED ("""
    + TOLD
    + """    WHERE EXISTS (SELECT FROM asked WHERE asked.run_at <= now())
)
"""
)
"""Wakes them if a row of `asked` is due: one row or none, to be joined by the last statement, since
what nobody reads is not done."""

REQUEUED: Final[LiteralString] = """
requeued AS (
    INSERT INTO countersign.ready (id, queue, name, rank, run_at, attempt, attempts_allowed)
    SELECT again.id, again.queue, again.name, -again.priority::integer, now(), again.attempt,
        again.attempt + 1
    FROM again
),
"""
"""One more attempt, due now, for each row of `again` (id, queue, name, priority, attempt)."""

TALLIED: Final[LiteralString] = """
tallied AS (
    INSERT INTO countersign.tallies (minute, name, state, entered, removed, timed, seconds)
    SELECT date_trunc('minute', now()), tally.name, tally.state, sum(tally.entered),
        sum(tally.removed), count(tally.started_at),
        COALESCE(sum(GREATEST(date_part('epoch', now() - tally.started_at), 0)), 0)
    FROM tally
    GROUP BY tally.name, tally.state
),
"""
"""Counts each row of `tally` (name, state, entered, removed, started_at) that enters or leaves
`ended`: `entered` and `removed` are 1 or 0, `started_at` is NULL where no run led there."""

REVIEW_HELD: Final[LiteralString] = """
held AS (
    SELECT review.id
    FROM countersign.review
    JOIN wanted ON wanted.id = review.id
    WHERE wanted.seen_state IS NULL
        OR (wanted.seen_state = 'needs_review' AND wanted.seen_attempt = review.attempt)
    ORDER BY review.id
    FOR UPDATE OF review
),
"""
"""The jobs in review that are as they were seen, held in the order of their ids: a delete alone
goes through them as its join likes."""

DECIDED: Final[LiteralString] = (
    REVIEW_HELD
    + """
decided AS (
    DELETE FROM countersign.review
    USING held
    WHERE review.id = held.id
    RETURNING review.id, review.attempt, review.why, review.error
),
named AS (
    SELECT decided.id, body.name, decided.attempt
    FROM decided
    LEFT JOIN LATERAL (
        SELECT jobs.name FROM countersign.jobs WHERE jobs.id = decided.id LIMIT 1
    ) AS body ON true
),
"""
)
"""Jobs leave review for good: `decided`, and `named` (its name is NULL where the body is gone)."""

REPORT: Final[LiteralString] = """
WITH report AS (
    SELECT report.*, now() - make_interval(secs => report.seconds) AS began_at
    FROM unnest(%(ids)s::uuid[], %(attempts)s::integer[], %(seconds)s::double precision[],
        %(child_pids)s::integer[])
        AS report (id, attempt, seconds, child_pid)
),
"""
"""What a worker says of its runs: which, since when (children count monotonic seconds)."""

TAKEN: Final[LiteralString] = """
taken AS (
    DELETE FROM countersign.running
    USING report
    WHERE running.id = report.id
        AND running.attempt = report.attempt
        AND running.worker = %(worker)s
    RETURNING running.id, running.attempt, running.worker, running.claimed_at, running.queue,
        running.name, running.rank, running.run_at, running.attempts_allowed, running.on_lost,
        running.stop_requested_at,
        COALESCE(running.started_at, report.began_at) AS started_at,
        COALESCE(report.child_pid, running.child_pid) AS child_pid
),
"""
"""The fence: only a run that still holds its claim is taken out of `running`."""

FAILURE: Final[LiteralString] = """
failure AS (
    SELECT failure.*
    FROM unnest(%(ids)s::uuid[], %(attempts)s::integer[], %(outcomes)s::text[],
        %(retryables)s::boolean[], %(waits)s::double precision[], %(signals)s::integer[],
        %(errors)s::text[], %(error_types)s::text[], %(error_places)s::text[],
        %(tracebacks)s::text[])
        AS failure (id, attempt, outcome, retryable, wait, signal, error, error_type, error_place,
            traceback)
),
"""
"""Why each reported run did not complete its job."""
