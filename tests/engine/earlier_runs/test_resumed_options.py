"""Options that a resumed run takes over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.engine.project import Project, turn
from workbench.engine.earlier_runs import restore_options
from workbench.engine.plan import RunOptions
from workbench.model.target import ModelMode
from workbench.store.history.history import History


@pytest.mark.parametrize(
    ("given", "models", "record", "replay"),
    [
        ({}, ModelMode.AUTO, "calls.jsonl", None),
        ({"models": ModelMode.LIVE}, ModelMode.LIVE, None, None),
        ({"replay": Path("other.jsonl")}, None, None, "other.jsonl"),
        ({"fresh": True}, None, None, None),
    ],
)
def test_models_are_asked_recorded_and_replayed_as_before_or_all_as_given_now(
    project: Project, given: dict[str, Any], models: ModelMode | None, record: str | None, replay: str | None
) -> None:
    project.add_set({"a": [turn("hello")]})
    project.run(models=ModelMode.AUTO, record=project.root / "calls.jsonl")
    with History.open(project.root) as history:
        (run,) = history.runs()

    options = restore_options(RunOptions.model_validate(given), run)

    assert options.models == models
    names = [None if path is None else path.name for path in (options.record, options.replay)]
    assert names == [record, replay]


def test_a_resumed_run_asks_models_again_if_it_did_before(project: Project) -> None:
    project.add_set({"a": [turn("hello")]})
    project.run(fresh=True)
    with History.open(project.root) as history:
        (run,) = history.runs()

    assert restore_options(RunOptions(), run).fresh
    assert not restore_options(RunOptions(models=ModelMode.LIVE), run).fresh
