"""Recorded cases as a plan takes them: what an agent once did is judged, and no agent runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePath

from workbench.engine.plan import PlanError, PlannedCase
from workbench.engine.set_context import SetContext
from workbench.model.criteria import EvalConfig
from workbench.model.keys import CaseKey
from workbench.model.results import Failure, FailureKind
from workbench.model.target import AgentKind, Target
from workbench.store.datasets import Recorded, holds_rows, read_recorded


def recorded_target(path: Path | str, *, root: Path) -> Target:
    """The target that stands for a dataset: functions of the user are imported from `root`."""
    return Target(name=PurePath(path).name, kind=AgentKind.RECORDED, location=str(path), path=root)


def recordings_of(target: Target, eval_set: Path) -> Recorded:
    """What a recorded target holds against a set; a dataset is all of it. Raises PlanError and StoreError."""
    own = recordings_in(target)
    if own is not None and own != eval_set:
        return read_recorded(own, expected=eval_set)
    if holds_rows(eval_set):
        return read_recorded(eval_set, columns=dict(target.columns))
    raise PlanError(f'target {target.name!r}: found no recordings, expected target = "FILE" with recorded sessions')


def recordings_in(target: Target) -> Path | None:
    """The file with the recordings of a target that has one for all its sets."""
    return target.path / target.location if target.kind is AgentKind.RECORDED and target.location else None


def plan_recordings(
    recorded: Recorded, *, name: str, target: Target, config: EvalConfig, ids: frozenset[str] | None = None
) -> Iterator[PlannedCase]:
    """The cases of a recording (of `ids`), to be judged by `config`; `name` is their set's name in keys.

    A target that has an agent runs it: what was recorded of another does not count.
    """
    context = SetContext(eval_set_id=recorded.eval_set_id, target=target, config=config)
    for item in recorded.cases:
        if ids is not None and item.eval_id not in ids:
            continue
        key = CaseKey.model_construct(
            target=target.name, eval_set=name, eval_id=item.eval_id, occurrence=item.occurrence
        )
        problem, hashes = None, ("", "")
        if item.problem is not None:
            problem = Failure(kind=FailureKind.FILE, message=item.problem)
        elif target.kind is not AgentKind.RECORDED:
            yield replace(context.plan(key, item.case), columns=item.columns)
            continue
        else:
            hashes = context.hashes_of_recorded(item.execution, item.case, item.columns)
        yield PlannedCase(
            key=key,
            eval_set_id=recorded.eval_set_id,
            target=target,
            config=config,
            case=item.case,
            problem=problem,
            recorded=item.execution,
            columns=item.columns,
            execution_hash=hashes[0],
            scoring_hash=hashes[1],
        )
