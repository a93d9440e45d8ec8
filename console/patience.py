"""Calling code of somebody else's that may never return: for a few seconds, and not too often."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from typing import Final, TypeVar

Answer = TypeVar("Answer")

NAME: Final = "countersign waits"
"""Of the threads, for whoever looks at a process."""
SECONDS = 5.0
MOST_LATE: Final = 8
"""So many calls may hang at once; then nobody is asked until one of them has returned."""


class LateError(Exception):
    """The call did not return in time, or as many as may hang do so already."""


class Patience:
    """Waits for calls, each in a thread of its own, since no thread can be stopped from outside."""

    def __init__(self) -> None:
        self._late: list[threading.Thread] = []

    def call(self, do: Callable[[], Answer]) -> Answer:
        """Return what `do` returns, or raise what it raises, in this call's own context.

        Raises LateError; a call that is late goes on by itself, and its answer is not looked at.
        """
        self._late = [each for each in self._late if each.is_alive()]
        if len(self._late) >= MOST_LATE:
            raise LateError
        answer: Future[Answer] = Future()
        run = copy_context().run
        thread = threading.Thread(target=run, args=(_answer, answer, do), name=NAME, daemon=True)
        thread.start()
        thread.join(SECONDS)
        if not answer.done():
            self._late.append(thread)
            raise LateError
        return answer.result()


def _answer(answer: Future[Answer], do: Callable[[], Answer]) -> None:
    try:
        answer.set_result(do())
    except BaseException as error:  # noqa: BLE001 - raised again where it was asked for
        answer.set_exception(error)
