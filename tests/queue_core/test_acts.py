"""Acts: signed or not done, done or refused for a reason, whatever the connection is like."""

import sys
import unicodedata
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import IsolationLevel
from psycopg.rows import dict_row, kwargs_row, namedtuple_row, scalar_row, tuple_row

from queue_core import (
    ContendedError,
    NewJob,
    NotACodeError,
    OptionError,
    TransitionRefusedError,
    cancel,
    close,
    confirm,
    enqueue_signed,
    release,
    retry,
)
from queue_core.acts import LOOKS, MOST_JOBS, ActOutcome, Signature
from queue_core.errors import NoteError
from queue_core.queries import places
from queue_core.queries.acts import acts_of
from queue_core.queries.places import locate

SIGNED: dict[str, Any] = {"by": "ops:alice", "reason": "seen_in_test"}
VERBS = {
    "cancel": ("ready", cancel),
    "retry": ("failed", retry),
    "release": ("needs_review", release),
    "confirm": ("needs_review", confirm),
    "close": ("needs_review", close),
}
BAD_CODES = {
    "empty": "",
    "blank": "   ",
    "wide blank": "\u3000\u2003",
    "201 characters": "x" * 201,
    "NUL": "a\0b",
    "newline": "ops:alice\nops:bob",
    "tab": "a\tb",
    "escape": "a\x1b[31m",
    "C1 control": "a\x85b",
    "bidirectional override": "ops:\u202eecila",
    "isolate": "a\u2066b",
    "zero-width space": "ops:\u200balice",
    "byte-order mark": "\ufeffops",
    "soft hyphen": "a\u00adb",
    "line separator": "a\u2028b",
    "tag characters": "ops\U000e0061",
    "braille blank": "\u2800",
    "lone surrogate": "a\ud800",
}
NOT_TEXT = {"none": None, "bytes": b"ops:alice", "number": 7}


@pytest.fixture(params=VERBS)
def verb(request: pytest.FixtureRequest) -> tuple[str, Callable[..., list[ActOutcome]]]:
    """Give each act in turn, with a place that it applies in."""
    return VERBS[request.param]


# Who and why


@pytest.mark.parametrize(
    "text", [*BAD_CODES.values(), *NOT_TEXT.values()], ids=[*BAD_CODES, *NOT_TEXT]
)
@pytest.mark.parametrize("field", ["by", "reason"])
def test_what_is_no_code_is_refused_before_the_database_is_asked(field: str, text: Any) -> None:
    nobody: Any = None  # not even a connection is needed to say no
    signed = {**SIGNED, field: text}
    for _, act in VERBS.values():
        with pytest.raises(NotACodeError) as refused:
            act(nobody, [uuid.uuid4()], **signed)
        assert refused.value.what == field
        assert "ops:" not in str(refused.value)


@pytest.mark.parametrize("field", ["by", "reason"])
def test_a_signed_enqueue_needs_codes_too(conn, registry, contents, field: str) -> None:
    before = contents(conn)
    with pytest.raises(NotACodeError):
        enqueue_signed(conn, NewJob("mail.send"), **{**SIGNED, field: "two\nlines"})
    assert contents(conn) == before


@pytest.mark.parametrize("note", ["x" * 2_001, "a\0b", "a\u202eb", "a\x07b", "\ud800"])
def test_a_note_that_cannot_be_kept_is_refused_before_anything_is_written(note: str) -> None:
    nobody: Any = None
    for _, act in VERBS.values():
        with pytest.raises(NoteError):
            act(nobody, [uuid.uuid4()], note=note, **SIGNED)


@pytest.mark.parametrize("via", ["", "x" * 401, "a\0b", "\ud800"])
def test_a_way_in_that_cannot_be_kept_is_refused_before_anything_is_written(via: str) -> None:
    nobody: Any = None
    for _, act in VERBS.values():
        with pytest.raises(OptionError, match="via"):
            act(nobody, [uuid.uuid4()], via=via, **SIGNED)


