-- Acts that move no job hold its row until the commit, so that what is answered is so.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

-- No row of these is ever updated; FOR UPDATE asks for the right to, on one column at least.
GRANT UPDATE (id) ON countersign.review, countersign.ended, countersign.blocked
    TO countersign_runtime;
