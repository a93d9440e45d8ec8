-- Seals: what the ledger holds, hashed and chained, so that whatever is done to it later shows.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

-- Acts are sealed in the order of their transactions.
CREATE INDEX acts_to_seal ON countersign.acts (xid, id);
-- `check` compares it with the newest act: set back, it would give out ids of the past.
GRANT SELECT ON SEQUENCE countersign.acts_id TO countersign_runtime;

-- `previous` is the sha256 of the seal before, 32 zero bytes in the first. Acts of transactions
-- below `horizon` are sealed by this seal and those before it; acts up to `base` by those up to
-- the last rebase, whatever their transactions, which another server numbered. `digests` stand in
-- the order of `ids`, which is that of (xid, id).
CREATE TABLE countersign.seals (
    number bigint PRIMARY KEY CHECK (number >= 1),
    previous bytea NOT NULL UNIQUE CHECK (octet_length(previous) = 32),
    at timestamptz NOT NULL,
    xid xid8 NOT NULL,
    system_identifier bigint NOT NULL,
    rebase boolean NOT NULL,
    horizon xid8 NOT NULL,
    base bigint NOT NULL,
    count integer NOT NULL CHECK (count >= 0),
    ids bigint[] NOT NULL,
    digests bytea[] NOT NULL,
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
    CHECK (cardinality(ids) = count AND cardinality(digests) = count)
);

-- The SHA-256 of an act's canonical text: a line for each column, `name octets:value`; none for
-- NULL, so that a column that a later migration adds leaves the digests of older acts as they are.
-- Dates are microseconds since 1970 in UTC: no setting of a session or server has a say.
CREATE FUNCTION countersign.act_digest(act countersign.acts) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE
AS $$
    SELECT sha256(convert_to(concat(
        'id ' || octet_length(act.id::text) || ':' || act.id::text || E'\n',
        'at ' || octet_length(trunc(EXTRACT(EPOCH FROM act.at) * 1000000)::text) || ':'
            || trunc(EXTRACT(EPOCH FROM act.at) * 1000000)::text || E'\n',
        'by ' || octet_length(act.by) || ':' || act.by || E'\n',
        'act ' || octet_length(act.act) || ':' || act.act || E'\n',
        'subject_kind ' || octet_length(act.subject_kind) || ':' || act.subject_kind || E'\n',
        'subject_id ' || octet_length(act.subject_id::text) || ':' || act.subject_id::text || E'\n',
        'subject_name ' || octet_length(act.subject_name) || ':' || act.subject_name || E'\n',
        'attempt ' || octet_length(act.attempt::text) || ':' || act.attempt::text || E'\n',
        'reason ' || octet_length(act.reason) || ':' || act.reason || E'\n',
        'note ' || octet_length(act.note) || ':' || act.note || E'\n',
        'bulk_id ' || octet_length(act.bulk_id::text) || ':' || act.bulk_id::text || E'\n',
        'via ' || octet_length(act.via) || ':' || act.via || E'\n',
        'xid ' || octet_length(act.xid::text) || ':' || act.xid::text || E'\n'
    ), 'UTF8'))
$$;

-- The same of a seal: all but its sha256, which this is; bytes in hexadecimal, lists with commas.
CREATE FUNCTION countersign.seal_digest(seal countersign.seals) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp
AS $$
    SELECT sha256(convert_to(string_agg(
        line.name || ' ' || octet_length(line.value) || ':' || line.value || E'\n', ''
        ORDER BY line.position
    ), 'UTF8'))
    FROM (VALUES
        (1, 'number', seal.number::text),
        (2, 'previous', encode(seal.previous, 'hex')),
        (3, 'at', trunc(EXTRACT(EPOCH FROM seal.at) * 1000000)::text),
        (4, 'xid', seal.xid::text),
        (5, 'system_identifier', seal.system_identifier::text),
        (6, 'rebase', seal.rebase::text),
        (7, 'horizon', seal.horizon::text),
        (8, 'base', seal.base::text),
        (9, 'count', seal.count::text),
        (10, 'ids', array_to_string(seal.ids, ',', '?')),
        (11, 'digests', COALESCE((
            SELECT string_agg(COALESCE(encode(each.digest, 'hex'), '?'), ',' ORDER BY each.position)
            FROM unnest(seal.digests) WITH ORDINALITY AS each (digest, position)
        ), ''))
    ) AS line (position, name, value)
    WHERE line.value IS NOT NULL
$$;

