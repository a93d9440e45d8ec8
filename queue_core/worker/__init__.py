"""The worker: a supervisor, and the processes in which handlers run."""

from queue_core.worker.options import WorkerOptions
from queue_core.worker.supervisor import run_worker

__all__ = ["WorkerOptions", "run_worker"]
