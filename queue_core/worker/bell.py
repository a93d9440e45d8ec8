"""A bell: wakes a thread that waits for sockets, from any other thread."""

import select
import socket
from contextlib import suppress
from typing import Final

MILLISECONDS: Final = 1_000


class Bell:
    """Rung by any thread, waited for by one. `ears` can be read while it has rung."""

    def __init__(self) -> None:
        self.ears, self.mouth = socket.socketpair()
        self.ears.setblocking(False)
        self.mouth.setblocking(False)

    def ring(self) -> None:
        """Wake whoever waits, or will."""
        with suppress(OSError):
            self.mouth.send(b"\0")

    def hush(self) -> None:
        """Forget that it rang."""
        with suppress(BlockingIOError):
            while self.ears.recv(4_096):
                pass

    def wait(self, seconds: float | None, line: int | None = None) -> bool:
        """Wait until it rings, or the file `line` can be read; says whether it was that alone."""
        poll = select.poll()
        poll.register(self.ears, select.POLLIN)
        if line is not None:
            poll.register(line, select.POLLIN)
        found = poll.poll(None if seconds is None else seconds * MILLISECONDS)
        heard = {number for number, _ in found}
        if self.ears.fileno() in heard:
            self.hush()  # here alone: it may ring by now for what nobody has looked at yet
            return False
        return line in heard

    def close(self) -> None:
        """Close both ends."""
        self.ears.close()
        self.mouth.close()
