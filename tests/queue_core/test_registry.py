"""The registry: what a handler may look like, what fits its arguments, and how it is found."""

import dataclasses
import functools
import gc
import typing
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, Field, field_validator
from pydantic_core import PydanticCustomError

from queue_core import (
    ArgumentsError,
    NewJob,
    OptionError,
    PermanentError,
    Registry,
    RetryAfter,
    Run,
)
from queue_core.errors import DeclarationError, UnknownNameError
from queue_core.jobs import LONGEST_SECONDS, TEXTS
from queue_core.registry import _REGISTRIES, find
from queue_core.rules import Schedule
from queue_core.run import DeferRun
from tests.conftest import CANARY


@pytest.fixture
def jobs() -> Iterator[Registry]:
    """Give an empty registry, and forget it even where a failed test's traceback holds it."""
    registry = Registry()
    yield registry
    _REGISTRIES.discard(registry)


def call(jobs: Registry, args: dict[str, Any]) -> Any:
    """Call the handler of `a.job` as a run does."""
    handler = jobs.handlers["a.job"]
    assert handler.function
    return handler.function("the run", **handler.validate(args))


# What a handler may look like


class Order(BaseModel):
    number: int
    note: str = ""


@dataclasses.dataclass
class Point:
    x: int


class Service:
    def __init__(self, name: str) -> None:
        self.name = name

    def send(self, run: Any, address: str) -> Any:
        return self.name, run, address

    @classmethod
    def send_all(cls, run: Any, address: str) -> Any:
        return cls.__name__, run, address

    @staticmethod
    def send_none(run: Any, address: str) -> Any:
        return run, address

    def __call__(self, run: Any, address: str) -> Any:
        return run, address


def plain(run: Any, address: str, copies: int = 1, *, urgent: bool = False) -> Any:
    return run, address, copies, urgent


@functools.wraps(plain)
def wrapped(*args: Any, **options: Any) -> Any:
    return plain(*args, **options)


def later(run: "Run", order: "Order", at: "datetime | None" = None) -> Any:
    return run, order.number, at


def bare(run, a, b=None):
    return run, a, b


def any_name(run, json, _x, model_config, self, schema=4, copy=5):
    return run, json, _x, model_config, self, schema, copy


def open_ended(run: Any, /, a: int = 0, **rest: Any) -> Any:
    return run, a, rest


def only_run(run: Any, /) -> Any:
    return run


def before(prefix: str, run: Any, a: int) -> Any:
    return prefix, run, a


SERVICE = Service("post")
HANDLERS: dict[str, tuple[Callable[..., object], dict[str, Any], Any]] = {
    "defaults left out": (plain, {"address": "a"}, ("the run", "a", 1, False)),
    "keyword-only": (
        plain,
        {"address": "a", "copies": "2", "urgent": True},
        ("the run", "a", 2, True),
    ),
    "no annotations": (bare, {"a": [1, {"b": None}]}, ("the run", [1, {"b": None}], None)),
    "annotations in quotes": (
        later,
        {"order": {"number": 7}, "at": "2026-01-01T00:00:00Z"},
        ("the run", 7, datetime.fromisoformat("2026-01-01T00:00:00+00:00")),
    ),
    "names that a model could not have": (
        any_name,
        {"json": 0, "_x": 1, "model_config": 2, "self": 3, "schema": 9},
        ("the run", 0, 1, 2, 3, 9, 5),
    ),
    "any further arguments": (
        open_ended,
        {"a": 1, "": 2, "run": 3, "argument_0": 4, "%s": 5, "__class__": 6},
        ("the run", 1, {"": 2, "run": 3, "argument_0": 4, "%s": 5, "__class__": 6}),
    ),
    "none but the run": (only_run, {}, "the run"),
    "a lambda": (lambda run, a=1: (run, a), {"a": 2}, ("the run", 2)),
    "a method": (SERVICE.send, {"address": "a"}, ("post", "the run", "a")),
    "a class method": (Service.send_all, {"address": "a"}, ("Service", "the run", "a")),
    "a static method": (Service.send_none, {"address": "a"}, ("the run", "a")),
    "an object": (SERVICE, {"address": "a"}, ("the run", "a")),
    "a partial": (functools.partial(before, "dear"), {"a": "3"}, ("dear", "the run", 3)),
    "a partial by name": (
        functools.partial(plain, copies=8),
        {"address": "a"},
        ("the run", "a", 8, False),
    ),
    "wrapped": (wrapped, {"address": "a"}, ("the run", "a", 1, False)),
}


