"""A module whose registry has no handlers yet."""

from queue_core import Registry

jobs = Registry()
