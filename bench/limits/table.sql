-- The least that a queue with priorities and a history can be, for pgbench: one table, one partial index.
DROP TABLE IF EXISTS bare;
CREATE TABLE bare (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue text NOT NULL DEFAULT 'default',
    priority smallint NOT NULL DEFAULT 0,
    state smallint NOT NULL DEFAULT 0,  -- 0 ready, 1 running, 2 done
    attempt smallint NOT NULL DEFAULT 0,
    args jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    started_at timestamptz,
    ended_at timestamptz
);
CREATE INDEX bare_ready ON bare (queue, priority, id) WHERE state = 0;
INSERT INTO bare (args) SELECT jsonb_build_object('n', n) FROM generate_series(1, 1000000) AS n;