def test_there_is_no_form_of_an_act_without_who_and_why(conn, registry, verb) -> None:
    _, act = verb
    for missing in ("by", "reason"):
        with pytest.raises(TypeError):
            act(conn, [], **{key: text for key, text in SIGNED.items() if key != missing})
    with pytest.raises(TypeError):
        enqueue_signed(conn, NewJob("mail.send"))  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    "text", ["x", "x" * 200, "ops:älice", "Grüße – ok", "a b", "日本語", "👍🏽", "a\u00a0b"]
)
def test_codes_are_kept_letter_for_letter(conn, job_in, text: str) -> None:
    made = job_in(conn, "ready")
    cancel(conn, [made.id], by=text, reason=text)
    (act,) = acts_of(conn, made.id)
    assert (act.by, act.reason) == (text, text)


def test_a_signature_shows_nothing_that_a_person_wrote() -> None:
    shown = repr(Signature("ops:alice", "customer_asked", "call back", via="cli:alice@pay-3"))
    assert "cli:alice@pay-3" in shown
    assert not [word for word in ("ops:", "customer", "call") if word in shown]


INSERT_ACT = """
INSERT INTO countersign.acts (by, act, subject_kind, subject_id, subject_name, attempt, reason, via)
VALUES (%(by)s, 'cancelled', 'job', gen_random_uuid(), 'mail.send', 0, %(reason)s, 'code')
"""


@pytest.mark.parametrize("text", BAD_CODES.values(), ids=BAD_CODES)
@pytest.mark.parametrize("field", ["by", "reason"])
def test_the_table_refuses_bad_codes_by_itself(conn, field: str, text: str) -> None:
    # The driver, before the server, refuses NUL and lone surrogates: no text holds either.
    refusals = (psycopg.errors.CheckViolation, psycopg.DataError, UnicodeEncodeError)
    with pytest.raises(refusals):
        conn.execute(INSERT_ACT, {**SIGNED, field: text})