@pytest.mark.parametrize(("handler", "args", "seen"), HANDLERS.values(), ids=HANDLERS)
def test_a_handler_gets_the_run_and_its_arguments(jobs, handler, args, seen) -> None:
    assert jobs.job("a.job")(handler) is handler
    assert call(jobs, args) == seen
    assert find(handler).name == "a.job"
    assert find("a.job").function == handler


def test_a_method_is_found_though_it_is_a_new_object_each_time_it_is_named(jobs) -> None:
    jobs.job("a.job")(SERVICE.send)
    assert SERVICE.send is not SERVICE.send
    assert find(SERVICE.send).name == "a.job"
    with pytest.raises(UnknownNameError):
        find(Service("another").send)


def nothing() -> None: ...
def only_keywords(*, run: Any) -> None: ...
def only_many(*run: Any) -> None: ...
def many(run: Any, *rest: Any) -> None: ...
def by_place(run: Any, a: int, /) -> None: ...
def unknown_type(run: Any, a: "Nowhere") -> None: ...  # noqa: F821 # pyright: ignore[reportUndefinedVariable]
def unknown_part(run: Any, a: "typing.Nowhere") -> None: ...  # pyright: ignore[reportAttributeAccessIssue]
def torn(run, a): ...
def dividing(run: Any, a: "1 / 0") -> None: ...  # pyright: ignore[reportInvalidTypeForm]


torn.__annotations__["a"] = "list["


@pytest.mark.parametrize(
    "handler",
    [
        nothing,
        only_keywords,
        only_many,
        many,
        by_place,
        unknown_type,
        unknown_part,
        torn,
        dividing,
        5,
        None,
        print,
    ],
    ids=lambda handler: getattr(handler, "__name__", repr(handler)),
)
def test_what_cannot_be_called_with_a_run_and_names_is_refused_at_declaration(
    jobs, handler
) -> None:
    with pytest.raises(DeclarationError, match=r"'a\.job'"):
        jobs.job("a.job")(handler)
    assert jobs.handlers == {}


def test_a_signature_that_cannot_be_checked_is_refused_at_declaration(jobs) -> None:
    def impossible(run: Any, a: Annotated[int, Field(pattern="[")]) -> None:
        del run, a

    with pytest.raises(DeclarationError, match="cannot be checked"):
        jobs.job("a.job")(impossible)


def test_the_runs_own_name_is_no_argument_of_a_handler_that_takes_any(jobs) -> None:
    @jobs.job("a.job")
    def take(job: Any, **rest: Any) -> Any:
        return job, rest

    with pytest.raises(ArgumentsError) as refused:
        call(jobs, {"job": 1})
    assert refused.value.fields == {"job": "is not a parameter of the handler"}
    assert call(jobs, {"run": 2, "jobs": 3}) == ("the run", {"run": 2, "jobs": 3})


def test_defaults_are_the_handlers_own_objects_left_to_it(jobs) -> None:
    marker = object()

    @jobs.job("a.job")
    def take(run: Any, a: Any = marker) -> Any:
        return a

    assert call(jobs, {}) is marker


# What fits


