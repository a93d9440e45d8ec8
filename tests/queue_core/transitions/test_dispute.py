"""Dispute: a run that was given up on reports after all, so a person has to look."""

import uuid
from dataclasses import dataclass
from typing import Any

import pytest

from queue_core import ContendedError, cancel, fleet, release, retry
from queue_core.outcomes import Completed, Deferred, Ending, Failed, RunReport, Unreadable
from queue_core.queries import places
from queue_core.queries.places import locate
from queue_core.queries.runs import own_record, runs_of
from queue_core.transitions import dispute as dispute_module
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.complete import complete
from queue_core.transitions.dispute import dispute
from queue_core.transitions.fail import fail
from queue_core.transitions.recover import recover

REVIEW = "SELECT review.*, now() AS now FROM countersign.review WHERE review.id = %s"
DONE: Ending = Completed('{"lines": 12}')


@dataclass
class Story:
    """A job whose first run was given up on, and who ran it then and later."""

    conn: Any
    made: Any
    newer: uuid.UUID

    def disputes(self, ending: Ending = DONE, **known: Any):
        report = RunReport(self.made.id, 1, ending, **known)
        return dispute(self.conn, self.made.worker, [report])

    def state(self) -> str:
        return locate(self.conn, [self.made.id])[self.made.id].state

    def outcomes(self) -> list[tuple[int, str]]:
        return [(run.attempt, run.outcome) for run in runs_of(self.conn, self.made.id)]


@pytest.fixture
def story(conn, job_in, make_worker) -> Story:
    """Give a job whose first worker was declared lost while it ran, and that is ready again."""
    made = job_in(conn, "running", attempts=3)
    fleet.give_up(conn, made.worker)
    (moved,) = recover(conn)
    assert moved.state == "ready"
    return Story(conn, made, make_worker(conn))


def runs_anew(story: Story) -> None:
    queues, names = [story.made.queue], [Claimable("mail.send")]
    (run,) = claim(story.conn, worker=story.newer, names=names, queues=queues, count=1)
    assert run.attempt == 2


def waits(story: Story) -> None:
    runs_anew(story)
    fail(story.conn, story.newer, [RunReport(story.made.id, 2, Failed("busy"), wait=600.0)])


def is_blocked(story: Story) -> None:
    query = """
        WITH gone AS (DELETE FROM countersign.ready WHERE id = %s RETURNING *)
        INSERT INTO countersign.blocked SELECT gone.*, 'key' FROM gone"""
    story.conn.execute(query, [story.made.id])


def has_failed(story: Story) -> None:
    runs_anew(story)
    ending = Failed("no", retryable=False)
    fail(story.conn, story.newer, [RunReport(story.made.id, 2, ending)])


def is_completed(story: Story) -> None:
    runs_anew(story)
    complete(story.conn, story.newer, [RunReport(story.made.id, 2, Completed())])


def is_cancelled(story: Story) -> None:
    cancel(story.conn, [story.made.id], by="ops:alice", reason="not_needed")


def is_in_review(story: Story) -> None:
    story.disputes(Failed("no"))
    assert story.state() == "needs_review"


def nothing_more(story: Story) -> None:
    del story


@pytest.mark.parametrize("came", [nothing_more, waits, is_blocked, runs_anew, has_failed])
def test_a_late_report_sends_its_job_to_a_person(story: Story, came) -> None:
    came(story)
    attempt = locate(story.conn, [story.made.id])[story.made.id].attempt
    (moved,) = story.disputes(seconds=75.0, child_pid=77)
    assert (moved.id, moved.attempt, moved.state) == (story.made.id, attempt, "needs_review")
    assert story.state() == "needs_review"
    assert (1, "late_completed") in story.outcomes()
    review = story.conn.execute(REVIEW, [story.made.id]).fetchone()
    assert (review["why"], review["attempt"]) == ("disputed", attempt)
    assert (review["worker"], review["child_pid"]) == (story.made.worker, 77)
    assert review["error"] == "attempt 1 reported after it was given up"
    assert (review["now"] - review["started_at"]).total_seconds() == 75


