"""A module of jobs that ends the process which imports it."""

import os

os._exit(9)
