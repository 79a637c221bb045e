"""Calls of the screen for runs and their results."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any, cast

import pytest

from workbench.model.evalset import Quarantine
from workbench.model.results import CaseStatus
from workbench.tui.backend import run_calls
from workbench.tui.backend.run_calls import check_export_path


def test_an_invalid_export_path_is_refused(tmp_path: Path) -> None:
    assert check_export_path(str(tmp_path / "a.csv")) is None
    assert check_export_path(str(tmp_path / "a.html")) is None
    assert check_export_path(" ") == "expected the name of a file"
    assert "ends in one of .csv" in (check_export_path("a.txt") or "")
    assert "there is no folder" in (check_export_path(str(tmp_path / "no" / "a.md")) or "")
    (tmp_path / "d.csv").mkdir()
    assert "folder" in (check_export_path(str(tmp_path / "d.csv")) or "")


def test_the_reason_of_a_case_names_no_quarantine_that_was_ended(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    key = make.key("a")
    quarantine = Quarantine(until=date(2999, 1, 1))
    failed = make.result(key, CaseStatus.FAILED).model_copy(update={"quarantine": quarantine})
    monkeypatch.setattr(run_calls, "read_current_results", lambda *_: {key: [failed]})

    reasons = run_calls._explain(cast(Any, None), cast(Any, lambda _: None), [key], {}, cast(Any, None))

    assert reasons == {key: "tool_trajectory_avg_score: 0.00 < 1.00"}
