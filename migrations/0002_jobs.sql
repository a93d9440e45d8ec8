-- What was asked for (jobs) and how it ended (ended), both partitioned by the week of the job's id.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

CREATE TABLE countersign.jobs (
    id uuid PRIMARY KEY,
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    queue text NOT NULL CHECK (length(queue) BETWEEN 1 AND 200),
    args jsonb NOT NULL,
    priority smallint NOT NULL,
    attempts integer CHECK (attempts >= 1),
    time_limit double precision CHECK (time_limit > 0 AND time_limit < 'Infinity'),
    created_at timestamptz NOT NULL DEFAULT now()
) PARTITION BY RANGE (id);

CREATE TABLE countersign.ended (
    id uuid PRIMARY KEY,
    state text NOT NULL CHECK (state IN ('completed', 'failed', 'cancelled')),
    uncertain boolean NOT NULL DEFAULT false,
    attempt integer NOT NULL,
    worker uuid,
    started_at timestamptz,
    ended_at timestamptz NOT NULL DEFAULT now(),
    error text CHECK (octet_length(error) <= 1024),
    error_type text,
    error_place text,
    result jsonb
) PARTITION BY RANGE (id);
CREATE INDEX ended_listed ON countersign.ended (state, ended_at, id);

-- Bodies are never changed, and rows of history leave only with their partition or by retention.
GRANT SELECT, INSERT ON countersign.jobs TO countersign_runtime;
GRANT SELECT, INSERT, DELETE ON countersign.ended TO countersign_runtime;

-- Makes the weekly partitions of jobs and ended from last week to `ahead` weeks from now, and
-- answers how many it made. CREATE LIKE + CHECK + ATTACH, since PARTITION OF would wait for
-- every open enqueue; the CHECK spares the ATTACH its scan and is then dropped. In UTC, since a
-- week of another time zone can be an hour shorter or longer.
CREATE FUNCTION countersign.make_partitions(ahead integer DEFAULT 16) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET TimeZone = 'UTC'
AS $$
DECLARE
    parent text;
    part text;
    week timestamptz;
    low uuid;
    high uuid;
    made integer := 0;
BEGIN
    IF ahead NOT BETWEEN 0 AND 520 THEN
        RAISE EXCEPTION 'make_partitions takes 0 to 520 weeks';
    END IF;
    PERFORM pg_advisory_xact_lock(hashtext('countersign.make_partitions'));
    FOR offset_weeks IN -1..ahead LOOP
        week := date_trunc('week', now(), 'UTC') + make_interval(days => 7 * offset_weeks);
        low := countersign.lowest_id(week);
        high := countersign.lowest_id(week + interval '7 days');
        FOREACH parent IN ARRAY ARRAY['jobs', 'ended'] LOOP
            part := parent || to_char(week AT TIME ZONE 'UTC', '_IYYY"w"IW');
            CONTINUE WHEN to_regclass(format('countersign.%I', part)) IS NOT NULL;
            EXECUTE format('CREATE TABLE countersign.%I (LIKE countersign.%I INCLUDING ALL)', part, parent);
            EXECUTE format('ALTER TABLE countersign.%I ADD CONSTRAINT bounds CHECK (id >= %L AND id < %L)',
                part, low, high);
            EXECUTE format('ALTER TABLE countersign.%I ATTACH PARTITION countersign.%I FOR VALUES FROM (%L) TO (%L)',
                parent, part, low, high);
            EXECUTE format('ALTER TABLE countersign.%I DROP CONSTRAINT bounds', part);
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;
REVOKE EXECUTE ON FUNCTION countersign.make_partitions(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION countersign.make_partitions(integer) TO countersign_runtime;

SELECT countersign.make_partitions();
