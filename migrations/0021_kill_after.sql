-- Kill after: how long a run that is asked to stop may go on, in its row and in the act that asked.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

-- Whole seconds, so that their text is the same everywhere. NULL: it is never killed for the request.
ALTER TABLE countersign.running
    ADD COLUMN kill_after integer CHECK (kill_after BETWEEN 1 AND 86400);
ALTER TABLE countersign.acts
    ADD COLUMN kill_after integer CHECK (kill_after BETWEEN 1 AND 86400),
    ADD CHECK (kill_after IS NULL OR act = 'cancel_requested');

-- As before, with a line for the new column: NULL has none, so older acts keep their digests.
CREATE OR REPLACE FUNCTION countersign.act_digest(act countersign.acts) RETURNS bytea
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
        'kill_after ' || octet_length(act.kill_after::text) || ':' || act.kill_after::text || E'\n',
        'bulk_id ' || octet_length(act.bulk_id::text) || ':' || act.bulk_id::text || E'\n',
        'via ' || octet_length(act.via) || ':' || act.via || E'\n',
        'xid ' || octet_length(act.xid::text) || ':' || act.xid::text || E'\n'
    ), 'UTF8'))
$$;
