"""The console on a port of this machine, for browsers."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from werkzeug.serving import make_server

from console import create_app, database
from queue_core.settings import from_environment

KEY = "a-key-for-tests-that-is-long-enough"


def console_on(url: str, **settings: str):
    """Return the console on a database."""
    given = {"DATABASE_URL": url, "QUEUE_SECRET_KEY": KEY, "QUEUE_INSTANCE": "production · eu-west"}
    return create_app(from_environment({**given, **settings}))


@contextmanager
def served(app) -> Iterator[str]:
    """Serve `app` in a thread, and give its address."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        database.connections(app).close()
