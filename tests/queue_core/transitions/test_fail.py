"""Fail: another attempt, the end, a person – by what is left and by how the run ended."""

import uuid
from datetime import timedelta

import pytest

from queue_core import cancel, release
from queue_core.outcomes import Failed, RunReport
from queue_core.queries.acts import acts_of
from queue_core.queries.places import locate
from queue_core.queries.runs import own_record, runs_of
from queue_core.transitions.claim import Claimable, claim
from queue_core.transitions.fail import fail

RAISED = Failed(
    "KeyError: 'address'",
    error_type="KeyError",
    error_place="mail.jobs:send",
    traceback="Traceback (most recent call last): …",
)
CRASHED = Failed("crashed: signal 9", outcome="crashed", signal=9)
TIMED_OUT = Failed("timed out after 30s", outcome="timed_out")
WAITING = "SELECT waiting.*, now() AS now FROM countersign.waiting WHERE waiting.id = %s"
ENDED = "SELECT ended.*, now() AS now FROM countersign.ended WHERE ended.id = %s"
REVIEW = "SELECT review.* FROM countersign.review WHERE review.id = %s"


def fails(conn, made, ending: Failed = RAISED, *, wait: float = 30.0, **known) -> str:
    (moved,) = fail(conn, made.worker, [made.report(ending, wait=wait, **known)])
    assert (moved.id, moved.attempt) == (made.id, made.attempt)
    assert locate(conn, [made.id])[made.id].state == moved.state
    return moved.state


def asks_to_stop(conn, made) -> None:
    cancel(conn, [made.id], by="ops:alice", reason="too_slow")


def runs_again(conn, made, attempt: int):
    """Claim the job, due or not, for its next attempt."""
    conn.execute(
        "INSERT INTO countersign.ready SELECT * FROM countersign.waiting WHERE id = %s", [made.id]
    )
    conn.execute("DELETE FROM countersign.waiting WHERE id = %s", [made.id])
    names = [Claimable("mail.send", 9)]
    (run,) = claim(conn, worker=made.worker, names=names, queues=[made.queue], count=1)
    assert run.attempt == attempt
    return type(made)(made.id, attempt, made.queue, made.worker)


# Attempts


def test_with_attempts_left_the_job_waits_as_long_as_the_report_says(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=3)
    assert fails(conn, made, wait=61.5) == "waiting"
    waiting = conn.execute(WAITING, [made.id]).fetchone()
    assert waiting["run_at"] == waiting["now"] + timedelta(seconds=61.5)
    assert (waiting["attempt"], waiting["attempts_allowed"]) == (1, 3)
    assert (waiting["queue"], waiting["name"], waiting["rank"]) == (made.queue, "mail.send", 0)


def test_the_handlers_own_wait_goes_before_the_backoff(conn, job_in) -> None:
    for seconds in (7.0, 0.5):
        made = job_in(conn, "running", attempts=2)
        fails(conn, made, Failed("busy", retry_after=seconds), wait=500.0)
        waiting = conn.execute(WAITING, [made.id]).fetchone()
        assert waiting["run_at"] == waiting["now"] + timedelta(seconds=seconds)


def test_a_wait_of_nothing_is_due_at_once(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=2)
    (moved,) = fail(conn, made.worker, [made.report(Failed("busy", retry_after=0.0), wait=500.0)])
    assert moved.state == "waiting"
    assert locate(conn, [made.id])[made.id].state == "ready"  # as what is due counts everywhere


def test_the_last_attempt_fails_the_job(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=2)
    assert fails(conn, made) == "waiting"
    again = runs_again(conn, made, 2)
    assert fails(conn, again) == "failed"
    assert [(run.attempt, run.outcome) for run in runs_of(conn, made.id)] == [
        (1, "failed"),
        (2, "failed"),
    ]


def test_a_wait_asked_for_at_the_last_attempt_is_no_further_attempt(conn, job_in) -> None:
    assert fails(conn, job_in(conn, "running"), Failed("busy", retry_after=1.0)) == "failed"


def test_a_permanent_error_fails_the_job_whatever_is_left(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=9)
    assert fails(conn, made, Failed("no such account", retryable=False)) == "failed"


def test_a_time_limit_passed_is_a_failure_by_its_own_name(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=2)
    assert fails(conn, made, TIMED_OUT) == "waiting"
    (run,) = runs_of(conn, made.id)
    assert (run.outcome, run.error) == ("timed_out", "timed out after 30s")
    assert fails(conn, job_in(conn, "running"), TIMED_OUT) == "failed"


# What is kept


