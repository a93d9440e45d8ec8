-- Which runs may be done twice: one claimed ahead and never begun costs its job no attempt when its worker is lost.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

ALTER TABLE countersign.running ADD COLUMN safe_to_repeat boolean NOT NULL DEFAULT false;
