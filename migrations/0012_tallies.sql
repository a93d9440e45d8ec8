-- How many jobs entered and left each way of having ended, by minute and name, so that counting reads no history.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

-- Rows are inserted beside what they count and never updated: several of a kind add up. `minute` is
-- where a row's span begins; fold() joins old rows to ones of an hour, a day, a year. `timed` is how
-- many of `entered` have a known duration, `seconds` the sum of those.
CREATE TABLE countersign.tallies (
    minute timestamptz NOT NULL,
    name text NOT NULL,
    state text NOT NULL CHECK (state IN ('completed', 'failed', 'cancelled')),
    entered bigint NOT NULL CHECK (entered >= 0),
    removed bigint NOT NULL CHECK (removed >= 0),
    timed bigint NOT NULL CHECK (timed BETWEEN 0 AND entered),
    seconds double precision NOT NULL CHECK (seconds >= 0)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.05);
GRANT SELECT, INSERT, DELETE ON countersign.tallies TO countersign_runtime;

-- What stands in `ended` by now. Nothing may enter or leave it meanwhile.
LOCK TABLE countersign.ended IN SHARE ROW EXCLUSIVE MODE;
INSERT INTO countersign.tallies (minute, name, state, entered, removed, timed, seconds)
SELECT date_trunc('minute', ended.ended_at), COALESCE(jobs.name, ''), ended.state, count(*), 0,
    count(ended.started_at),
    COALESCE(sum(GREATEST(date_part('epoch', ended.ended_at - ended.started_at), 0)), 0)
FROM countersign.ended
LEFT JOIN countersign.jobs ON jobs.id = ended.id
GROUP BY date_trunc('minute', ended.ended_at), COALESCE(jobs.name, ''), ended.state;

-- Makes tallies agree with `ended` again, name by name, and answers how many jobs they were out by.
-- One statement, so one snapshot: whoever ends jobs meanwhile adds to both. What it adds or takes off
-- stands in 1970, since nobody knows when it happened.
CREATE FUNCTION countersign.recount() RETURNS bigint
LANGUAGE sql VOLATILE
AS $$
    WITH off AS (
        SELECT each.name, each.state, sum(each.jobs)::bigint AS jobs
        FROM (
            SELECT COALESCE(jobs.name, '') AS name, ended.state, count(*) AS jobs
            FROM countersign.ended
            LEFT JOIN countersign.jobs ON jobs.id = ended.id
            GROUP BY COALESCE(jobs.name, ''), ended.state
            UNION ALL
            SELECT tallies.name, tallies.state, sum(tallies.removed - tallies.entered)
            FROM countersign.tallies
            GROUP BY tallies.name, tallies.state
        ) AS each
        GROUP BY each.name, each.state
        HAVING sum(each.jobs) <> 0
    ),
    mended AS (
        INSERT INTO countersign.tallies (minute, name, state, entered, removed, timed, seconds)
        SELECT to_timestamp(0), off.name, off.state, GREATEST(off.jobs, 0), GREATEST(-off.jobs, 0), 0, 0
        FROM off
    )
    SELECT COALESCE(sum(abs(off.jobs)), 0)::bigint FROM off
$$;
REVOKE EXECUTE ON FUNCTION countersign.recount() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION countersign.recount() TO countersign_runtime;
