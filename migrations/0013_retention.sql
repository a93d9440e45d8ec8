-- Retention: what ended long enough ago goes, with all that belongs to it.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

-- Takes away up to `most` jobs that ended as `kind` more than `keep` ago, those that ended at `since`
-- or later, oldest first: row, body and runs, with their number in the tallies. Answers how many, and
-- when the last of them ended. One that may have run in part is never taken, nor is one that somebody
-- else has locked. As the owner, since services may not delete bodies; so what may go is decided here.
CREATE FUNCTION countersign.trim(kind text, keep interval, since timestamptz, most integer,
    OUT removed bigint, OUT reached timestamptz)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET plan_cache_mode = force_custom_plan
AS $$
BEGIN
    IF keep IS NULL OR keep < interval '1 day' THEN
        RAISE EXCEPTION 'trim keeps everything for a day at least';
    END IF;
    WITH gone AS (
        DELETE FROM countersign.ended
        WHERE ended.id = ANY(ARRAY(
            SELECT aged.id
            FROM countersign.ended AS aged
            WHERE aged.state = kind
                AND aged.ended_at >= since
                AND aged.ended_at < now() - keep
                AND NOT aged.uncertain
            ORDER BY aged.ended_at
            LIMIT most
            FOR UPDATE SKIP LOCKED
        ))
        RETURNING ended.id, ended.state, ended.ended_at
    ),
    body AS (
        DELETE FROM countersign.jobs
        WHERE jobs.id = ANY(ARRAY(SELECT gone.id FROM gone))
        RETURNING jobs.id, jobs.name
    ),
    run AS (
        DELETE FROM countersign.runs
        WHERE runs.job_id = ANY(ARRAY(SELECT gone.id FROM gone))
    ),
    tallied AS (
        INSERT INTO countersign.tallies (minute, name, state, entered, removed, timed, seconds)
        SELECT date_trunc('minute', now()), COALESCE(body.name, ''), gone.state, 0, count(*), 0, 0
        FROM gone
        LEFT JOIN body ON body.id = gone.id
        GROUP BY COALESCE(body.name, ''), gone.state
    )
    SELECT count(*), max(gone.ended_at) INTO removed, reached FROM gone;
END
$$;
REVOKE EXECUTE ON FUNCTION countersign.trim(text, interval, timestamptz, integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION countersign.trim(text, interval, timestamptz, integer) TO countersign_runtime;
