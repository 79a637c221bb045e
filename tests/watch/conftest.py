"""A project for tests of watch mode (others make their own), and what the proof says at its end."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.watch.generated.harness import Tally
from tests.watch.watched import AGENT, TOOLS, Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write("agent.py", AGENT)
    made.write("tools.py", TOOLS)
    made.cases(up_1="up one", up_2="up two", down="down")
    return made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the parts of the proof found together, in whatever processes they ran."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    missed: Counter[str] = Counter()
    for report in (*terminalreporter.getreports("passed"), *terminalreporter.getreports("failed")):
        for title, told in report.user_properties if report.when == "call" else ():
            if title == "proof":
                name, numbers, misses = told
                for each in (name, "in all"):
                    tallies[each].add(Tally(**numbers))
                    missed[each] += misses
    if tallies:
        terminalreporter.section("proof of watching")
    for name in sorted(tallies, key="in all".__eq__):
        terminalreporter.line(f"{name:22} {tallies[name]}, {missed[name]} missed")