def test_arguments_become_what_the_annotations_say(jobs) -> None:
    @jobs.job("a.job")
    def take(
        run,
        order: Order,
        point: Point,
        key: UUID,
        price: Decimal,
        pair: tuple[int, str],
        kind: Literal["a"],
    ):
        return order, point, key, price, pair, kind

    key = uuid.uuid4()
    args = {
        "order": {"number": "7"},
        "point": {"x": 1},
        "key": str(key),
        "price": "1.20",
        "pair": [1, "b"],
        "kind": "a",
    }
    assert call(jobs, args) == (Order(number=7), Point(1), key, Decimal("1.20"), (1, "b"), "a")


def test_every_argument_that_does_not_fit_is_named_at_once_without_its_value(jobs) -> None:
    @jobs.job("a.job")
    def take(
        run: Any,
        a: int,
        b: str,
        c: Literal["x"],
        d: Order,
        e: float,
        f: UUID,
        g: list[int],
        h: UUID,
    ) -> None: ...

    args = {
        "a": CANARY,
        "b": 1,
        "c": CANARY,
        "d": {CANARY: CANARY},
        "e": float("nan"),
        "f": CANARY,
        "g": {CANARY: 1},
        CANARY[:6]: CANARY,
    }
    with pytest.raises(ArgumentsError) as refused:
        jobs.handlers["a.job"].validate(args)
    assert refused.value.fields == {
        "a": "must be a whole number",
        "b": "must be text",
        "c": "must be one of the values that the handler allows",
        "d": "is missing",
        "e": "must be a finite number",
        "f": "must be a UUID",
        "g": "must be a list",
        "h": "is missing",
        "canary": "is not a parameter of the handler",
    }
    assert CANARY not in str(refused.value) + repr(refused.value)
    assert refused.value.__suppress_context__


class Quoting(BaseModel):
    raises: str

    @field_validator("raises")
    @classmethod
    def check(cls, value: str) -> str:
        match value:
            case "ValueError":
                raise ValueError(CANARY)
            case "AssertionError":
                raise AssertionError(CANARY)
            case "KeyError":
                raise KeyError(CANARY)
            case "OSError":
                raise OSError(2, CANARY, CANARY)
            case "RecursionError":
                return cls.check(value)
            case _:
                raise PydanticCustomError(CANARY, CANARY, {"value": CANARY})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("raises", "field", "fault"),
    [
        ("ValueError", "thing", "is refused by the handler's own check"),
        ("AssertionError", "thing", "is refused by the handler's own check"),
        ("custom", "thing", "is refused by the handler's own check"),
        ("KeyError", "", "its own check failed with KeyError"),
        ("OSError", "", "its own check failed with FileNotFoundError"),
        ("RecursionError", "", "its own check failed with RecursionError"),
    ],
)
def test_a_check_of_the_handlers_own_cannot_give_the_value_away(jobs, raises, field, fault) -> None:
    @jobs.job("a.job")
    def take(run: Any, thing: Quoting) -> None: ...

    with pytest.raises(ArgumentsError) as refused:
        jobs.handlers["a.job"].validate({"thing": {"raises": raises}})
    assert refused.value.fields == {field: fault}
    assert CANARY not in str(refused.value)
    assert refused.value.__suppress_context__


def test_a_field_is_named_by_its_first_part_alone_since_what_follows_may_be_a_value(jobs) -> None:
    @jobs.job("a.job")
    def take(run: Any, prices: dict[str, int]) -> None: ...

    with pytest.raises(ArgumentsError) as refused:
        jobs.handlers["a.job"].validate({"prices": {CANARY: "x", "other": "y"}})
    assert refused.value.fields == {"prices": "must be a whole number"}


def test_rules_of_an_annotation_hold(jobs) -> None:
    @jobs.job("a.job")
    def take(run: Any, copies: Annotated[int, Field(gt=0, alias="count")]) -> Any:
        return copies

    assert call(jobs, {"copies": 1}) == 1
    for args in ({"copies": 0}, {"count": 1}):
        with pytest.raises(ArgumentsError):
            call(jobs, args)


# Declaring and finding


