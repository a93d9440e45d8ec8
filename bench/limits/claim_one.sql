UPDATE bare SET state = 1, attempt = attempt + 1, started_at = now()
WHERE id = (
    SELECT id FROM bare WHERE state = 0 AND queue = 'default'
    ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING id \gset
UPDATE bare SET state = 2, ended_at = now() WHERE id = :id;