VISIBLE_FORMAT = frozenset(
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
"""Signs that stand under numbers: format characters, and ones that can be seen."""
CODES_OF_ONE = """
SELECT given.text
FROM unnest(%(texts)s::text[]) AS given (text)
WHERE countersign.is_code(given.text) OR countersign.is_code('a' || given.text || 'b')
"""


def test_no_character_that_hides_itself_passes_the_table(conn) -> None:
    hidden = [
        character
        for character in map(chr, range(1, sys.maxunicode + 1))
        if unicodedata.category(character) in {"Cc", "Cf", "Zl", "Zp"}
        and character not in VISIBLE_FORMAT
    ]
    hidden += list(
        "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u180b\u180f\ufe00\ufe0f\U000e0100"
    )
    assert conn.execute(CODES_OF_ONE, {"texts": hidden}).fetchall() == []


def test_no_text_of_blanks_alone_passes_the_table(conn) -> None:
    blanks = [c for c in map(chr, range(1, sys.maxunicode + 1)) if c.isspace()]
    query = "SELECT text FROM unnest(%s::text[]) AS given (text) WHERE countersign.is_code(text)"
    assert conn.execute(query, [[blank * 3 for blank in blanks]]).fetchall() == []


# What the person saw


@pytest.mark.parametrize("saw", ["ready", "waiting", "blocked"])
@pytest.mark.parametrize("place", ["ready", "waiting", "due", "blocked"])
def test_queued_states_count_as_one_for_what_was_seen(conn, job_in, place: str, saw: str) -> None:
    made = job_in(conn, place)
    (outcome,) = cancel(conn, [made.id], seen={made.id: (saw, 0)}, **SIGNED)
    assert outcome.applied


@pytest.mark.parametrize(
    ("place", "act", "saw"),
    [
        ("ready", cancel, ("ready", 1)),
        ("ready", cancel, ("running", 0)),
        ("waiting", cancel, ("waiting", 7)),
        ("blocked", cancel, ("blocked", 2)),
        ("running", cancel, ("running", 2)),
        ("running", cancel, ("ready", 0)),
        ("running", cancel, ("ready", 1)),
        ("completed", cancel, ("running", 1)),
        ("failed", retry, ("failed", 2)),
        ("failed", retry, ("cancelled", 1)),
        ("cancelled", retry, ("failed", 0)),
        ("completed", retry, ("failed", 1)),
        ("needs_review", release, ("needs_review", 2)),
        ("needs_review", release, ("failed", 1)),
        ("ready", release, ("needs_review", 0)),
        ("needs_review", confirm, ("needs_review", 2)),
        ("needs_review", close, ("needs_review", 2)),
        ("completed", confirm, ("needs_review", 1)),
        ("ready", cancel, ("no such state", 0)),
    ],
)
def test_a_job_that_is_not_as_it_was_seen_has_moved_on(
    conn, job_in, contents, place: str, act: Callable[..., list[ActOutcome]], saw: tuple[str, int]
) -> None:
    made = job_in(conn, place)
    before = contents(conn)
    (refused,) = act(conn, [made.id], seen={made.id: saw}, **SIGNED)
    assert (refused.applied, refused.why, refused.act_id) == (False, "moved_on", None)
    assert (refused.state, refused.attempt) == (place, made.attempt)
    assert contents(conn) == before


def test_what_was_seen_of_one_job_says_nothing_of_another(conn, job_in) -> None:
    one, other = job_in(conn, "ready"), job_in(conn, "running")
    outcomes = cancel(conn, [one.id, other.id], seen={one.id: ("ready", 3)}, **SIGNED)
    assert [(each.applied, each.why) for each in outcomes] == [(False, "moved_on"), (True, None)]


def test_a_request_seen_as_it_stands_is_refused_as_asked_already(conn, job_in) -> None:
    made = job_in(conn, "running")
    cancel(conn, [made.id], **SIGNED)
    (refused,) = cancel(conn, [made.id], seen={made.id: ("running", 1)}, **SIGNED)
    assert refused.why == "already_asked"


# Which jobs


def test_outcomes_come_in_the_order_given_each_job_once(conn, job_in) -> None:
    made = [job_in(conn, place).id for place in ("waiting", "ready", "completed", "blocked")]
    asked = [made[3], made[0], made[3], made[2], made[1], made[0]]
    outcomes = cancel(conn, asked, **SIGNED)
    assert [each.job_id for each in outcomes] == [made[3], made[0], made[2], made[1]]
    assert [each.applied for each in outcomes] == [True, True, False, True]
    assert [len(acts_of(conn, job)) for job in made] == [1, 1, 0, 1]


def test_ids_may_come_from_a_generator(conn, job_in) -> None:
    made = [job_in(conn, "ready").id for _ in range(3)]
    assert [each.applied for each in cancel(conn, iter(made), **SIGNED)] == [True] * 3


@pytest.mark.parametrize(
    "named", [str, lambda job: [str(job)], lambda job: [job.hex], lambda _: [7]]
)
def test_an_id_that_is_no_uuid_is_refused_and_never_acted_on(
    conn, job_in, contents, verb, named
) -> None:
    place, act = verb
    made = job_in(conn, place)
    before = contents(conn)
    with pytest.raises(OptionError, match=r"uuid\.UUID"):
        act(conn, named(made.id), **SIGNED)
    with pytest.raises(OptionError, match=r"uuid\.UUID"):
        act(conn, [made.id], seen={str(made.id): ("running", 7)}, **SIGNED)
    assert contents(conn) == before


def test_an_act_on_no_job_is_no_act(conn, contents, registry, verb) -> None:
    before = contents(conn)
    assert verb[1](conn, [], **SIGNED) == []
    assert contents(conn) == before


def test_a_job_that_is_not_there_is_not_found(conn, job_in, contents, verb) -> None:
    place, act = verb
    made, unknown = job_in(conn, place), uuid.uuid4()
    refused, applied = act(conn, [unknown, made.id], **SIGNED)
    assert (refused.applied, refused.why, refused.state) == (False, "not_found", None)
    assert (refused.attempt, refused.act_id) == (None, None)
    assert applied.applied
    assert acts_of(conn, unknown) == []


def test_more_jobs_than_fit_in_a_commit_are_refused_before_anything_is_written(
    conn, job_in, contents, verb
) -> None:
    place, act = verb
    made = job_in(conn, place)
    before = contents(conn)
    with pytest.raises(OptionError, match="1000"):
        act(conn, [made.id, *(uuid.uuid4() for _ in range(MOST_JOBS))], **SIGNED)
    assert contents(conn) == before


def test_as_many_jobs_as_fit_are_all_acted_on(conn, registry) -> None:
    ids = conn.execute(ENQUEUE_PLAINLY, {"count": MOST_JOBS}).fetchall()
    outcomes = cancel(conn, [row["id"] for row in ids], **SIGNED)
    assert [each.applied for each in outcomes] == [True] * MOST_JOBS
    assert len({each.act_id for each in outcomes}) == MOST_JOBS


ENQUEUE_PLAINLY = """
WITH asked AS (
    INSERT INTO countersign.jobs (id, name, queue, args, priority)
    SELECT countersign.new_id(), 'mail.send', 'default', '{}', 0
    FROM generate_series(1, %(count)s)
    RETURNING jobs.id
)
INSERT INTO countersign.ready (id, queue, name, rank, run_at)
SELECT asked.id, 'default', 'mail.send', 0, now() FROM asked
RETURNING ready.id
"""


def test_a_job_without_its_body_cannot_run_again(conn, database, job_in) -> None:
    with database.connect(autocommit=False) as other:
        failed, reviewed = job_in(other, "failed").id, job_in(other, "needs_review").id
        other.commit()
        with database.owner() as owner:
            owner.execute("DELETE FROM countersign.jobs")
        (once,) = retry(other, [failed], **SIGNED)
        (again,) = release(other, [reviewed], **SIGNED)
        assert (once.why, again.why) == ("not_found", "not_found")
        assert acts_of(other, failed) == acts_of(other, reviewed) == []


# What is kept of it


def test_note_via_and_bulk_are_kept_on_each_act(conn, job_in, verb) -> None:
    place, act = verb
    made = [job_in(conn, place) for _ in range(2)]
    bulk = uuid.uuid4()
    outcomes = act(
        conn,
        [each.id for each in made],
        note="  line one\r\nline two\n",
        via="cli:alice@pay-3",
        bulk_id=bulk,
        **SIGNED,
    )
    for outcome in outcomes:
        kept = acts_of(conn, outcome.job_id)[-1]
        assert (kept.id, kept.note) == (outcome.act_id, "line one\nline two")
        assert (kept.via, kept.bulk_id) == ("cli:alice@pay-3", bulk)


def test_a_blank_note_is_no_note(conn, job_in) -> None:
    made = job_in(conn, "ready")
    cancel(conn, [made.id], note=" \n ", **SIGNED)
    (act,) = acts_of(conn, made.id)
    assert act.note is None


def test_an_act_keeps_the_attempt_that_the_job_had(conn, job_in) -> None:
    made = job_in(conn, "failed")
    retry(conn, [made.id], **SIGNED)
    cancel(conn, [made.id], **SIGNED)
    retry(conn, [made.id], **SIGNED)
    assert [(each.act, each.attempt) for each in acts_of(conn, made.id)] == [
        ("retried", 1),
        ("cancelled", 1),
        ("retried", 1),
    ]


def test_a_signed_enqueue_is_one_job_and_one_act(conn, registry) -> None:
    later = NewJob("mail.send", priority=3, delay=60.0)
    for job, state in ((NewJob("mail.send"), "ready"), (later, "waiting")):
        made = enqueue_signed(conn, job, note="asked for by phone", via="cli:alice@pay-3", **SIGNED)
        (act,) = acts_of(conn, made.id)
        assert (act.act, act.attempt, act.by, act.note) == (
            "enqueued",
            0,
            "ops:alice",
            "asked for by phone",
        )
        assert locate(conn, [made.id])[made.id].state == state


# The caller's transaction


@pytest.fixture(params=["REPEATABLE_READ", "SERIALIZABLE"])
def stricter(request: pytest.FixtureRequest) -> IsolationLevel:
    """Give each isolation level in which nobody can look again."""
    return IsolationLevel[request.param]


@pytest.mark.parametrize("autocommit", [False, True])
def test_a_stricter_transaction_is_refused_at_once_with_nothing_written(
    shared_database, job_in, contents, verb, stricter: IsolationLevel, autocommit
) -> None:
    place, act = verb
    with shared_database.connect() as seeding:
        made = job_in(seeding, place)
        before = contents(seeding)
    with shared_database.connect(autocommit=autocommit) as strict:
        strict.isolation_level = stricter
        with pytest.raises(ContendedError, match="READ COMMITTED"):
            act(strict, [made.id], **SIGNED)
        if not autocommit:
            strict.commit()
        assert contents(strict) == before


def test_a_stricter_transaction_that_the_caller_began_is_refused(
    shared_database, job_in, stricter: IsolationLevel
) -> None:
    with shared_database.connect() as caller:
        made = job_in(caller, "ready")
        level = stricter.name.replace("_", " ")
        caller.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
        with pytest.raises(ContendedError):
            cancel(caller, [made.id], **SIGNED)
        caller.execute("COMMIT")
        assert locate(caller, [made.id])[made.id].state == "ready"


def test_a_rollback_takes_back_the_change_and_the_act(
    shared_database, job_in, contents, verb
) -> None:
    place, act = verb
    with shared_database.connect() as watching:
        made = job_in(watching, place)
        before = contents(watching)
        with shared_database.connect(autocommit=False) as caller:
            (outcome,) = act(caller, [made.id], **SIGNED)
            assert outcome.applied
            assert contents(watching) == before, "seen by others before the caller's commit"
            caller.rollback()
        assert contents(watching) == before


def test_a_signed_enqueue_is_taken_back_by_a_rollback(shared_database, registry, contents) -> None:
    with shared_database.connect() as watching, shared_database.connect(autocommit=False) as caller:
        before = contents(watching)
        enqueue_signed(caller, NewJob("mail.send"), **SIGNED)
        assert contents(watching) == before
        caller.rollback()
        assert contents(watching) == before


def test_in_autocommit_change_and_act_are_there_at_once(shared_database, job_in, verb) -> None:
    place, act = verb
    with shared_database.connect() as caller, shared_database.connect() as watching:
        made = job_in(caller, place)
        earlier = len(acts_of(watching, made.id))
        (outcome,) = act(caller, [made.id], **SIGNED)
        assert locate(watching, [made.id])[made.id].state == outcome.state
        assert len(acts_of(watching, made.id)) == earlier + 1


def test_what_the_caller_did_before_a_refusal_is_still_the_callers(shared_database, job_in) -> None:
    with shared_database.connect(autocommit=False) as caller:
        made, other = job_in(caller, "ready"), job_in(caller, "completed")
        cancel(caller, [other.id], **SIGNED)
        cancel(caller, [made.id], **SIGNED)
        assert caller.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
        caller.commit()
    with shared_database.connect() as watching:
        assert locate(watching, [made.id])[made.id].state == "cancelled"


def test_an_act_inside_a_block_of_the_callers_ends_with_the_block(shared_database, job_in) -> None:
    with shared_database.connect() as caller:
        made = job_in(caller, "ready")
        with suppress(ZeroDivisionError), caller.transaction():
            cancel(caller, [made.id], **SIGNED)
            _ = 1 / 0
        assert locate(caller, [made.id])[made.id].state == "ready"
        assert acts_of(caller, made.id) == []


# Any connection


def _into_kwargs(**columns: object) -> object:
    return columns


ROW_FACTORIES = {
    "tuples": tuple_row,
    "dicts": dict_row,
    "named tuples": namedtuple_row,
    "keywords": kwargs_row(_into_kwargs),
    "scalars": scalar_row,
}


@pytest.mark.parametrize("factory", ROW_FACTORIES.values(), ids=ROW_FACTORIES)
@pytest.mark.parametrize("kind", [psycopg.Connection, "client cursors"])
@pytest.mark.parametrize("autocommit", [False, True])
def test_acts_work_on_any_connection(
    shared_database, job_in, factory: Any, kind: Any, autocommit
) -> None:
    with psycopg.connect(shared_database.url, autocommit=autocommit, row_factory=factory) as caller:
        if kind == "client cursors":
            caller.cursor_factory = psycopg.ClientCursor
        for place, act in VERBS.values():
            made = job_in(caller, place)
            applied, refused = act(caller, [made.id, uuid.uuid4()], **SIGNED)
            assert (applied.applied, refused.why) == (True, "not_found")
            assert isinstance(applied.act_id, int)
            assert isinstance(applied.job_id, UUID)


@pytest.mark.parametrize("autocommit", [False, True])
def test_acts_work_inside_a_pipeline(shared_database, job_in, autocommit) -> None:
    with shared_database.connect(autocommit=autocommit) as caller:
        made = job_in(caller, "ready")
        caller.commit()
        with caller.pipeline():
            (outcome,) = cancel(caller, [made.id], **SIGNED)
            (refused,) = cancel(caller, [made.id], **SIGNED)
        assert (outcome.applied, refused.why) == (True, "wrong_state")
        caller.rollback()
        assert locate(caller, [made.id])[made.id].state == ("cancelled" if autocommit else "ready")
        assert len(acts_of(caller, made.id)) == int(autocommit)


# When others keep moving the job


@pytest.fixture
def elusive(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], None]]:
    """Give a function that lets the next looks find the job where the act applies, though the
    statement, which runs before, had found it gone."""

    def slip(times: int) -> None:
        left = [times]
        honest = places.locate

        def locate_elsewhere(conn, ids):
            found = honest(conn, ids)
            if not left[0]:
                return found
            left[0] -= 1
            return {
                job: places.Place(job, "needs_review", at.attempt, None, at.has_body)
                for job, at in found.items()
            }

        monkeypatch.setattr("queue_core.acts.locate", locate_elsewhere)

    return slip  # pyright: ignore[reportReturnType]


