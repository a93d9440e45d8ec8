-- The ledger: what people did, who and why; rows are only ever added.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

CREATE SEQUENCE countersign.acts_id;

-- A code: visible characters only. The classes that POSIX does not name, or that depend on the
-- database's locale, are listed one by one: soft hyphen, Arabic letter mark, zero-width and
-- direction marks, embeddings, isolates, word joiner and its invisible kin, the byte-order mark,
-- line and paragraph separators, blank letters, variation selectors, joiners of hieroglyphs, shorthand and
-- music, tags; then spaces.
CREATE FUNCTION countersign.is_code(text text) RETURNS boolean
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT length(text) BETWEEN 1 AND 200
        AND text !~ '[[:cntrl:]\u0080-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]'
        AND text ~ '[^[:space:]\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]'
$$;

CREATE TABLE countersign.acts (
    id bigint PRIMARY KEY,
    at timestamptz NOT NULL,
    by text NOT NULL CHECK (countersign.is_code(by)),
    act text NOT NULL CHECK (act IN ('enqueued', 'cancelled', 'cancel_requested', 'retried',
        'released', 'added', 'role_changed', 'disabled', 'password_reset')),
    subject_kind text NOT NULL CHECK (subject_kind IN ('job', 'operator')),
    subject_id uuid,
    subject_name text NOT NULL,
    attempt integer,
    reason text NOT NULL CHECK (countersign.is_code(reason)),
    note text CHECK (length(note) BETWEEN 1 AND 2000),
    bulk_id uuid,
    via text NOT NULL CHECK (length(via) BETWEEN 1 AND 400),
    xid xid8 NOT NULL,
    CHECK ((subject_kind = 'job') = (subject_id IS NOT NULL)),
    CHECK ((subject_kind = 'job') = (attempt IS NOT NULL))
);
CREATE INDEX acts_of_job ON countersign.acts (subject_id, id) WHERE subject_id IS NOT NULL;

-- Sets what no caller may choose. Owned and run by the schema's owner, so that no service needs
-- rights on the sequence.
CREATE FUNCTION countersign.stamp_act() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.id := nextval('countersign.acts_id');
    NEW.at := clock_timestamp();
    NEW.xid := pg_current_xact_id();
    RETURN NEW;
END
$$;

CREATE FUNCTION countersign.refuse_change() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION '% on %.% is refused: the ledger is only ever added to', TG_OP, TG_TABLE_SCHEMA, TG_TABLE_NAME
        USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE TRIGGER acts_stamp BEFORE INSERT ON countersign.acts
    FOR EACH ROW EXECUTE FUNCTION countersign.stamp_act();
CREATE TRIGGER acts_refuse_row BEFORE UPDATE OR DELETE ON countersign.acts
    FOR EACH ROW EXECUTE FUNCTION countersign.refuse_change();
-- For a statement too: an upsert or a MERGE that would change a row is refused before it meets one.
CREATE TRIGGER acts_refuse_statement BEFORE UPDATE OR DELETE OR TRUNCATE ON countersign.acts
    FOR EACH STATEMENT EXECUTE FUNCTION countersign.refuse_change();
-- Always: also under session_replication_role = replica, which turns ordinary triggers off.
ALTER TABLE countersign.acts ENABLE ALWAYS TRIGGER acts_stamp;
ALTER TABLE countersign.acts ENABLE ALWAYS TRIGGER acts_refuse_row;
ALTER TABLE countersign.acts ENABLE ALWAYS TRIGGER acts_refuse_statement;

-- Anybody could hang these on a table of their own, whose types' checks would then run as the owner.
REVOKE EXECUTE ON FUNCTION countersign.stamp_act(), countersign.refuse_change() FROM PUBLIC;

GRANT SELECT, INSERT ON countersign.acts TO countersign_runtime;
