"""What ends a command early: its exit code, and one sentence instead of a traceback."""

import signal
import sys
import threading
from typing import Final, NoReturn

import click

from queue_core import database, errors

REFUSED: Final = 1
NO_DATABASE: Final = 3
_SIGNALLED: Final = 128

MISTYPED: Final = (
    errors.NotACodeError,
    errors.NoteError,
    errors.OptionError,
    errors.ArgumentsError,
    errors.UnknownNameError,
    errors.DeclarationError,
    errors.SettingsError,
)
UNFIT: Final = (
    errors.SchemaError,
    errors.DatabaseAwayError,
    errors.TookTooLongError,
    errors.EmbeddedError,
)


class Refusal(click.ClickException):
    """What was asked for does not apply; nothing was changed."""

    exit_code = REFUSED


class Mistake(click.ClickException):
    """What was typed or sent cannot be used."""

    exit_code = 2


class NoDatabase(click.ClickException):
    """The database cannot be reached, or cannot be worked on as it is."""

    exit_code = NO_DATABASE


class Commands(click.Group):
    """A group whose commands end in the exit codes that scripts rely on."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; an error raised on purpose becomes its sentence."""
        try:
            return super().invoke(ctx)
        except MISTYPED as error:
            raise Mistake(str(error)) from None
        except UNFIT as error:
            raise NoDatabase(str(error)) from None
        except errors.CountersignError as error:
            raise Refusal(str(error)) from None
        except (*database.TIMED_OUT_STATES, *database.LOCK_STATES) as error:
            raise NoDatabase(f"the database ended a statement: {type(error).__name__}") from None
        except database.LOST_STATES as error:
            raise NoDatabase(f"the database went away: {type(error).__name__}") from None
        except database.DRIVER_STATES as error:
            # By its name alone: a server's message can repeat values.
            raise NoDatabase(f"the database refused: {type(error).__name__}") from None


def leave_in_order_when_told() -> None:
    """Let SIGTERM, or a terminal that goes away, end the process as its end does.

    So that an embedded server is released; under nohup SIGHUP stays without effect.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _leave)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _leave)


def _leave(number: int, _: object) -> NoReturn:
    sys.exit(_SIGNALLED + number)
