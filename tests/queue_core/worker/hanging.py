"""A module of jobs whose import never ends."""

import time

time.sleep(600)
