WITH head AS (
    SELECT id FROM bare WHERE state = 0 AND queue = 'default'
    ORDER BY priority, id LIMIT 100 FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE bare SET state = 1, attempt = attempt + 1, started_at = now()
    FROM head WHERE bare.id = head.id
    RETURNING bare.id
)
SELECT array_agg(id)::text AS ids FROM taken \gset
UPDATE bare SET state = 2, ended_at = now() WHERE id = ANY (:ids::bigint[]);
