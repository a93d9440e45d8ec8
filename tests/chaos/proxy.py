"""A network between a worker and its database: it can stall, swallow an answer, or end.

It speaks TCP on one side and to the server's unix socket on the other, and understands enough of
Postgres' protocol to know which transaction an answer commits.
"""

import socket
import struct
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

from psycopg import conninfo

PIECE: Final = 65_536
READY: Final = ord("Z")
"""The kind of an answer's last message, whose status `I` says that no transaction is open."""
VERBS: Final[Mapping[str, bytes]] = MappingProxyType(
    {
        "claim": b"INSERT INTO countersign.running",
        "finish": b"'completed' AS state, 1 AS entered",
        "fail": b"WHEN failure.outcome = 'crashed'",
        "defer": b"'deferred', taken.worker",
        "give_back": b"'returned', taken.worker",
        "beat": b"SET beat_at = clock_timestamp()",
    }
)
"""What a worker commits, by words that stand in one statement alone."""


class Network:
    """Passes everything on, until it is told otherwise. `url` is the database through it."""

    def __init__(self, url: str) -> None:
        """Listen for whoever is to reach the database at `url` this way."""
        parts = conninfo.conninfo_to_dict(url)
        self._target = str(Path(str(parts["host"])) / f".s.PGSQL.{parts.get('port') or 5432}")
        self._lock = threading.Lock()
        self._questions, self._answers = threading.Event(), threading.Event()
        self.release()
        self._to_lose: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        """How many answers were swallowed, by verb."""
        self._lines: set[_Line] = set()
        self._listener = self._listen(0)
        self._port = self._listener.getsockname()[1]
        self.url = conninfo.make_conninfo(
            url, host="127.0.0.1", port=self._port, sslmode="disable", gssencmode="disable"
        )

    def stall(self, *, questions: bool = True, answers: bool = True) -> None:
        """Carry nothing more in these directions; nobody is told, and nothing is thrown away."""
        if questions:
            self._questions.clear()
        if answers:
            self._answers.clear()

    def release(self) -> None:
        """Carry on, beginning with what was held back."""
        self._questions.set()
        self._answers.set()

    def lose(self, verb: str, times: int = 1) -> None:
        """Swallow the answers to the next commits with `verb` in them, and end those lines."""
        with self._lock:
            self._to_lose[verb] += times

    def cut(self) -> None:
        """End all lines, what they carry lost, and let nobody in."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            lines, self._lines = self._lines, set()
        for line in lines:
            line.end()
        self.release()

    def restore(self) -> None:
        """Let people in again, after `cut`."""
        self._listener = self._listen(self._port)

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port))
        threading.Thread(target=self._accept, args=[listener], daemon=True).start()
        return listener

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                ours, _ = listener.accept()
            except OSError:
                return
            theirs = socket.socket(socket.AF_UNIX)
            try:
                theirs.connect(self._target)
            except OSError:  # the server is down
                theirs.close()
                ours.close()
                continue
            line = _Line(self, ours, theirs)
            with self._lock:
                self._lines.add(line)
            line.carry()

    def wait_to_carry(self, *, answers: bool) -> None:
        """Return once this direction is not stalled."""
        (self._answers if answers else self._questions).wait()

    def is_lost(self, verbs: set[str]) -> bool:
        """Say whether the answer to a commit with these verbs is to be swallowed."""
        with self._lock:
            for verb in sorted(verbs):
                if self._to_lose[verb] > 0:
                    self._to_lose[verb] -= 1
                    self.lost[verb] += 1
                    return True
        return False

    def forget(self, line: "_Line") -> None:
        """Take a line off the books that has ended."""
        with self._lock:
            self._lines.discard(line)


class _Line:
    """One connection, carried both ways by a thread each."""

    def __init__(self, network: Network, ours: socket.socket, theirs: socket.socket) -> None:
        self._network = network
        self._ours, self._theirs = ours, theirs
        self._asked = _Questions()
        self._carried = 0
        self._lock = threading.Lock()

    def carry(self) -> None:
        threading.Thread(target=self._ask, daemon=True).start()
        threading.Thread(target=self._answer, daemon=True).start()

    def end(self) -> None:
        for side in (self._ours, self._theirs):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def _ask(self) -> None:
        with suppress(OSError):
            while data := self._ours.recv(PIECE):
                self._network.wait_to_carry(answers=False)
                self._asked.hear(data)
                self._theirs.sendall(data)
        self._close()

    def _answer(self) -> None:
        """Carry answers whole, so that one which commits can be swallowed whole."""
        answer = _Answer()
        with suppress(OSError):
            while data := self._theirs.recv(PIECE):
                status = answer.hear(data)
                if status == b"I" and self._network.is_lost(self._asked.take()):
                    break
                if status or not self._asked.waits:
                    self._pass(answer)
            else:
                self._pass(answer)  # last words, such as why the server ends the line
        self._close()

    def _pass(self, answer: "_Answer") -> None:
        self._network.wait_to_carry(answers=True)
        self._ours.sendall(answer.take())

    def _close(self) -> None:
        self.end()
        with self._lock:
            self._carried += 1
            if self._carried == 2:  # both directions have ended: nobody uses the sockets any more
                self._ours.close()
                self._theirs.close()
                self._network.forget(self)


class _Questions:
    """What was asked since the last transaction ended, from the messages that asked it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rest = b""
        self._started = False
        self._prepared: dict[bytes, set[str]] = {}
        self._verbs: set[str] = set()
        self.waits = False
        """Whether an answer that ends as answers do is on its way."""

    def hear(self, data: bytes) -> None:
        """Take the next bytes of what the client says."""
        self._rest += data
        while message := self._next():
            kind, body = message
            with self._lock:
                self._understand(kind, body)

    def take(self) -> set[str]:
        """Return the verbs of the transaction that has just ended, and begin with the next."""
        with self._lock:
            taken, self._verbs = self._verbs, set()
            self.waits = False
            return taken

    def _next(self) -> tuple[bytes, bytes] | None:
        head = 1 if self._started else 0  # what opens a line has no letter in front
        if len(self._rest) < head + 4:
            return None
        size = head + struct.unpack_from("!i", self._rest, head)[0]
        if len(self._rest) < size:
            return None
        message, self._rest = self._rest[:size], self._rest[size:]
        self._started = True
        return message[:head], message[head + 4 :]

    def _understand(self, kind: bytes, body: bytes) -> None:
        match kind:
            case b"P":
                name, _, text = body.partition(b"\0")
                self._prepared[name] = _verbs(text)
            case b"B":
                name = body.split(b"\0", 2)[1]
                self._verbs |= self._prepared.get(name, set())
            case b"Q":
                self._verbs |= _verbs(body)
            case _:
                pass
        self.waits = self.waits or kind in {b"S", b"Q"}


def _verbs(text: bytes) -> set[str]:
    return {verb for verb, words in VERBS.items() if words in text}


class _Answer:
    """What the server has said and nobody has been told yet."""

    def __init__(self) -> None:
        self._said = bytearray()
        self._read = 0

    def hear(self, data: bytes) -> bytes:
        """Take the next bytes; returns the status they end with, or nothing if more is to come."""
        self._said += data
        status = b""
        while len(self._said) >= self._read + 5:
            size = struct.unpack_from("!i", self._said, self._read + 1)[0]
            is_last = self._said[self._read] == READY
            status = bytes(self._said[self._read + 5 : self._read + 6]) if is_last else b""
            self._read += 1 + size
        return status if self._read == len(self._said) else b""

    def take(self) -> bytes:
        """Return it all, to be passed on."""
        said, self._said, self._read = bytes(self._said), bytearray(), 0
        return said
