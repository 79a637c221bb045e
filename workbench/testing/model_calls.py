"""Recorded answers of models, for tests that need neither a key nor a network."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.testing.session import RECORD_OPTION, ModelCalls

if TYPE_CHECKING:
    from workbench.engine.plan import Plan

_begun: set[Path] = set()  # files that this process has recorded into: what it records later is added


@contextmanager
def with_calls(plan: Plan, calls: ModelCalls) -> Iterator[Plan]:
    """The plan as it is to be run: its models recorded or replayed. What was recorded is in the file afterwards.

    Raises PlanError where the file that has the answers is not there, and StoreError where it holds something else.
    """
    from workbench.engine.plan import PlanError
    from workbench.llm.recording import Replay
    from workbench.store.errors import cannot, shown_path

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
    with tempfile.TemporaryDirectory(prefix="workbench-calls-") as folder:
        part = Path(folder) / "calls.jsonl"
        yield replace(plan, options=plan.options.model_copy(update={"record_calls": part}))
        if not part.exists() or not part.stat().st_size:
            return
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with part.open("rb") as source, file.open("ab" if file in _begun else "wb") as target:
                shutil.copyfileobj(source, target)
        except OSError as error:
            raise cannot("write", file, error) from error
        _begun.add(file)


def _asks_models(plan: Plan) -> bool:
    """Whether any model judges or plays a user."""
    from workbench.metrics.registry import needs_of

    configs = {id(case.config): case.config for case in plan.cases}.values()
    return any("judge" in needs_of(config) for config in configs) or any(
        case.case is not None and case.case.conversation_scenario is not None for case in plan.cases
    )
