"""The search for the commit that turned a case red, as its screen shows it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.tui.state.spans import join
from workbench.report.bisect_report import BisectStep, Commit, CommitOutcome
from workbench.tui.state import cause_search
from workbench.tui.state.cause_search import BisectSteps


def test_the_time_of_a_long_search_is_shown(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: 100.0)
    monkeypatch.setattr(cause_search, "time", clock)
    bisection = BisectSteps(make.key("day"))
    assert join(bisection.header_lines()[1]) == " searching …   0 commits looked at"

    clock.monotonic = lambda: 107.9

    assert join(bisection.header_lines()[1]) == " searching …   0 commits looked at   7 s"


def test_the_commit_that_is_executed_is_named(make: Any) -> None:
    commit = Commit(id="a" * 40, parents=(), author="Ann", date="2026-02-11", subject="Break 改 \x1b[31m")
    bisection = BisectSteps(make.key("day"))
    bisection.announce(commit)
    assert join(bisection.header_lines()[1]) == " executing aaaaaaaaaa Break 改 ␛[31m …   0 commits looked at"

    bisection.add(BisectStep(commit=commit, outcome=CommitOutcome.PASSED, suspects=3))

    assert join(bisection.header_lines()[1]) == " searching …   1 commit looked at, 3 commits left"
