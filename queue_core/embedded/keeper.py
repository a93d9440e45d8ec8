"""Runs an embedded Postgres for as long as it has users: a process of its own, small and plain.

A script that needs nothing but the standard library: FOLDER UID GID COMMAND. Whoever is killed
leaves its locks and says nothing; without a keeper the server would then run on, used by nobody.
"""

import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

PATIENCE: Final = 60  # seconds that a server gets to end, and again to end as after a crash


def main(folder: str, uid: int, gid: int, command: Sequence[str]) -> None:
    """Begin `command` as a user's, end it once `folder` has no user, and end with it."""
    signal.signal(signal.SIGCHLD, _end_with_it)
    server = os.fork()
    if not server:
        _become(uid, gid, command)
    while True:
        _hold(f"{folder}/keeper.lock")()
        let_go = _hold(f"{folder}/boot.lock")  # nobody joins or leaves while this looks
        if _is_free(f"{folder}/users.lock"):
            for how in (signal.SIGINT, signal.SIGQUIT):
                os.kill(server, how)
                time.sleep(PATIENCE)
        let_go()


def _become(uid: int, gid: int, command: Sequence[str]) -> NoReturn:
    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and it would be inherited
        signal.signal(ignored, signal.SIG_DFL)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    os.execv(command[0], [*command])  # noqa: S606 - there is no shell to do without


def _end_with_it(*_: object) -> None:
    if os.waitpid(-1, os.WNOHANG)[0]:
        os._exit(0)


def _hold(path: str) -> Callable[[], None]:
    """Wait until nobody else holds the lock of a file; returns what lets go of it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lambda: os.close(lock)


def _is_free(path: str) -> bool:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
