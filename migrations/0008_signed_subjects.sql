-- Acts on more than jobs and operators: queues and schedules have names, and a review has two more ends.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

ALTER TABLE countersign.acts
    DROP CONSTRAINT acts_act_check,
    DROP CONSTRAINT acts_subject_kind_check,
    ADD CONSTRAINT acts_act_check CHECK (act IN ('enqueued', 'cancelled', 'cancel_requested',
        'retried', 'released', 'confirmed', 'closed', 'paused', 'resumed', 'run_now', 'added',
        'role_changed', 'disabled', 'password_reset')),
    ADD CONSTRAINT acts_subject_kind_check
        CHECK (subject_kind IN ('job', 'queue', 'schedule', 'operator'));
CREATE INDEX acts_of_name ON countersign.acts (subject_kind, subject_name, id) WHERE subject_id IS NULL;
