-- The ground everything stands on: the two roles, the schema, the list of migrations, and ids.
SET LOCAL lock_timeout = '5s';

-- Roles belong to the whole server, so another database may have made them already, or be making them now.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE pg_roles.rolname = 'countersign_owner') THEN
        CREATE ROLE countersign_owner NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END
$$;
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE pg_roles.rolname = 'countersign_runtime') THEN
        CREATE ROLE countersign_runtime NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END
$$;

-- Whoever migrates must be able to act as the owner; a superuser already can. From Postgres 16 on
-- the maker of a role administers it and may no more than grant it, so they grant it to themselves;
-- to whom it was granted beforehand may not grant it, and need not.
DO $$
BEGIN
    IF NOT (SELECT pg_roles.rolsuper FROM pg_roles WHERE pg_roles.rolname = CURRENT_USER) THEN
        EXECUTE format('GRANT countersign_owner TO %I', CURRENT_USER);
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    NULL;
END
$$;

CREATE SCHEMA countersign AUTHORIZATION countersign_owner;
SET LOCAL ROLE countersign_owner;
GRANT USAGE ON SCHEMA countersign TO countersign_runtime;

CREATE TABLE countersign.migrations (
    number integer PRIMARY KEY,
    name text NOT NULL,
    sha256 text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
GRANT SELECT ON countersign.migrations TO countersign_runtime;

-- A UUIDv7 on the database's clock: 48 bits of milliseconds, then 12 bits of the fraction of that
-- millisecond, so that ids of one session rise; the rest is the random half of a UUIDv4, its variant included.
CREATE FUNCTION countersign.new_id() RETURNS uuid
LANGUAGE sql VOLATILE PARALLEL SAFE
AS $$
    SELECT encode(
        int8send(
            ((clock.micros / 1000) << 16) | 28672 | ((clock.micros % 1000) * 4096 / 1000)
        ) || noise.bytes,
        'hex'
    )::uuid
    FROM (SELECT (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint AS micros) AS clock,
         (SELECT substring(uuid_send(gen_random_uuid()) FROM 9) AS bytes) AS noise
$$;

-- The smallest id that new_id() can make at `instant`: the bound of a partition.
CREATE FUNCTION countersign.lowest_id(instant timestamptz) RETURNS uuid
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT (encode(int8send((EXTRACT(EPOCH FROM instant) * 1000)::bigint << 16), 'hex')
        || '0000000000000000')::uuid
$$;

-- When new_id() made `id`, to the millisecond.
CREATE FUNCTION countersign.made_at(id uuid) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT to_timestamp(('x' || encode(substring(uuid_send(id) FROM 1 FOR 6), 'hex'))::bit(48)::bigint / 1000.0)
$$;
