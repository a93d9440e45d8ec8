"""A module of jobs that cannot be imported."""

raise RuntimeError("its configuration is missing")
