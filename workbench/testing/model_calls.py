"""Recorded answers of models, for tests without API key and network."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from workbench.engine.plan import Plan, PlanError
from workbench.llm.model_replay import Replay
from workbench.llm.model_types import ModelRequest
from workbench.store.errors import shown_path
from workbench.store.files import make_folder, write_atomic
from workbench.testing.pytest_session import RECORD_OPTION, ModelCalls


@contextmanager
def apply_model_calls(plan: Plan, calls: ModelCalls) -> Iterator[Plan]:
    """Return the plan with its models recorded or replayed. Afterwards the recorded calls are in the file.

    Earlier calls in the file are kept unless the same request was recorded again. Raises PlanError if the file to
    replay is missing, and StoreError if it is no recording or cannot be written.
    """
    file = calls.file
    if file is None or not _is_asking_models(plan):
        yield plan
        return
    if not calls.record:
        if not file.is_file():
            how = f"record them with `pytest {RECORD_OPTION}`"
            raise PlanError(f"{shown_path(file)}: there are no recorded answers of models; {how}")
        yield replace(plan, options=plan.options.model_copy(update={"replay_calls": file}))
        return
    if file.exists() and file.stat().st_size:
        Replay(file)  # refuse to overwrite a file that is no recording
    make_folder(file.parent)
    with tempfile.TemporaryDirectory(prefix="workbench-calls-") as folder:
        part = Path(folder) / "calls.jsonl"
        yield replace(plan, options=plan.options.model_copy(update={"record_calls": part}))
        if part.exists() and part.stat().st_size:
            write_atomic(file, _merge(file, part).encode())


def _merge(file: Path, part: Path) -> str:
    """Merge two recordings. For requests in both, the call in `part` is used."""
    recorded = list(_read_lines(part))
    again = {key for key, _ in recorded}
    kept = [line for key, line in _read_lines(file) if key not in again] if file.exists() else []
    return "".join(f"{line}\n" for line in (*kept, *(line for _, line in recorded)))


def _read_lines(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the calls of a valid recording: the key of each request, and its line."""
    for line in file.read_text(encoding="utf-8").split("\n"):  # texts may contain other line separators
        if line.strip():
            yield ModelRequest.model_validate(json.loads(line)["request"]).key, line


def _is_asking_models(plan: Plan) -> bool:
    """True if a model judges, plays a user or simulates a tool."""
    if any("judge" in criteria.needs for criteria in plan.criteria):
        return True
    environments = (case.tools.environment for case in plan.cases if case.tools is not None)
    if any(environment is not None and environment.needs_model for environment in environments):
        return True
    return any(case.scenario is not None for case in plan.cases)