def test_a_name_registered_again_has_the_new_handler(jobs) -> None:
    jobs.job("a.job", queue="old", attempts=3)(plain)
    jobs.job("a.job")(bare)
    handler = find("a.job")
    assert (handler.function, handler.queue, handler.attempts) == (bare, "default", 1)
    assert jobs.handled() == ["a.job"]
    with pytest.raises(UnknownNameError):
        find(plain)


def test_one_name_in_two_registries_is_refused_and_the_first_one_stays(jobs) -> None:
    jobs.job("a.job")(plain)
    other = Registry()
    with pytest.raises(DeclarationError, match="another registry"):
        other.job("a.job")(bare)
    with pytest.raises(DeclarationError, match="another registry"):
        other.declare("a.job", schema=Order)
    assert other.handlers == {}
    assert find("a.job").function is plain


def test_names_of_all_registries_are_found_until_a_registry_is_gone(jobs) -> None:
    other = Registry()
    jobs.job("a.job")(plain)
    other.job("b.job")(bare)
    assert (find("a.job").function, find("b.job").function) == (plain, bare)
    del other
    gc.collect()
    with pytest.raises(UnknownNameError):
        find("b.job")


def test_an_unknown_name_is_answered_with_the_nearest(jobs) -> None:
    for name in ("mail.send", "mail.bounce", "log.rotate"):
        jobs.job(name)(bare)
    with pytest.raises(UnknownNameError, match=r"did you mean 'mail\.send'") as unknown:
        find("mail.sned")
    assert (unknown.value.name, unknown.value.nearest[0]) == ("mail.sned", "mail.send")
    with pytest.raises(UnknownNameError, match=r"under the name 'x'$"):
        find("x")


@pytest.mark.parametrize(
    "job", [bare, None, 7, b"mail.send", Order, CANARY], ids=lambda job: type(job).__name__
)
def test_what_nobody_declared_is_unknown_whatever_it_is(jobs, job: Any) -> None:
    jobs.job("a.job")(plain)
    jobs.declare("b.job", schema=Order)  # has no function: None must not find it
    with pytest.raises(UnknownNameError):
        find(job)


def test_a_job_handled_elsewhere_is_checked_against_its_schema(jobs) -> None:
    jobs.declare("b.job", schema=Order, queue="far")
    handler = find("b.job")
    assert (handler.function, handler.queue, jobs.handled()) == (None, "far", [])
    assert handler.validate({"number": 1}) == {"number": 1}
    with pytest.raises(ArgumentsError) as refused:
        handler.validate({"note": CANARY})
    assert refused.value.fields == {"number": "is missing"}


@pytest.mark.parametrize("schema", [dict, None, Order(number=1), "Order", Point], ids=repr)
def test_a_schema_has_to_be_a_model(jobs, schema: Any) -> None:
    with pytest.raises(DeclarationError, match="model"):
        jobs.declare("b.job", schema=schema)


BAD_OPTIONS: list[dict[str, Any]] = [
    *({"attempts": attempts} for attempts in (0, -1, True, 1.0, None, 10**9, "1")),
    *(
        {"time_limit": limit}
        for limit in (0, -1, float("nan"), float("inf"), "5", True, LONGEST_SECONDS + 1)
    ),
    *({"on_lost": on_lost} for on_lost in ("", "never", 5, [], False)),
    *({"queue": queue} for queue in ("", " ", "x" * 201, "a\n", None, 7)),
    *({text: bad} for text in TEXTS for bad in ("", " \n", "x" * 501, "a\0", "\u202ea", 7)),
]


@pytest.mark.parametrize("options", BAD_OPTIONS, ids=lambda options: ascii(options)[:30])
def test_a_bad_option_is_refused_at_declaration(jobs, options: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError):
        jobs.job("a.job", **options)(plain)
    assert jobs.handlers == {}


def test_what_people_read_before_they_decide_may_be_said_of_a_job(jobs) -> None:
    texts = {text: f"{text}, on\ntwo lines" for text in TEXTS}
    jobs.job("a.job", **texts)(plain)
    assert {text: getattr(jobs.handlers["a.job"], text) for text in TEXTS} == texts


