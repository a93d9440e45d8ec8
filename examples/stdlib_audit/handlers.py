"""The jobs of the example and what they do."""

import difflib
import os
import signal
from dataclasses import asdict
from pathlib import Path
from typing import Final, NoReturn

from examples.stdlib_audit import sources, storage
from queue_core import Registry, Run
from queue_core.queries.counts import capped_counts

LOOK_AGAIN_SECONDS: Final = 2.0
DUPLICATES_SECONDS: Final = 5.0

jobs = Registry()
jobs.around(storage.transaction)


@jobs.job("audit.file", safe_to_repeat=True)
def audit_file(run: Run, path: str) -> dict[str, object]:
    """Read one file, parse it, and keep what there is to say about it."""
    content = Path(path).read_bytes()
    facts = sources.facts(content, shown_as=Path(path).name)
    storage.save(path, run.id, facts)
    return asdict(facts)


@jobs.job("audit.duplicates", time_limit=DUPLICATES_SECONDS, safe_to_repeat=True)
def find_duplicates(run: Run) -> dict[str, object]:
    """Find the two functions that are most alike, by comparing each with all others.

    That is over a thousand million pairs, days of work: its time limit stops it.
    """
    del run
    best = (0.0, "", "")
    seen: list[str] = []
    for source in sources.function_sources():
        for other in seen:
            alike = difflib.SequenceMatcher(None, source, other).ratio()
            best = max(best, (alike, source, other))
        seen.append(source)
    return {"alike": best[0], "first": best[1], "second": best[2]}


@jobs.job("audit.kill_own_process")
def kill_own_process(run: Run) -> NoReturn:
    """End like a handler that the kernel killed for want of memory: failed, "crashed"."""
    _die(run)


@jobs.job("audit.kill_own_process_for_review", on_lost="review")
def kill_own_process_for_review(run: Run) -> NoReturn:
    """End the same way, under a name whose author wants a person to look first."""
    _die(run)


def _die(run: Run) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError(f"attempt {run.attempt} outlived SIGKILL")


@jobs.job("audit.summary", safe_to_repeat=True)
def summarise(run: Run) -> dict[str, object]:
    """Add up the files whose job completed, once no file is left to be audited."""
    left = capped_counts(storage.connection(), name="audit.file", cap=1)
    if left["ready"] or left["waiting"] or left["blocked"] or left["running"]:
        run.defer(LOOK_AGAIN_SECONDS)
    return asdict(storage.sums())
