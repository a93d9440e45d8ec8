"""An audit of the running interpreter's standard library: real jobs, some of which really fail."""

from examples.stdlib_audit.handlers import jobs

__all__ = ["jobs"]
