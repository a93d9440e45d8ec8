"""The embedded Postgres: started by the first process that uses a folder, stopped by the last."""

from queue_core.embedded.lifecycle import Server, start, stop
from queue_core.errors import EmbeddedError

__all__ = ["EmbeddedError", "Server", "start", "stop"]