-- Makes the whole seal, whatever the inserter gave: nobody who may insert can forge one. No row is
-- inserted where there is nothing to seal, or another sealer is at work. In READ COMMITTED alone,
-- since each statement has to see what was committed before it.
CREATE FUNCTION countersign.stamp_seal() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    last countersign.seals;
    low xid8;
    beyond xid8;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'acts are sealed in READ COMMITTED transactions'
            USING ERRCODE = 'invalid_transaction_state';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtext('countersign.seal')) THEN
        RETURN NULL;
    END IF;
    SELECT seals.* INTO last FROM countersign.seals ORDER BY seals.number DESC LIMIT 1;
    low := COALESCE(last.horizon, '0');
    NEW.number := COALESCE(last.number, 0) + 1;
    NEW.previous := COALESCE(last.sha256, decode(repeat('00', 32), 'hex'));
    NEW.at := clock_timestamp();
    NEW.xid := pg_current_xact_id();
    NEW.system_identifier := (SELECT control.system_identifier FROM pg_control_system() AS control);
    NEW.base := COALESCE(last.base, 0);
    -- A restored dump or a logical copy: xids are another server's, and tell nothing here.
    NEW.rebase := low > NEW.xid
        OR COALESCE(last.system_identifier <> NEW.system_identifier, false)
        OR (last.number IS NULL AND EXISTS (
            SELECT FROM countersign.acts WHERE acts.xid >= pg_snapshot_xmax(pg_current_snapshot())
        ));

    IF NEW.rebase THEN
        -- Nobody is adding acts now. Not by waiting: everybody's acts would wait behind it.
        LOCK TABLE countersign.acts IN SHARE MODE NOWAIT;
        NEW.horizon := pg_snapshot_xmin(pg_current_snapshot());
        NEW.base := GREATEST(
            NEW.base, (SELECT acts.id FROM countersign.acts ORDER BY acts.id DESC LIMIT 1)
        );
        SELECT count(*),
            COALESCE(array_agg(acts.id ORDER BY acts.xid, acts.id), '{}'),
            COALESCE(array_agg(countersign.act_digest(acts) ORDER BY acts.xid, acts.id), '{}')
        INTO NEW.count, NEW.ids, NEW.digests
        FROM countersign.acts
        WHERE NOT EXISTS (
            SELECT FROM (SELECT unnest(seals.ids) AS id FROM countersign.seals) AS sealed
            WHERE sealed.id = acts.id
        );
    ELSE
        -- Below the oldest transaction that goes on, every act is there or never will be.
        NEW.horizon := pg_snapshot_xmin(pg_current_snapshot());
        -- About a thousand acts, but whole transactions, and one at least.
        SELECT acts.xid INTO beyond
        FROM countersign.acts
        WHERE acts.xid >= low AND acts.xid < NEW.horizon AND acts.id > NEW.base
        ORDER BY acts.xid, acts.id
        OFFSET 1000 LIMIT 1;
        IF NOT EXISTS (
            SELECT FROM countersign.acts
            WHERE acts.xid >= low AND acts.xid < beyond AND acts.id > NEW.base
        ) THEN
            SELECT acts.xid INTO beyond
            FROM countersign.acts
            WHERE acts.xid > beyond AND acts.xid < NEW.horizon AND acts.id > NEW.base
            ORDER BY acts.xid, acts.id
            LIMIT 1;
        END IF;
        NEW.horizon := COALESCE(beyond, NEW.horizon);
        SELECT count(*),
            COALESCE(array_agg(acts.id ORDER BY acts.xid, acts.id), '{}'),
            COALESCE(array_agg(countersign.act_digest(acts) ORDER BY acts.xid, acts.id), '{}')
        INTO NEW.count, NEW.ids, NEW.digests
        FROM countersign.acts
        WHERE acts.xid >= low AND acts.xid < NEW.horizon AND acts.id > NEW.base;
        IF NEW.count = 0 THEN
            RETURN NULL;
        END IF;
    END IF;
    NEW.sha256 := countersign.seal_digest(NEW);
    RETURN NEW;
END
$$;

CREATE TRIGGER seals_stamp BEFORE INSERT ON countersign.seals
    FOR EACH ROW EXECUTE FUNCTION countersign.stamp_seal();
CREATE TRIGGER seals_refuse_row BEFORE UPDATE OR DELETE ON countersign.seals
    FOR EACH ROW EXECUTE FUNCTION countersign.refuse_change();
CREATE TRIGGER seals_refuse_statement BEFORE UPDATE OR DELETE OR TRUNCATE ON countersign.seals
    FOR EACH STATEMENT EXECUTE FUNCTION countersign.refuse_change();
ALTER TABLE countersign.seals ENABLE ALWAYS TRIGGER seals_stamp;
ALTER TABLE countersign.seals ENABLE ALWAYS TRIGGER seals_refuse_row;
ALTER TABLE countersign.seals ENABLE ALWAYS TRIGGER seals_refuse_statement;
REVOKE EXECUTE ON FUNCTION countersign.stamp_seal() FROM PUBLIC;

GRANT SELECT, INSERT ON countersign.seals TO countersign_runtime;