def test_a_job_that_keeps_slipping_is_contended_and_nothing_is_written(
    conn, job_in, contents, elusive
) -> None:
    caught, slippery = job_in(conn, "needs_review"), job_in(conn, "ready")
    before = contents(conn)
    elusive(LOOKS)
    with pytest.raises(ContendedError):
        release(conn, [caught.id, slippery.id], **SIGNED)
    assert contents(conn) == before


def test_a_job_that_slips_a_while_is_told_as_it_stands_in_the_end(conn, job_in, elusive) -> None:
    caught, slippery = job_in(conn, "needs_review"), job_in(conn, "ready")
    elusive(LOOKS - 1)
    outcomes = release(conn, [slippery.id, caught.id], **SIGNED)
    assert [(each.applied, each.why) for each in outcomes] == [(False, "wrong_state"), (True, None)]
    assert len(acts_of(conn, caught.id)) == 1


# Outcomes


def test_a_refusal_raises_when_asked_to_and_names_no_person(conn, job_in) -> None:
    made = job_in(conn, "completed")
    (refused,) = cancel(conn, [made.id], **SIGNED)
    with pytest.raises(TransitionRefusedError) as raised:
        refused.raise_if_refused()
    error = raised.value
    assert (error.job_id, error.act, error.why, error.state) == (
        made.id,
        "cancelled",
        "wrong_state",
        "completed",
    )
    assert str(made.id) in str(error)
    assert "completed" in str(error)
    assert "alice" not in str(error)


def test_an_applied_outcome_passes_through(conn, job_in) -> None:
    made = job_in(conn, "ready")
    (outcome,) = cancel(conn, [made.id], **SIGNED)
    assert outcome.raise_if_refused() is outcome


def test_a_refusal_for_a_missing_job_says_so(conn, registry) -> None:
    (refused,) = retry(conn, [uuid.uuid4()], **SIGNED)
    with pytest.raises(TransitionRefusedError, match="no such job"):
        refused.raise_if_refused()