def test_a_failed_job_shows_its_error_and_its_run_all_of_it(conn, job_in) -> None:
    made = job_in(conn, "running")
    fails(conn, made, RAISED, seconds=4.0, child_pid=77)
    ended = conn.execute(ENDED, [made.id]).fetchone()
    started = ended["now"] - timedelta(seconds=4)
    assert (ended["state"], ended["uncertain"], ended["attempt"]) == ("failed", False, 1)
    assert (ended["worker"], ended["started_at"]) == (made.worker, started)
    assert (ended["error"], ended["error_type"]) == ("KeyError: 'address'", "KeyError")
    assert ended["error_place"] == "mail.jobs:send"
    (run,) = runs_of(conn, made.id)
    assert (run.attempt, run.outcome, run.worker) == (1, "failed", made.worker)
    assert (run.child_pid, run.signal) == (77, None)
    assert (run.claimed_at, run.started_at) == (ended["now"], started)
    assert (run.error, run.error_type) == ("KeyError: 'address'", "KeyError")
    assert (run.error_place, run.traceback) == (RAISED.error_place, RAISED.traceback)


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        ("x" * 1_025, "x" * 1_024),
        ("é" * 600, "é" * 512),
        ("x" + "é" * 600, "x" + "é" * 511),
        ("🎈" * 300, "🎈" * 256),
        ("xyz" + "🎈" * 300, "xyz" + "🎈" * 255),
        ("line\n" * 2, "line\n" * 2),
        ("a\0b", "a\ufffdb"),
    ],
    ids=["ASCII", "two bytes", "odd start", "four bytes", "four from three", "whole", "NUL"],
)
def test_an_error_is_cut_at_1024_bytes_between_characters(
    conn, job_in, error: str, kept: str
) -> None:
    made = job_in(conn, "running")
    fails(conn, made, Failed(error))
    assert conn.execute(ENDED, [made.id]).fetchone()["error"] == kept
    assert runs_of(conn, made.id)[0].error == kept


def test_what_postgres_cannot_store_is_replaced_and_the_failure_is_kept(conn, job_in) -> None:
    made = job_in(conn, "running")
    bad = "a\0b\ud800c\udfffd" + "\0" * 5_000
    fails(conn, made, Failed(bad, error_type=bad, error_place=bad, traceback=bad * 4), child_pid=77)
    (run,) = runs_of(conn, made.id)
    for kept in (run.error, run.error_type, run.error_place, run.traceback):
        assert kept is not None
        assert kept.startswith("a\ufffdb\ufffd")
        assert "c\ufffd" in kept
        assert "\0" not in kept


def test_a_traceback_of_megabytes_keeps_its_head_and_tail_within_16_kib(conn, job_in) -> None:
    made = job_in(conn, "running")
    fails(conn, made, Failed("RecursionError", traceback="HEAD" + "é" * 2_500_000 + "TAIL"))
    (run,) = runs_of(conn, made.id)
    assert run.traceback is not None
    assert 16_000 < len(run.traceback.encode()) <= 16_384
    assert run.traceback.startswith("HEADé")
    assert run.traceback.endswith("éTAIL")
    assert "cut" in run.traceback


def test_a_traceback_of_16_kib_is_kept_whole(conn, job_in) -> None:
    made = job_in(conn, "running")
    fails(conn, made, Failed("x", traceback="t" * 16_384))
    assert runs_of(conn, made.id)[0].traceback == "t" * 16_384


def test_an_error_of_5_mb_fails_its_job_like_any_other(conn, job_in) -> None:
    made = job_in(conn, "running")
    assert fails(conn, made, Failed("x" * 5_000_000, traceback="y" * 5_000_000)) == "failed"


# Crashes


def test_the_first_crash_uses_up_an_attempt_like_any_failure(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=3)
    assert fails(conn, made, CRASHED, wait=30.0) == "waiting"
    (run,) = runs_of(conn, made.id)
    assert (run.outcome, run.signal, run.error) == ("crashed", 9, "crashed: signal 9")


def test_the_second_crash_is_poison_whatever_attempts_are_left(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=9)
    assert fails(conn, made, CRASHED) == "waiting"
    again = runs_again(conn, made, 2)
    assert fails(conn, again, RAISED) == "waiting"
    third = runs_again(conn, made, 3)
    assert fails(conn, third, CRASHED, seconds=1.0, child_pid=78) == "needs_review"
    review = conn.execute(REVIEW, [made.id]).fetchone()
    assert (review["why"], review["attempt"], review["signal"]) == ("crashed_again", 3, 9)
    assert (review["worker"], review["child_pid"]) == (made.worker, 78)
    assert review["started_at"] is not None
    assert review["error"] == "crashed: signal 9"


def test_a_crash_of_another_job_is_no_second_crash(conn, job_in) -> None:
    fails(conn, job_in(conn, "running", attempts=2), CRASHED)
    assert fails(conn, job_in(conn, "running", attempts=2), CRASHED) == "waiting"


