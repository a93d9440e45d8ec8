-- Since when live code has a version of a schedule: older code that comes back first must not undo newer.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

ALTER TABLE countersign.schedule_versions ADD COLUMN present_since timestamptz NOT NULL DEFAULT now();
