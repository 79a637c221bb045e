"""What the screen says about the changes that a watch reports."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from workbench.model.identity import CaseKey, Dependency, DependencyKind, JobKey
from workbench.tui.backend.watch_calls import ReasonWords
from workbench.watch.selector import Action, Decision, Reason


def test_a_file_is_named_once_though_cases_read_different_contents_of_it(tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text("now")
    planned: Any = None
    decisions = [
        Decision(
            JobKey(case=CaseKey(target="t", eval_set="s", eval_id=then)),
            planned,
            Action.RUN,
            (Reason(row=Dependency(kind=DependencyKind.FILE, key=str(path), fingerprint=then)),),
        )
        for then in ("a", "b")
    ]
    session: Any = SimpleNamespace(state=None)

    reaches = ReasonWords(session, tmp_path).describe_reaches(decisions, decisions)

    assert reaches == ("prompt.txt changed <- used by 2 of 2 cases",)
