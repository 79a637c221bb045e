"""The default project and the default case of the watch tests, and the summary of the proof."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.watch.generated.harness import Tally
from tests.watch.watched import AGENT, TOOLS, Folder
from tests.watch.watched_case import WatchedCase

_OWN, _SHARED, _ALL = "a process per case", "shared processes", "in all"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    project = Folder(tmp_path)
    project.write("agent.py", AGENT)
    project.write("tools.py", TOOLS)
    project.cases(up_1="up one", up_2="up two", down="down")
    return project


@pytest.fixture
def case(tmp_path: Path) -> WatchedCase:
    return WatchedCase(tmp_path)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Sum up the results of the proof over all test processes."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    miss_counts: Counter[str] = Counter()
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        for title, value in report.user_properties if report.when == "call" else ():
            if title == "proof":
                name, counts, miss_count = value
                for each in (name, _OWN if name.endswith("-fork") else _SHARED, _ALL):
                    tallies[each].add(Tally(**counts))
                    miss_counts[each] += miss_count
    if tallies:
        terminalreporter.section("proof of watching")
    for name in sorted(tallies, key=lambda name: (name == _ALL, name in (_OWN, _SHARED), name)):
        terminalreporter.line(f"{name:22} {tallies[name]}, {miss_counts[name]} missed")