@pytest.mark.parametrize("came", [is_completed, is_cancelled, is_in_review])
def test_what_is_settled_is_left_alone_and_the_late_row_is_kept(
    story: Story, contents, came
) -> None:
    came(story)
    before = contents(story.conn)
    assert story.disputes() == []
    after = contents(story.conn)
    assert len(after.pop("runs")) == len(before.pop("runs")) + 1
    assert after == before
    assert (1, "late_completed") in story.outcomes()


def test_the_newer_run_ends_with_its_claim_taken(story: Story) -> None:
    runs_anew(story)
    fleet.beat(story.conn, story.newer, [fleet.Started(story.made.id, 2, 78, 1.0)])
    story.disputes()
    lost = next(run for run in runs_of(story.conn, story.made.id) if run.attempt == 2)
    assert (lost.outcome, lost.worker, lost.child_pid) == ("lost", story.newer, 78)
    assert lost.started_at is not None
    assert lost.claimed_at is not None
    assert "claim was taken" in (lost.error or "")
    report = RunReport(story.made.id, 2, Completed())
    assert complete(story.conn, story.newer, [report]) == []
    assert own_record(story.conn, story.newer, [(story.made.id, 2)]) == set()


def test_the_newer_run_may_dispute_in_its_turn_and_changes_no_more(story: Story) -> None:
    runs_anew(story)
    story.disputes()
    report = RunReport(story.made.id, 2, Completed())
    assert dispute(story.conn, story.newer, [report]) == []
    assert story.state() == "needs_review"
    assert sorted(story.outcomes()) == [
        (1, "late_completed"),
        (1, "lost"),
        (2, "late_completed"),
        (2, "lost"),
    ]


def test_a_request_to_stop_the_newer_run_does_not_settle_the_job(story: Story) -> None:
    runs_anew(story)
    cancel(story.conn, [story.made.id], by="ops:alice", reason="too_slow")
    (moved,) = story.disputes()
    assert moved.state == "needs_review"


@pytest.mark.parametrize(
    ("ending", "outcome", "error"),
    [
        (DONE, "late_completed", None),
        (Failed("KeyError", error_type="KeyError", signal=None), "late_failed", "KeyError"),
        (
            Failed("crashed: signal 9", outcome="crashed", signal=9),
            "late_failed",
            "crashed: signal 9",
        ),
        (Deferred(5.0), "late_failed", "put its job back"),
        (Unreadable("not JSON"), "late_failed", "not JSON"),
    ],
    ids=["completed", "failed", "crashed", "deferred", "unreadable"],
)
def test_the_late_row_says_how_the_run_ended(story: Story, ending, outcome: str, error) -> None:
    story.disputes(ending, seconds=9.0, child_pid=77)
    late = next(run for run in runs_of(story.conn, story.made.id) if run.outcome == outcome)
    assert (late.attempt, late.worker, late.child_pid) == (1, story.made.worker, 77)
    assert late.error == error
    assert late.signal == getattr(ending, "signal", None)
    assert late.started_at is not None


def test_a_dispute_sent_twice_is_kept_once(story: Story, contents) -> None:
    story.disputes()
    before = contents(story.conn)
    assert story.disputes() == []
    assert contents(story.conn) == before


def test_a_released_job_that_is_disputed_anew_goes_back_to_review(story: Story) -> None:
    story.disputes(Failed("no"))
    release(story.conn, [story.made.id], by="ops:alice", reason="looked_at")
    (moved,) = story.disputes()
    assert moved.state == story.state() == "needs_review"
    assert {(1, "late_failed"), (1, "late_completed")} <= set(story.outcomes())


def test_a_job_that_failed_because_its_run_was_lost_is_disputed_by_that_run(conn, job_in) -> None:
    made = job_in(conn, "running")
    fleet.give_up(conn, made.worker)
    (moved,) = recover(conn)
    assert moved.state == "failed"
    (moved,) = dispute(conn, made.worker, [made.report(DONE)])
    assert (moved.attempt, moved.state) == (1, "needs_review")
    assert conn.execute("SELECT * FROM countersign.ended").fetchall() == []


def test_a_retried_job_is_disputed_like_any_queued_one(story: Story) -> None:
    has_failed(story)
    retry(story.conn, [story.made.id], by="ops:alice", reason="try_again")
    (moved,) = story.disputes()
    assert moved.state == "needs_review"