def test_a_crash_at_the_last_attempt_fails_the_job_as_uncertain(conn, job_in) -> None:
    made = job_in(conn, "running")
    assert fails(conn, made, CRASHED) == "failed"
    assert conn.execute(ENDED, [made.id]).fetchone()["uncertain"] is True


def test_a_second_crash_goes_to_review_at_the_last_attempt_too(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=2)
    fails(conn, made, CRASHED)
    assert fails(conn, runs_again(conn, made, 2), CRASHED) == "needs_review"


def test_a_name_for_review_goes_there_at_its_first_crash(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=9, on_lost="review")
    assert fails(conn, made, CRASHED) == "needs_review"
    assert conn.execute(REVIEW, [made.id]).fetchone()["why"] == "crashed"


def test_a_name_for_review_fails_and_waits_like_others_when_it_raises(conn, job_in) -> None:
    assert fails(conn, job_in(conn, "running", attempts=2, on_lost="review")) == "waiting"
    assert fails(conn, job_in(conn, "running", on_lost="review"), TIMED_OUT) == "failed"


def test_a_released_job_that_crashes_once_more_comes_back_to_review(conn, job_in) -> None:
    made = job_in(conn, "running", attempts=2)
    fails(conn, made, CRASHED)
    fails(conn, runs_again(conn, made, 2), CRASHED)
    release(conn, [made.id], by="ops:alice", reason="fixed")
    names = [Claimable("mail.send", 9)]
    (run,) = claim(conn, worker=made.worker, names=names, queues=[made.queue], count=1)
    third = type(made)(made.id, run.attempt, made.queue, made.worker)
    assert fails(conn, third, CRASHED) == "needs_review"


# After a request to stop


@pytest.mark.parametrize(
    ("ending", "uncertain"),
    [(RAISED, False), (TIMED_OUT, False), (CRASHED, True)],
    ids=["raised", "timed out", "crashed"],
)
def test_after_a_request_to_stop_a_job_is_cancelled_and_never_tried_again(
    conn, job_in, ending: Failed, *, uncertain: bool
) -> None:
    made = job_in(conn, "running", attempts=9)
    asks_to_stop(conn, made)
    assert fails(conn, made, ending, wait=1.0) == "cancelled"
    ended = conn.execute(ENDED, [made.id]).fetchone()
    assert (ended["state"], ended["uncertain"]) == ("cancelled", uncertain)
    assert ended["error"] == ending.error
    (run,) = runs_of(conn, made.id)
    assert run.outcome == ending.outcome
    assert [act.act for act in acts_of(conn, made.id)] == ["cancel_requested"]


def test_a_crash_after_a_request_to_stop_is_for_review_where_its_name_says_so(conn, job_in) -> None:
    made = job_in(conn, "running", on_lost="review")
    asks_to_stop(conn, made)
    assert fails(conn, made, CRASHED) == "needs_review"


# The fence


def test_a_wrong_attempt_or_worker_changes_nothing(conn, job_in, contents) -> None:
    made = job_in(conn, "running", attempts=2)
    before = contents(conn)
    for attempt, worker in ((2, made.worker), (0, made.worker), (1, uuid.uuid4())):
        assert fail(conn, worker, [RunReport(made.id, attempt, RAISED, wait=1.0)]) == []
    assert contents(conn) == before


def test_the_second_report_of_a_run_changes_nothing(conn, job_in, contents) -> None:
    made = job_in(conn, "running", attempts=2)
    fails(conn, made)
    before = contents(conn)
    assert fail(conn, made.worker, [made.report(CRASHED)]) == []
    assert contents(conn) == before
    assert own_record(conn, made.worker, [(made.id, 1)]) == {(made.id, 1)}


def test_a_late_report_in_the_batch_of_the_run_that_holds_the_claim_does_not_count(
    conn, job_in
) -> None:
    made = job_in(conn, "running", attempts=2)
    conn.execute("UPDATE countersign.running SET attempt = 2")
    reports = [RunReport(made.id, 1, CRASHED), RunReport(made.id, 2, RAISED)]
    (moved,) = fail(conn, made.worker, reports)
    assert (moved.attempt, moved.state) == (2, "failed")
    assert [(run.attempt, run.outcome) for run in runs_of(conn, made.id)] == [(2, "failed")]


def test_each_run_of_a_batch_goes_its_own_way(conn, job_in) -> None:
    left = job_in(conn, "running", attempts=2)
    none = job_in(conn, "running")
    review = job_in(conn, "running", on_lost="review")
    conn.execute("UPDATE countersign.running SET worker = %s", [left.worker])
    reports = [none.report(RAISED), review.report(CRASHED), left.report(RAISED, wait=1.0)]
    moved = {each.id: each.state for each in fail(conn, left.worker, reports)}
    assert moved == {none.id: "failed", review.id: "needs_review", left.id: "waiting"}