@pytest.mark.parametrize(
    "name", ["", " ", "x" * 201, "a\nb", "a\0b", "a\u202eb", None, 7], ids=ascii
)
def test_a_bad_name_is_refused_at_declaration(jobs, name: Any) -> None:
    with pytest.raises(DeclarationError):
        jobs.job(name)(plain)
    with pytest.raises(DeclarationError):
        jobs.declare(name, schema=Order)
    assert jobs.handlers == {}


def test_what_becomes_of_lost_runs_is_the_registrys_unless_a_job_says_otherwise() -> None:
    careful = Registry(on_lost="review")
    careful.job("a.job")(plain)
    careful.job("b.job", on_lost="attempts")(bare)
    carefree = Registry()
    carefree.job("c.job")(later)
    assert [find(name).on_lost for name in ("a.job", "b.job", "c.job")] == [
        "review",
        "attempts",
        "attempts",
    ]
    for bad in ("", "never", None, []):
        with pytest.raises(DeclarationError):
            Registry(on_lost=bad)  # pyright: ignore[reportArgumentType]


def test_handlers_are_given_as_a_copy(jobs) -> None:
    jobs.job("b.job")(plain)
    jobs.job("a.job")(bare)
    jobs.handlers.clear()
    assert jobs.handled() == ["a.job", "b.job"]


def test_context_managers_round_a_run_are_kept_outermost_first(jobs) -> None:
    @jobs.around
    @contextmanager
    def outer():
        yield

    assert jobs.around(nullcontext) is nullcontext
    assert jobs.arounds == (outer, nullcontext)


# The run, and what a handler may raise


def test_the_key_of_a_run_is_the_same_at_every_attempt() -> None:
    job = uuid.uuid4()
    first, second = Run(job, "a.job", 1), Run(job, "a.job", 2)
    assert first.key == second.key == str(job)
    assert (first.attempt, second.attempt) == (1, 2)


@pytest.mark.parametrize("delay", [0, 0.5, LONGEST_SECONDS])
def test_a_run_puts_its_job_back_past_a_handlers_own_except(delay: float) -> None:
    run = Run(uuid.uuid4(), "a.job", 1)

    def handler() -> None:
        with suppress(Exception):
            run.defer(delay)

    with pytest.raises(DeferRun) as put_back:
        handler()
    assert put_back.value.seconds == delay


DURATIONS = [-1, -1e-9, float("nan"), float("inf"), LONGEST_SECONDS + 1, True, None, "5"]


@pytest.mark.parametrize("delay", DURATIONS)
def test_a_run_cannot_be_put_back_for_no_time_at_all(delay: Any) -> None:
    with pytest.raises(OptionError):
        Run(uuid.uuid4(), "a.job", 1).defer(delay)
    with pytest.raises(OptionError):
        RetryAfter(delay)


def test_a_handler_says_when_to_try_again_and_why() -> None:
    assert (RetryAfter(0).seconds, str(RetryAfter(90))) == (0, "try again in 90 s")
    assert str(RetryAfter(90, "they are closed")) == "they are closed"
    assert issubclass(PermanentError, Exception)


# Schedules


def addressed(run: Any, address: str = "") -> None:
    del run, address


@pytest.mark.parametrize(
    ("units", "seconds"),
    [
        ({"seconds": 1}, 1.0),
        ({"seconds": 1.5}, 1.5),
        ({"minutes": 5}, 300.0),
        ({"hours": 24}, 86_400.0),
        ({"days": 1, "hours": 1, "minutes": 1, "seconds": 1}, 90_061.0),
        ({"minutes": 0.5}, 30.0),
    ],
    ids=str,
)
def test_an_interval_is_the_sum_of_its_units(jobs, units, seconds) -> None:
    jobs.job("a.job")(addressed)
    jobs.every("often", **units, job=NewJob("a.job"))
    (schedule,) = jobs.schedules
    assert schedule.every == seconds


