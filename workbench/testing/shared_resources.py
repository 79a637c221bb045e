"""Resources that tests share: workspaces, and recorded answers of models."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from workbench.engine.plan import Plan, PlanError
from workbench.engine.workspace import Workspace
from workbench.store.errors import shown_path
from workbench.store.files import make_folder
from workbench.store.project_discovery import Project
from workbench.store.settings import LoadedSettings
from workbench.testing.pytest_session import RECORD_OPTION, ModelRecording, session

# Workspaces, so that the processes of an agent are reused by later tests.

_PYTEST_PREFIX = "PYTEST_"
"""The prefix of variables that differ in every test and do not matter to agents."""


@dataclass
class _SharedWorkspace:
    workspace: Workspace
    loaded: LoadedSettings
    environment: frozenset[tuple[str, str]]
    users: int = 0


class SharedWorkspaces:
    """One workspace for each project. Changed settings or environment variables lead to a new workspace.

    The variables matter because agent processes inherit them at their start. Outside of a pytest session, which calls
    `close`, workspaces are not shared. May be used from any thread.
    """

    def __init__(self) -> None:
        self._workspaces: dict[Path, _SharedWorkspace] = {}
        self._lock = threading.Lock()

    @contextmanager
    def use(self, root: Path, loaded: LoadedSettings) -> Iterator[Workspace]:
        """Provide the workspace of a project, for plans of any of its agents and sets."""
        shared = self._acquire(root, loaded)
        try:
            yield shared.workspace
        finally:
            self._release(root, shared)

    def close(self) -> None:
        with self._lock:
            shared, self._workspaces = list(self._workspaces.values()), {}
        for each in shared:
            each.workspace.close()

    def _acquire(self, root: Path, loaded: LoadedSettings) -> _SharedWorkspace:
        environment = frozenset(item for item in os.environ.items() if not item[0].startswith(_PYTEST_PREFIX))
        outdated = None
        with self._lock:
            shared = self._workspaces.get(root)
            if shared is None or (shared.loaded, shared.environment) != (loaded, environment):
                outdated = shared
                project = Project(root=root, targets={}, eval_sets=())
                shared = self._workspaces[root] = _SharedWorkspace(Workspace(project, loaded), loaded, environment)
            shared.users += 1
        if outdated is not None and not outdated.users:
            outdated.workspace.close()
        return shared

    def _release(self, root: Path, shared: _SharedWorkspace) -> None:
        with self._lock:
            shared.users -= 1
            is_current = self._workspaces.get(root) is shared
            if shared.users or (is_current and session.is_open):
                return
            if is_current:
                del self._workspaces[root]
        shared.workspace.close()


shared_workspaces = SharedWorkspaces()


# Recorded answers of models, for tests without API key and network.


def apply_model_calls(plan: Plan, calls: ModelRecording, *, asks_models: bool = False) -> Plan:
    """Return the plan with its judge and user models recorded or replayed.

    `asks_models`: code of the caller asks models, which the plan does not show. Earlier calls in the file stay
    unless the same request is recorded again. Raises PlanError if the file to replay is missing, and StoreError if the
    folder of the file cannot be made.
    """
    file = calls.file
    if file is None or not (asks_models or _is_asking_models(plan)):
        return plan
    if not calls.record:
        if not file.is_file():
            advice = f"record them with `pytest {RECORD_OPTION}`"
            raise PlanError(f"{shown_path(file)}: there are no recorded answers of models; {advice}")
        return plan.with_options(replay_calls=file)
    make_folder(file.parent)
    return plan.with_options(record_calls=file)


def _is_asking_models(plan: Plan) -> bool:
    """True if a model judges, plays a user or simulates a tool."""
    if any("judge" in criteria.needs for criteria in plan.criteria):
        return True
    environments = (case.tools.environment for case in plan.cases if case.tools is not None)
    if any(environment is not None and environment.needs_model for environment in environments):
        return True
    return any(case.scenario is not None for case in plan.cases)
