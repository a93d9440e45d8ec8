"""How gunicorn serves the console: a few threads behind one port of this machine.

They are gunicorn's own settings: `--config python:console.serving 'console:create_app()'`.
"""

import os
from pathlib import Path

from console import boot

# PORT is what Procfile runners set. Only this machine can reach it: a console for others belongs
# behind a proxy that speaks TLS.
bind = f"127.0.0.1:{os.environ.get('PORT') or 8000}"

# Pages wait for Postgres, so threads serve them; more processes come from WEB_CONCURRENCY.
worker_class = "gthread"
threads = 16
timeout = 30
graceful_timeout = 10

# Each process opens its connections on its first request, after the fork: a pool's threads and
# sockets do not survive one. So nothing is loaded before it.
preload_app = False

# No proxy is believed on its word, not even one on this machine (the default): QUEUE_PROXIES says
# whose is, and console/proxies.py listens to it.
forwarded_allow_ips = ""

# It would be opened in the home folder, where two consoles meet.
control_socket_disable = True

# Off, and where it is turned on without query strings: filters and addresses stay private.
accesslog = None
access_log_format = '%(t)s "%(m)s %(U)s" %(s)s %(B)s %(L)ss'

# A process shows that it is alive by touching a file; on a busy disk that can stall it.
if Path("/dev/shm").is_dir():  # noqa: S108 - gunicorn makes a file of its own in it
    worker_tmp_dir = "/dev/shm"  # noqa: S108


def on_starting(_server: object) -> None:
    """Begin only on a database that is there and sound."""
    boot.require_sound()
