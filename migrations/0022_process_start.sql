-- When a worker's process began: tells it from a later process that was given the same number.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

-- As its machine counts it; compared for being equal alone. NULL: nobody knows.
ALTER TABLE countersign.workers ADD COLUMN process_start text CHECK (length(process_start) BETWEEN 1 AND 200);
