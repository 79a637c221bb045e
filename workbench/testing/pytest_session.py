"""What one pytest session shares: workspaces, settings, and the count of calls of models."""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from workbench.engine.plan import Plan, PlanError
from workbench.engine.workspace import Workspace
from workbench.llm.model_replay import Replay
from workbench.llm.model_types import ModelRequest
from workbench.metrics.registry import needs_of
from workbench.store.errors import shown_path
from workbench.store.files import make_folder, write_atomic
from workbench.store.project_discovery import Project
from workbench.store.settings import LoadedSettings

# What the pytest plugin tells the API of the test that runs. Imported with pytest: it imports next to nothing.

RECORD_OPTION = "--workbench-record"
"""The option of pytest that records what models answer."""

REQUIRE_OPTION = "--workbench-require-all-samples"
"""The option of pytest by which a verdict that lacks samples of a judge does not count."""

ALL_REQUIRED = f"all samples are required ({REQUIRE_OPTION}, or require_all_samples under [judge] in workbench.toml)"
"""Why such a verdict does not count."""


@dataclass(frozen=True)
class ModelCalls:
    """Where models that judge or play users answer from: `file`, or with `record` themselves, and into the file.

    Without a file they are asked, and nothing is written.
    """

    file: Path | None = None
    record: bool = False


@dataclass
class TestSession:
    """The pytest session that goes on in this process, and the calls of models of the test that runs now.

    Sessions may be nested, as where a plugin is tested. While one `is_open` somebody will close what tests share;
    without one nothing is shared.
    """

    __test__ = False  # it is no test, whatever its name begins with

    depth: int = 0
    calls: ModelCalls = ModelCalls()
    timeout_seconds: float | None = None  # for one case, where the session says so
    require_all_samples: bool | None = None  # None: as the settings of the project say

    @property
    def is_open(self) -> bool:
        """Whether a session goes on."""
        return self.depth > 0


session = TestSession()


# The workspaces that tests share, so that an agent's processes are kept warm from test to test.

_OF_PYTEST = "PYTEST_"
"""How variables begin that are another in every test, and are nothing to agents."""


@dataclass
class _Shared:
    workspace: Workspace
    loaded: LoadedSettings
    environment: frozenset[tuple[str, str]]
    users: int = 0


class SharedWorkspaces:
    """One workspace for each project, as long as its settings and our environment variables are what they were.

    Agents inherit the variables of this process when theirs starts. Outside of a session of pytest, where nobody would
    call `close`, nothing is kept. May be used from any thread.
    """

    def __init__(self) -> None:
        self._open: dict[Path, _Shared] = {}
        self._lock = threading.Lock()

    @contextmanager
    def use(self, root: Path, loaded: LoadedSettings) -> Iterator[Workspace]:
        """The workspace of a project, for plans of any of its agents and sets."""
        shared = self._take(root, loaded)
        try:
            yield shared.workspace
        finally:
            self._give_back(root, shared)

    def close(self) -> None:
        """End all of them."""
        with self._lock:
            shared, self._open = list(self._open.values()), {}
        for each in shared:
            each.workspace.close()

    def _take(self, root: Path, loaded: LoadedSettings) -> _Shared:
        environment = frozenset(item for item in os.environ.items() if not item[0].startswith(_OF_PYTEST))
        outdated = None
        with self._lock:
            shared = self._open.get(root)
            if shared is None or (shared.loaded, shared.environment) != (loaded, environment):
                outdated = shared
                project = Project(root=root, targets={}, eval_sets=())
                shared = self._open[root] = _Shared(Workspace(project, loaded), loaded, environment)
            shared.users += 1
        if outdated is not None and not outdated.users:
            outdated.workspace.close()
        return shared

    def _give_back(self, root: Path, shared: _Shared) -> None:
        with self._lock:
            shared.users -= 1
            is_current = self._open.get(root) is shared
            if shared.users or (is_current and session.is_open):
                return
            if is_current:
                del self._open[root]
        shared.workspace.close()


shared_workspaces = SharedWorkspaces()


# Recorded answers of models, for tests that need neither a key nor a network.


@contextmanager
def with_calls(plan: Plan, calls: ModelCalls) -> Iterator[Plan]:
    """The plan as it is to be run: its models recorded or replayed. What was recorded is in the file afterwards.

    What the file has from before stays, but for the same requests. Raises PlanError where a file to answer from is not
    there, and StoreError where it holds something else, or cannot be written.
    """
    file = calls.file
    if file is None or not _asks_models(plan):
        yield plan
        return
    if not calls.record:
        if not file.is_file():
            how = f"record them with `pytest {RECORD_OPTION}`"
            raise PlanError(f"{shown_path(file)}: there are no recorded answers of models; {how}")
        yield replace(plan, options=plan.options.model_copy(update={"replay_calls": file}))
        return
    if file.exists() and file.stat().st_size:
        Replay(file)  # nothing but a recording is written over
    make_folder(file.parent)
    with tempfile.TemporaryDirectory(prefix="workbench-calls-") as folder:
        part = Path(folder) / "calls.jsonl"
        yield replace(plan, options=plan.options.model_copy(update={"record_calls": part}))
        if part.exists() and part.stat().st_size:
            write_atomic(file, _merged(file, part).encode())


def _merged(file: Path, part: Path) -> str:
    """What is in either file; of requests that are in both, what is in `part`."""
    recorded = list(_lines(part))
    again = {key for key, _ in recorded}
    kept = [line for key, line in _lines(file) if key not in again] if file.exists() else []
    return "".join(f"{line}\n" for line in (*kept, *(line for _, line in recorded)))


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    """The calls in a file that has been read before, each with what tells its request from others."""
    for line in file.read_text(encoding="utf-8").split("\n"):  # texts may hold other ends of lines
        if line.strip():
            yield ModelRequest.model_validate(json.loads(line)["request"]).key, line


def _asks_models(plan: Plan) -> bool:
    """Whether any model judges, plays a user or answers for a tool."""
    configs = {id(case.config): case.config for case in plan.cases}.values()
    if any("judge" in needs_of(config) for config in configs):
        return True
    environments = (case.tools.environment for case in plan.cases if case.tools is not None)
    if any(environment is not None and environment.asks_model for environment in environments):
        return True
    return any(case.scenario is not None for case in plan.cases)
