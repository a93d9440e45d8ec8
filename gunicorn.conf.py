"""What gunicorn reads in a checkout; in the wheel it is `--config python:console.serving`."""

from console.serving import *  # noqa: F403 - gunicorn takes the names of its settings from here
