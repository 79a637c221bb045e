"""History: every run of a project with its results, in `.workbench/history.db`."""

from workbench.store.history.history import History
from workbench.store.history.records import FinishedJob, RunRecord, StoredJob, StoredRun

__all__ = ["FinishedJob", "History", "RunRecord", "StoredJob", "StoredRun"]