# Where it must do nothing


def test_a_run_that_still_holds_its_claim_disputes_nothing(conn, job_in, contents) -> None:
    made = job_in(conn, "running", attempts=2)
    before = contents(conn)
    assert dispute(conn, made.worker, [made.report(DONE)]) == []
    assert contents(conn) == before
    (moved,) = complete(conn, made.worker, [made.report(DONE)])
    assert moved.state == "completed"


def test_of_a_batch_the_one_that_holds_its_claim_is_spared(story: Story, job_in) -> None:
    holder = job_in(story.conn, "running")
    story.conn.execute(
        "UPDATE countersign.running SET worker = %s WHERE id = %s", [story.made.worker, holder.id]
    )
    reports = [holder.report(DONE), RunReport(story.made.id, 1, DONE)]
    moved = dispute(story.conn, story.made.worker, reports)
    assert [each.id for each in moved] == [story.made.id]
    assert locate(story.conn, [holder.id])[holder.id].state == "running"
    assert runs_of(story.conn, holder.id) == []


def test_two_late_runs_of_one_job_in_a_batch_are_both_kept(story: Story) -> None:
    worker = story.made.worker
    story.conn.execute(
        "INSERT INTO countersign.running SELECT id, 3, %s, now(), queue, name, rank, run_at, 3, "
        "'attempts' FROM countersign.ready WHERE id = %s",
        [story.newer, story.made.id],
    )
    story.conn.execute("DELETE FROM countersign.ready WHERE id = %s", [story.made.id])
    reports = [RunReport(story.made.id, attempt, DONE) for attempt in (1, 2)]
    moved = dispute(story.conn, worker, reports)
    assert [(each.attempt, each.state) for each in moved] == [(3, "needs_review")]
    assert {(1, "late_completed"), (2, "late_completed"), (3, "lost")} <= set(story.outcomes())


def test_a_late_report_for_a_job_that_is_gone_is_kept_all_the_same(conn, contents) -> None:
    gone, worker = uuid.uuid4(), uuid.uuid4()
    assert dispute(conn, worker, [RunReport(gone, 1, DONE)]) == []
    assert [run.outcome for run in runs_of(conn, gone)] == ["late_completed"]


def test_no_report_is_no_dispute(conn, contents) -> None:
    before = contents(conn)
    assert dispute(conn, uuid.uuid4(), []) == []
    assert contents(conn) == before


def test_a_job_that_keeps_slipping_is_contended(story: Story, monkeypatch) -> None:
    is_completed(story)
    looks = []

    def always_elsewhere(conn, ids):
        looks.append(ids)
        return {job: places.Place(job, "ready", 1, None, has_body=True) for job in ids}

    monkeypatch.setattr(dispute_module, "locate", always_elsewhere)
    with pytest.raises(ContendedError):
        story.disputes()
    assert len(looks) == dispute_module.LOOKS


# Its own record


@pytest.mark.parametrize(
    ("ending", "write"),
    [(Completed(), complete), (Failed("no"), fail), (Failed("no", retryable=False), fail)],
)
def test_a_write_that_went_unanswered_finds_its_own_record(conn, job_in, ending, write) -> None:
    made = job_in(conn, "running", attempts=2)
    write(conn, made.worker, [made.report(ending, wait=1.0)])
    assert own_record(conn, made.worker, [(made.id, 1), (made.id, 2)]) == {(made.id, 1)}
    assert own_record(conn, uuid.uuid4(), [(made.id, 1)]) == set()


def test_what_others_wrote_of_a_run_is_no_record_of_its_own(story: Story) -> None:
    asked = [(story.made.id, 1)]
    assert own_record(story.conn, story.made.worker, asked) == set()  # lost
    story.disputes()
    assert own_record(story.conn, story.made.worker, asked) == set()  # late
    assert own_record(story.conn, story.made.worker, []) == set()


def test_a_failed_or_cancelled_end_is_no_record_of_completion(conn, job_in) -> None:
    made = job_in(conn, "running")
    fleet.give_up(conn, made.worker)
    recover(conn)  # ended as failed under this attempt and worker, but not by it
    assert own_record(conn, made.worker, [(made.id, 1)]) == set()
