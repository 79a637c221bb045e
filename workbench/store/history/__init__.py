"""History: every run of a project with its results, in `.workbench/history.db`."""

from workbench.store.history.history import History
from workbench.store.history.records import (
    SCORES_OPTION,
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
    "SCORES_OPTION",
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
