-- Three acts that move nothing, and indexes for the list of what waits for a person.
SET LOCAL lock_timeout = '5s';
SET LOCAL ROLE countersign_owner;

ALTER TABLE countersign.acts
    DROP CONSTRAINT acts_act_check,
    ADD CONSTRAINT acts_act_check CHECK (act IN ('enqueued', 'cancelled', 'cancel_requested',
        'retried', 'released', 'confirmed', 'closed', 'revealed', 'assigned', 'noted', 'paused',
        'resumed', 'run_now', 'added', 'role_changed', 'disabled', 'password_reset'));

-- What was lost in one moment stands together by its worker; where that is unknown, in front.
CREATE INDEX review_by_worker ON countersign.review
    (entered_at, (COALESCE(worker, '00000000-0000-0000-0000-000000000000'::uuid)), id);
CREATE INDEX ended_uncertain ON countersign.ended
    (ended_at, (COALESCE(worker, '00000000-0000-0000-0000-000000000000'::uuid)), id)
    WHERE uncertain AND state = 'failed';
-- What a worker held when it was lost, wherever it stands by now.
CREATE INDEX runs_lost ON countersign.runs (worker, job_id) WHERE outcome = 'lost';
