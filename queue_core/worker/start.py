"""Starting a worker: for good, or for one job."""

from dataclasses import replace
from typing import Final

import psycopg

from queue_core.check import require_sound
from queue_core.database import connect
from queue_core.errors import DatabaseAwayError, OptionError, RunCutOffError, SchemaError
from queue_core.transitions import promote as promotion
from queue_core.worker import logs
from queue_core.worker.link import APPLICATION
from queue_core.worker.options import WorkerOptions
from queue_core.worker.signals import Signals
from queue_core.worker.supervisor import DRAINED, Supervisor
from queue_core.worker.workshop import Workshop

UNUSABLE: Final = 2
NO_DATABASE: Final = 3


def run_worker(options: WorkerOptions) -> int:
    """Run a worker until it is told to stop, and return its exit code.

    0: drained. 2: its jobs cannot be used. 3: no database, or a schema that is missing, newer
    or unsound. 4: stopped with runs cut off. 5: it gave itself up. Only for the main thread of
    a process that does nothing else: it takes over the process's signals for good.
    """
    logs.configure(options.log)
    signals = Signals()
    signals.catch()
    try:
        with connect(options.url, name=APPLICATION) as conn:
            require_sound(conn)
        return _run(options, signals)
    except (DatabaseAwayError, SchemaError, psycopg.Error) as error:
        logs.error("the worker cannot run", why=logs.cause(error))
        return NO_DATABASE
    finally:
        signals.release()


def _run(options: WorkerOptions, signals: Signals) -> int:
    workshop = Workshop(options, signals)
    try:
        if why := workshop.meet():
            logs.error("the worker cannot run", why=why)
            return UNUSABLE
        if signals.stops:
            return DRAINED
        return Supervisor(options, workshop).work()
    finally:
        workshop.close()


def run_one(options: WorkerOptions) -> bool:
    """Run the one job that a worker would take first, and say whether there was one.

    It is run as a worker runs jobs: in a process of its own, with its limit and all rules for
    its end, under a worker's row that is stopped when this returns. A job that is due counts,
    whether or not it was promoted. Raises OptionError where the jobs cannot be used,
    DatabaseAwayError, SchemaError, and RunCutOffError where a signal or a loss of the database
    ended the run. Only for the main thread, whose signals it takes over meanwhile.
    """
    signals = Signals()
    before = signals.catch()
    try:
        with connect(options.url, name=APPLICATION) as conn:
            require_sound(conn)
            while promotion.promote(conn) == promotion.BATCH:
                pass
        return _run_one(replace(options, processes=1), signals)
    finally:
        signals.release()
        signals.restore(before)


def _run_one(options: WorkerOptions, signals: Signals) -> bool:
    workshop = Workshop(options, signals, once=True)
    try:
        if why := workshop.meet():
            raise OptionError(why)
        if signals.stops:
            return False
        supervisor = Supervisor(options, workshop, once=True)
        code = supervisor.work()
    finally:
        workshop.close()
    if code != DRAINED:
        raise RunCutOffError(code)
    return supervisor.found()
