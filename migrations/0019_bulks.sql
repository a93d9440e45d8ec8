-- The index of a bulk's acts is called by the word that everything else has for it.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

ALTER INDEX countersign.acts_of_errand RENAME TO acts_of_bulk;
