"""A module with two registries."""

from queue_core import Registry, Run

first = Registry()
second = Registry()


@first.job("two.first")
def one(run: Run) -> str:
    return "first"


@second.job("two.second")
def other(run: Run) -> str:
    return "second"
