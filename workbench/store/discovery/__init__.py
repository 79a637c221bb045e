"""Discovery: which agents and eval sets a project has and which belong together, without running any of its code."""

from workbench.store.discovery.new_sets import NewSets
from workbench.store.discovery.project import CRITERIA_FILE, EvalSetEntry, Project, criteria_file, discover
from workbench.store.discovery.root import find_root
from workbench.store.discovery.targets import adk_target, missing_files, recordings_in

__all__ = [
    "CRITERIA_FILE",
    "EvalSetEntry",
    "NewSets",
    "Project",
    "adk_target",
    "criteria_file",
    "discover",
    "find_root",
    "missing_files",
    "recordings_in",
]
