"""Whatever a handler raises becomes text that can be stored, without values of arguments."""

from typing import Any

import psycopg
import pydantic
import pytest

from queue_core.outcomes import MAX_ERROR_BYTES, MAX_TRACEBACK_BYTES, Failed
from queue_core.worker.describe import describe

CANARY = "canary-7c1e-do-not-repeat"


def throw(error: BaseException, cause: BaseException | None = None) -> None:
    if cause is not None:
        raise error from cause
    raise error


def described(error: BaseException, cause: BaseException | None = None) -> Failed:
    """Describe an error after it was really raised."""
    with pytest.raises(type(error)) as caught:
        throw(error, cause)
    return describe(caught.value)


def whole(failed: Failed) -> str:
    return "\n".join(
        text or ""
        for text in (failed.error, failed.error_type, failed.error_place, failed.traceback)
    )


def test_an_error_is_named_with_its_text_type_and_place():
    failed = described(ValueError("no such address"))
    assert failed.error == "ValueError: no such address"
    assert failed.error_type == "ValueError"
    assert failed.error_place == f"{__name__}:throw"
    assert "raise error" in (failed.traceback or "")
    assert (failed.outcome, failed.retryable) == ("failed", True)


class OddError(Exception):
    pass


def test_a_type_of_ones_own_is_named_with_its_module():
    assert described(OddError()).error == "OddError"
    assert described(OddError()).error_type == f"{__name__}.OddError"


def test_the_place_is_the_innermost_frame():
    def outer():
        def inner():
            return 1 / 0

        return inner()

    with pytest.raises(ZeroDivisionError) as caught:
        outer()
    assert (describe(caught.value).error_place or "").endswith("outer.<locals>.inner")


def test_locals_are_not_shown():
    def handler(address: str) -> None:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused") as caught:
        handler(CANARY)
    assert CANARY not in (describe(caught.value).traceback or "")


def test_causes_are_shown_before_what_they_led_to():
    told = described(ValueError("second"), KeyError("first")).traceback or ""
    assert told.index("KeyError: 'first'") < told.index("direct cause") < told.index("second")


def test_a_suppressed_context_is_not_shown():
    second = ValueError("second")
    second.__context__ = KeyError("first")
    assert "first" in (described(second).traceback or "")
    second.__suppress_context__ = True
    assert "first" not in (described(second).traceback or "")


def test_causes_that_go_in_a_circle_end():
    one, two = ValueError("one"), KeyError("two")
    one.__cause__, two.__cause__ = two, one
    assert "two" in (described(one).traceback or "")


def test_groups_and_notes_are_shown():
    group = ExceptionGroup("both", [ValueError("left"), ExceptionGroup("in", [KeyError("right")])])
    group.add_note("seen on Monday")
    told = described(group).traceback or ""
    assert all(text in told for text in ("left", "right", "seen on Monday"))


def test_a_group_of_groups_without_end_ends():
    group = ExceptionGroup("leaf", [ValueError("x")])
    for _ in range(200):
        group = ExceptionGroup("in", [group])
    assert described(group).error.startswith("ExceptionGroup: in")


class TextRaisesError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class TextExitsError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class NoTextError(Exception):
    def __str__(self) -> Any:
        return 3  # noqa: PLE0307


class Sly(str):
    __slots__ = ()

    def __getitem__(self, key: Any) -> str:
        raise RuntimeError("no slice")

    def __format__(self, spec: str) -> str:
        raise RuntimeError("no format")

    def encode(self, encoding: str = "", errors: str = "") -> bytes:
        del encoding, errors
        raise RuntimeError("no bytes")


class SlyError(Exception):
    def __str__(self) -> str:
        return Sly("sly")


class Unnameable(type):
    @property
    def __name__(cls) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise RuntimeError("no name")


class NamelessError(Exception, metaclass=Unnameable):
    pass


class BadNotesError(Exception):
    __notes__ = 3  # pyright: ignore[reportAssignmentType]


class BadOrigError(Exception):
    @property
    def orig(self) -> object:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "error",
    [
        TextRaisesError(),
        TextExitsError(),
        NoTextError(),
        SlyError(),
        NamelessError("x"),
        BadNotesError("x"),
        BadOrigError("x"),
        ValueError("a\0b"),
        ValueError("\ud800"),
        ValueError("x" * 5_000_000),
        ValueError("é" * 1_000),
        ValueError(),
        SystemExit(3),
        KeyboardInterrupt(),
        GeneratorExit(),
        MemoryError(),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        SyntaxError("invalid", ("f.py", None, None, None)),
    ],
    ids=lambda error: type(error).__dict__.get("__qualname__", "error"),
)
def test_a_hostile_exception_is_described_within_the_limits(error):
    failed = described(error)
    assert 0 < len(failed.error.encode()) <= MAX_ERROR_BYTES
    assert len((failed.traceback or "").encode()) <= MAX_TRACEBACK_BYTES
    assert "\0" not in whole(failed)
    assert failed.traceback is not None


def test_a_recursion_without_end_is_described():
    def handler(n: int) -> int:
        return handler(n + 1)

    with pytest.raises(RecursionError) as caught:
        handler(0)
    failed = describe(caught.value)
    assert failed.error.startswith("RecursionError")
    assert len((failed.traceback or "").encode()) <= MAX_TRACEBACK_BYTES


def test_what_the_database_says_of_values_is_left_out(conn):
    conn.execute("CREATE TEMPORARY TABLE people (address text CONSTRAINT people_once UNIQUE)")
    conn.execute("INSERT INTO people VALUES (%s)", [CANARY])
    with pytest.raises(psycopg.Error) as caught:
        conn.execute("INSERT INTO people VALUES (%s)", [CANARY])
    assert CANARY in str(caught.value)
    wrapped = described(RuntimeError("the row was not stored"), caught.value)
    plain = describe(caught.value)
    assert plain.error == "UniqueViolation: SQLSTATE 23505, constraint people_once, table people"
    assert "people_once" in (wrapped.traceback or "")
    assert CANARY not in whole(plain) + whole(wrapped)


def test_what_a_wrapper_of_the_driver_adds_is_left_out(conn):
    class WrapperError(Exception):
        orig: object = None

    with pytest.raises(psycopg.Error) as caught:
        conn.execute("SELECT %s::integer", [CANARY])
    error = WrapperError(f"[parameters: {CANARY}]")
    error.orig = caught.value
    assert CANARY not in whole(described(error))
    assert "22P02" in described(error).error


def test_what_pydantic_says_of_values_is_left_out():
    class Address(pydantic.BaseModel):
        street: int
        lines: dict[str, int]

    with pytest.raises(pydantic.ValidationError) as caught:
        Address.model_validate({"street": CANARY, "lines": {CANARY: CANARY}})
    assert CANARY in str(caught.value)
    failed = describe(caught.value)
    assert failed.error == "ValidationError: street (int_parsing), lines (int_parsing)"
    assert CANARY not in whole(failed)
