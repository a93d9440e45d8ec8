-- Where a session was begun, failed sign-ins by their time, and the acts of one errand by its id.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

-- As the client said; shown to its operator alone.
ALTER TABLE countersign.sessions
    ADD COLUMN address text CHECK (length(address) BETWEEN 1 AND 200),
    ADD COLUMN agent text CHECK (length(agent) BETWEEN 1 AND 200);
CREATE INDEX sign_in_failures_lately ON countersign.sign_in_failures (last_at);
CREATE INDEX acts_of_errand ON countersign.acts (bulk_id, id) WHERE bulk_id IS NOT NULL;
