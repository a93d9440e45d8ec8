-- What the audit says of each file. The example's own: nothing of Countersign reads it.
CREATE SCHEMA IF NOT EXISTS stdlib_audit;
CREATE TABLE IF NOT EXISTS stdlib_audit.files (
    path text PRIMARY KEY,
    job_id uuid NOT NULL,
    lines bigint NOT NULL,
    bytes bigint NOT NULL,
    functions integer NOT NULL,
    classes integer NOT NULL,
    imports integer NOT NULL,
    longest_function text,
    longest_lines integer NOT NULL,
    audited_at timestamptz NOT NULL DEFAULT now()
);
GRANT USAGE ON SCHEMA stdlib_audit TO countersign_runtime;
GRANT SELECT, INSERT, UPDATE ON stdlib_audit.files TO countersign_runtime;
