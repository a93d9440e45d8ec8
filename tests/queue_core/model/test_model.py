"""All transitions, from two connections at once, beside a model of the design in plain Python."""

import os
from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from pydantic import BaseModel

from queue_core import Registry, check
from queue_core.registry import _REGISTRIES  # pyright: ignore[reportPrivateUsage]
from queue_core.states import MARKS, MOVES
from tests.queue_core.model import machine

QUARTER, QUARTERS = (500, 4) if "CI" in os.environ else (250, 1)
"""Two thousand examples where it is decided what lands; elsewhere 250, each time new."""
TRIES, MORE = 5, 100
"""So many more examples, at most four times, where some move has not come up by chance."""
SHRINKS = [Phase.shrink] if "SHRINK" in os.environ else []
"""Making what fails small takes minutes: SHRINK=1 asks for it, once somebody will read it."""


class Numbered(BaseModel):
    n: int


@pytest.fixture(scope="module")
def arena(shared_database) -> Iterator[machine.Arena]:
    with machine.arena(shared_database) as made:
        yield made


@pytest.fixture(scope="module")
def declared() -> Iterator[Registry]:
    jobs = Registry()
    for name in machine.NAMES:
        jobs.declare(name, schema=Numbered)
    yield jobs
    _REGISTRIES.discard(jobs)


@pytest.mark.no_cover  # it takes twice as long, and other tests pass everywhere it does
@pytest.mark.timeout(900)
@pytest.mark.parametrize("quarter", range(QUARTERS))
def test_whatever_two_do_by_turns_the_database_is_as_the_model_says(
    declared, arena: machine.Arena, quarter: int
) -> None:
    arena.seen.clear()
    for again in range(TRIES):
        _run(arena, quarter + QUARTERS * again, QUARTER if again == 0 else MORE)
        if _done(arena) >= {*MOVES, *MARKS}:
            break
    assert check.check(arena.watch, full=True) == []
    # What was never done was not tested.
    assert _done(arena) >= {*MOVES, *MARKS}


def _done(arena: machine.Arena) -> set[str]:
    return {verb for verb, *_ in arena.seen}


def _run(arena: machine.Arena, number: int, examples: int) -> None:
    begun = partial(machine.Machine, arena)
    run_state_machine_as_test(
        # Where hypothesis repeats itself (CI=true), each quarter has examples of its own.
        seed(number)(begun) if settings().derandomize else begun,  # pyright: ignore[reportArgumentType]
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            deadline=None,
            print_blob=True,
            database=None,
            report_multiple_bugs=False,
            phases=[Phase.generate, *SHRINKS],
        ),
    )
