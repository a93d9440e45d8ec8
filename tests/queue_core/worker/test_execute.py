"""One run in a child: every way to end becomes its own value, of plain handlers and async ones."""

import asyncio
import functools
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import pytest

from queue_core import PermanentError, Registry, RetryAfter, Run, Stopped, outcomes
from queue_core.outcomes import MAX_RESULT_BYTES, Completed, Deferred, Ending, Failed, Unreadable
from queue_core.run import StopRequest
from queue_core.worker import execute as module
from queue_core.worker.execute import NOT_JSON, TOO_LARGE, execute, execute_async
from queue_core.worker.messages import JobMessage

JOB = uuid.uuid4()
IS_ASYNC = False


@pytest.fixture(autouse=True, params=["plain", "async"])
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test twice: with plain handlers, and with the same ones as async ones."""
    monkeypatch.setattr(sys.modules[__name__], "IS_ASYNC", request.param == "async")


def executed(job: JobMessage, registry: Registry) -> Ending:
    return asyncio.run(execute_async(job, registry)) if IS_ASYNC else execute(job, registry)


def handling(function: Any) -> Any:
    """Return a handler that does what `function` does, in the way of this test."""

    @functools.wraps(function)
    async def handler(*args: Any, **values: Any) -> object:
        await asyncio.sleep(0)
        return function(*args, **values)

    return handler if IS_ASYNC else function


def ran(function: Any, args: str = "{}", around: Any = None, asked: Any = None) -> Ending:
    """Execute one run of a handler, which may be asked to stop."""
    registry = Registry()
    name = f"test.{uuid.uuid4()}"  # a registry lives on in the frames of what its handlers raised
    registry.job(name)(handling(function))
    if around:
        registry.around(around)
    return executed(JobMessage(JOB, name, 2, args, StopRequest(asked)), registry)


def failed(function: Any, args: str = "{}", around: Any = None) -> Failed:
    ending = ran(function, args, around)
    assert isinstance(ending, Failed)
    return ending


def test_a_handler_gets_its_run_and_its_arguments_converted():
    def handler(run: Run, to: uuid.UUID, times: int = 1) -> list[object]:
        return [str(run.id), run.key, run.attempt, type(to).__name__, times]

    expected = f'["{JOB}","{JOB}",2,"UUID",1]'
    assert ran(handler, f'{{"to": "{JOB}"}}') == Completed(expected)


def returning(value: object) -> Any:
    def handler(run: Run) -> object:
        return value

    return handler


def test_nothing_returned_is_no_result():
    assert ran(returning(None)) == Completed(None)


def test_arguments_that_are_not_json_are_unreadable():
    for text in ("{", "[]", "3", '{"a": ' + "1" * 5_000 + "}", '{"a": ' * 2_000):
        assert isinstance(ran(returning(None), text), Unreadable)


def test_arguments_that_do_not_fit_fail_for_good_naming_the_field_and_no_value():
    def handler(run: Run, times: int) -> None: ...

    ending = failed(handler, '{"times": "canary-7c1e-do-not-repeat", "other": 1}')
    assert not ending.retryable
    assert "times: must be a whole number" in ending.error
    assert "other" in ending.error
    assert "canary" not in repr(ending) + ending.error + (ending.traceback or "")


def test_an_error_may_be_tried_again_and_a_permanent_one_not():
    def wrong(run: Run) -> None:
        raise ValueError("x")

    def closed(run: Run) -> None:
        raise PermanentError("x")

    assert failed(wrong).retryable
    assert not failed(closed).retryable


def test_the_traceback_begins_with_the_handler():
    def wrong(run: Run) -> None:
        raise ValueError("x")

    told = failed(wrong).traceback or ""
    assert "in wrong" in told
    assert "worker/execute.py" not in told
    assert (failed(wrong).error_place or "").endswith("wrong")


def test_retry_after_sets_the_wait():
    def later(run: Run) -> None:
        raise RetryAfter(7.5)

    assert failed(later).retry_after == 7.5


def test_a_retry_after_that_was_never_made_properly_is_a_plain_failure():
    class OddError(RetryAfter):
        def __init__(self) -> None:
            pass

    def odd(run: Run) -> None:
        raise OddError

    ending = failed(odd)
    assert ending.retry_after is None
    assert ending.retryable


def test_a_deferred_run_carries_its_delay():
    def handler(run: Run) -> None:
        with suppress(Exception):  # does not stop it
            run.defer(30)

    assert ran(handler) == Deferred(30.0)


@pytest.mark.parametrize("why", ["cancelled", "shutdown"])
def test_a_run_that_stops_as_it_was_asked_to_says_how_far_it_came(why):
    def handler(run: Run) -> None:
        with suppress(Exception):  # does not stop it
            if run.stop_requested() == why:
                raise Stopped("3 of 10")

    assert ran(handler, asked=why) == outcomes.Stopped("Stopped: 3 of 10")


def test_a_run_that_stops_though_nobody_asked_has_failed():
    def handler(run: Run) -> None:
        assert run.stop_requested() is None
        raise Stopped

    ending = failed(handler)
    assert (ending.error, ending.retryable) == ("Stopped", True)


def test_a_run_that_was_asked_to_stop_may_still_end_in_any_other_way():
    assert ran(returning(7), asked="cancelled") == Completed("7")

    def handler(run: Run) -> None:
        raise ValueError("x")

    assert isinstance(ran(handler, asked="shutdown"), Failed)


@pytest.mark.parametrize("error", [SystemExit(0), KeyboardInterrupt(), GeneratorExit(),
                                   MemoryError(), RecursionError()])  # fmt: skip
def test_what_would_end_a_process_only_fails_the_run(error):
    def handler(run: Run) -> None:
        raise error

    assert failed(handler).error.startswith(type(error).__name__)


@pytest.mark.parametrize(
    "value", [{1, 2}, float("nan"), {"a": float("inf")}, b"x", {(1, 2): 3}, 10**5_000, object()],
    ids=["set", "nan", "inf", "bytes", "tuple key", "digits", "object"],
)  # fmt: skip
def test_a_result_that_is_not_json_fails_for_good(value):
    ending = failed(returning(value))
    assert (ending.error, ending.retryable) == (NOT_JSON, False)


def test_results_that_fight_back_are_not_json():
    class Loud(dict[str, int]):
        def items(self) -> Any:
            raise KeyError("no items")

    circle: list[object] = []
    circle.append(circle)
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    for value in (Loud(a=1), circle, deep):
        assert failed(returning(value)).error == NOT_JSON


def test_a_result_of_64_kib_fits_and_one_byte_more_does_not():
    assert ran(returning("x" * (MAX_RESULT_BYTES - 2))) == Completed(f'"{"x" * 65_534}"')
    ending = failed(returning("x" * (MAX_RESULT_BYTES - 1)))
    assert (ending.error, ending.retryable) == (TOO_LARGE, False)


def test_what_postgres_cannot_store_in_a_result_is_replaced_and_nothing_else(conn):
    value = {"a\0": ["\ud800", "\\u0000", "\U0001f600", 1.5, None, True, "\udc00\ud83d"]}
    ending = ran(returning(value))
    assert isinstance(ending, Completed)
    stored = conn.execute("SELECT %s::jsonb AS value", [ending.result]).fetchone()
    first, *others, last = stored["value"]["a\ufffd"]
    assert others == ["\\u0000", "\U0001f600", 1.5, None, True]
    assert set(first + last) == {"\ufffd"}


def test_context_managers_nest_round_each_run_the_first_outermost():
    seen: list[str] = []

    def manager(name: str) -> Any:
        @contextmanager
        def enter() -> Iterator[None]:
            seen.append(f"enter {name}")
            yield
            seen.append(f"leave {name}")

        return enter

    registry = Registry()

    def handler(run: Run) -> None:
        seen.append("run")

    registry.job("test.around")(handling(handler))
    registry.around(manager("a"))
    registry.around(manager("b"))
    assert executed(JobMessage(JOB, "test.around", 1, "{}"), registry) == Completed()
    assert seen == ["enter a", "enter b", "run", "leave b", "leave a"]


def test_a_failure_of_a_context_manager_fails_the_run():
    @contextmanager
    def around() -> Iterator[None]:
        yield
        raise OSError("could not commit")

    assert failed(returning(3), around=around).error == "OSError: could not commit"


def test_a_context_manager_cannot_make_a_failure_disappear():
    def wrong(run: Run) -> None:
        raise ValueError("x")

    assert failed(wrong, around=lambda: suppress(ValueError)).error == "ValueError: x"


def test_a_name_without_a_handler_here_fails_for_good():
    ending = executed(JobMessage(JOB, "test.nobody", 1, "{}"), Registry())
    assert isinstance(ending, Failed)
    assert not ending.retryable


def test_a_result_that_takes_all_memory_is_too_large(monkeypatch):
    def exhausted(result: object) -> str:
        raise MemoryError

    monkeypatch.setattr(module, "_encode", exhausted)
    assert failed(returning(3)).error == TOO_LARGE


def test_an_async_context_manager_goes_round_async_handlers_alone():
    seen: list[str] = []

    @asynccontextmanager
    async def around() -> AsyncIterator[None]:
        await asyncio.sleep(0)
        seen.append("enter")
        yield
        seen.append("leave")

    if IS_ASYNC:
        assert ran(returning(3), around=around) == Completed("3")
        assert seen == ["enter", "leave"]
    else:
        assert "context manager" in failed(returning(3), around=around).error
        assert seen == []


def test_a_run_that_is_cancelled_leaves_its_context_managers():
    seen: list[str] = []

    @contextmanager
    def around() -> Iterator[None]:
        try:
            yield
        finally:
            seen.append("left")

    def handler(run: Run) -> None:
        raise asyncio.CancelledError

    assert failed(handler, around=around).error == "CancelledError"
    assert seen == ["left"]


def test_a_run_that_is_cancelled_at_its_await_has_stopped_if_its_job_was_cancelled():
    def handler(run: Run) -> None:
        raise asyncio.CancelledError

    assert ran(handler, asked="cancelled") == outcomes.Stopped("CancelledError")
    for why in ("shutdown", "stopped", None):
        assert isinstance(ran(handler, asked=why), Failed)