@pytest.mark.parametrize(
    "declared",
    [
        {},
        {"seconds": 0.999},
        {"seconds": 0},
        {"seconds": -1, "minutes": 1},
        {"seconds": float("nan")},
        {"days": 3_661},
        {"hours": True},
        {"hours": "1"},
        {"hours": 1, "first_at": datetime(2026, 1, 1)},  # noqa: DTZ001 - refused
        {"hours": 1, "first_at": datetime(1969, 1, 1, tzinfo=UTC)},
        {"hours": 1, "first_at": "2026-01-01T00:00:00Z"},
        {"hours": 1, "name": ""},
        {"hours": 1, "name": "x" * 201},
        {"hours": 1, "name": "a\nb"},
        {"hours": 1, "name": 7},
    ],
    ids=str,
)
def test_a_schedule_that_cannot_be_kept_is_refused_when_it_is_declared(jobs, declared) -> None:
    options = {"name": "often", "job": NewJob("a.job")} | declared
    with pytest.raises(DeclarationError, match=r"^schedule "):
        jobs.every(options.pop("name"), **options)
    assert jobs.schedules == ()


def test_a_schedules_name_is_declared_once_in_a_process(jobs) -> None:
    jobs.job("a.job")(addressed)
    jobs.every("x" * 200, hours=1, job=NewJob("a.job"))
    other = Registry()
    for registry in (jobs, other):
        with pytest.raises(DeclarationError, match="in this process already"):
            registry.every("x" * 200, hours=2, job=NewJob("a.job"))
    assert [each.every for each in jobs.schedules] == [3_600.0]


def test_a_schedules_job_may_be_declared_after_it_and_elsewhere(jobs) -> None:
    jobs.every("often", hours=1, job=NewJob("a.job"))
    jobs.every("seldom", days=1, job=NewJob("b.job", {"number": "7"}, queue="own"))
    with pytest.raises(UnknownNameError, match=r"'a\.job'"):
        jobs.schedules  # noqa: B018 - it checks
    jobs.job("a.job", queue="mails")(addressed)
    other = Registry()
    other.declare("b.job", schema=Order)
    assert [(each.job, each.queue) for each in jobs.schedules] == [
        ("a.job", "mails"), ("b.job", "own")
    ]  # fmt: skip


def test_a_schedules_arguments_have_to_fit_its_job(jobs) -> None:
    jobs.job("a.job")(addressed)
    jobs.every("often", hours=1, job=NewJob("a.job", {"address": 7, "extra": CANARY}))
    with pytest.raises(ArgumentsError) as raised:
        jobs.schedules  # noqa: B018 - it checks
    assert raised.value.fields.keys() == {"address", "extra"}
    assert CANARY not in str(raised.value)


def test_a_delay_or_a_time_of_a_schedules_job_is_ignored(jobs) -> None:
    jobs.job("a.job")(addressed)
    jobs.every("one", hours=1, job=NewJob("a.job", delay=60))
    jobs.every("two", hours=1, job=NewJob("a.job", run_at=datetime(2090, 1, 1, tzinfo=UTC)))
    one, two = jobs.schedules
    assert dataclasses.replace(one, name="two") == two
    assert one.fingerprint() == two.fingerprint()


@pytest.mark.parametrize(
    "change",
    [
        {"every": 7_200.0}, {"job": "b.job"}, {"queue": "q"}, {"args": "{}"}, {"priority": 1},
        {"attempts": 2}, {"time_limit": 1.0},
    ],
    ids=str,
)  # fmt: skip
def test_two_versions_of_a_schedule_are_told_apart(change) -> None:
    schedule = Schedule("often", 3_600.0, None, "a.job", "default", '{"a":1}')
    assert dataclasses.replace(schedule, **change).fingerprint() != schedule.fingerprint()
    first_at = datetime(2026, 1, 1, tzinfo=UTC)
    moved = dataclasses.replace(schedule, first_at=first_at)
    assert moved.fingerprint() == schedule.fingerprint()
