"""History: every run of a project with its results, in `.workbench/history.db`."""

from workbench.store.history.history import History
from workbench.store.history.records import (
    FinishedJob,
    LeftFile,
    RunPart,
    RunRecord,
    StoredJob,
    StoredRun,
    StoredScores,
    StoredVerdict,
)

__all__ = [
    "FinishedJob",
    "History",
    "LeftFile",
    "RunPart",
    "RunRecord",
    "StoredJob",
    "StoredRun",
    "StoredScores",
    "StoredVerdict",
]
