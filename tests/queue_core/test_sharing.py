"""What runs share is seen from the handler, whatever kind of object it is."""

import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from queue_core import Registry, Run
from queue_core.errors import DeclarationError
from queue_core.sharing import is_generator, shares_of


def plain(run: Run) -> None: ...


async def waits(run: Run) -> None: ...


def pages(run: Run) -> Iterator[int]:
    yield 1


async def pages_to_come(run: Run) -> AsyncIterator[int]:
    yield 1


class Waits:
    async def __call__(self, run: Run) -> None: ...

    async def method(self, run: Run) -> None: ...


@pytest.mark.parametrize(
    "function",
    [waits, Waits(), Waits().method, functools.partial(waits)],
    ids=["function", "object", "method", "partial"],
)
def test_a_handler_that_has_to_be_awaited_shares_an_event_loop(function: Any) -> None:
    assert shares_of(function, "a", threads=False) == "loop"
    with pytest.raises(DeclarationError, match="async"):
        shares_of(function, "a", threads=True)


@pytest.mark.parametrize("function", [plain, print, functools.partial(plain), Waits])
def test_any_other_has_a_process_alone_unless_it_may_share_threads(function: Any) -> None:
    assert shares_of(function, "a", threads=False) is None
    assert shares_of(function, "a", threads=True) == "threads"


def test_a_registry_keeps_what_runs_share() -> None:
    jobs = Registry()
    jobs.job("sharing.plain")(plain)
    jobs.job("sharing.waits")(waits)
    jobs.job("sharing.threads", threads=True)(plain)
    shares = {name: handler.shares for name, handler in jobs.handlers.items()}
    assert shares == {"sharing.plain": None, "sharing.waits": "loop", "sharing.threads": "threads"}


def test_generators_are_told_from_what_can_be_run() -> None:
    assert [is_generator(each) for each in (pages, pages_to_come)] == [True, True]
    assert [is_generator(each) for each in (plain, waits, Waits(), None)] == [False] * 4
