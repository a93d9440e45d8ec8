"""A unix socket between a worker and its database, to cut the line or to hold back answers."""

import socket
import threading
from contextlib import suppress
from pathlib import Path

from psycopg import conninfo

NAME = ".s.PGSQL.5432"


class Proxy:
    """Passes everything on, until it is told otherwise."""

    def __init__(self, url: str, folder: Path) -> None:
        """Listen in `folder`; `url` is the database's own, and `self.url` the one through us."""
        self._target = str(Path(str(conninfo.conninfo_to_dict(url)["host"])) / NAME)
        self._path = folder / NAME
        self.url = conninfo.make_conninfo(url, host=str(folder))
        self._answers = threading.Event()
        self._answers.set()
        self._needle: bytes | None = None
        self._commit_of: bytes | None = None
        self._lock = threading.Lock()
        self._ends: list[socket.socket] = []
        self._listener: socket.socket | None = None
        self.restore()

    def hold(self) -> None:
        """Keep what the database answers from now on."""
        self._answers.clear()

    def hold_at(self, needle: str) -> None:
        """Keep the first answer that holds this text, and all that follow."""
        self._needle = needle.encode()

    def hold_commit_of(self, needle: str) -> None:
        """Keep the answer to the COMMIT of a transaction whose answers held this text."""
        self._commit_of = needle.encode()

    def release(self) -> None:
        """Deliver the answers that were kept."""
        self._answers.set()

    def cut(self) -> None:
        """End all connections, their unread answers lost, and let nobody in."""
        with self._lock:
            listener, self._listener = self._listener, None
            self._path.unlink(missing_ok=True)
            ends, self._ends = self._ends, []
        for end in [listener, *ends]:
            if end is not None:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        self._answers.set()

    def restore(self) -> None:
        """Let people in."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self._path))
        listener.listen()
        self._listener = listener
        threading.Thread(target=self._accept, args=[listener], daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                ours, _ = listener.accept()
            except OSError:
                return
            theirs = socket.socket(socket.AF_UNIX)
            theirs.connect(self._target)
            with self._lock:
                self._ends += [ours, theirs]
            for ends in ((ours, theirs, False), (theirs, ours, True)):
                threading.Thread(target=self._pump, args=ends, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:  # noqa: FBT001
        with suppress(OSError):
            seen = False
            while data := source.recv(65_536):
                if answers:
                    seen = seen or (self._commit_of is not None and self._commit_of in data)
                    if seen and b"COMMIT\0" in data:
                        self._answers.clear()
                    self._pass(data)
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _pass(self, data: bytes) -> None:
        if self._needle is not None and self._needle in data:
            self._needle = None
            self._answers.clear()
        self._answers.wait()
