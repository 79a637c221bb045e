"""Fingerprints of the present state."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.watch.watched_case import WatchedCase
from workbench.agents.worker.recording import fingerprints
from workbench.watch.selector import Action
from workbench.watch.snapshot import Snapshot


def test_rows_of_an_unknown_kind_are_never_current(case: WatchedCase) -> None:
    case.add(("moon", "phase", "full"))

    assert case.decide().action is Action.RUN


def test_env_files_change_only_variables_that_the_environment_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTER", "outer")
    case = WatchedCase(tmp_path)
    env = tmp_path / ".env"
    env.write_text("INNER=1\nOUTER=hidden\n")
    secret = fingerprints.derive_secret(str(tmp_path))
    case.add(
        ("env_files", str(env), "-"),
        ("variable", "INNER", fingerprints.of_variable(secret, "1")),
        ("variable", "OUTER", fingerprints.of_variable(secret, "outer")),
        ("variable", "NONE", fingerprints.of_variable(secret, None)),
    )
    assert case.decide().action is Action.NOTHING

    env.write_text("INNER=1\nOUTER=else\n")
    assert case.decide().action is Action.NOTHING
    env.write_text("INNER=2\n")
    assert case.describe_reasons(case.decide()) == ["$INNER changed"]


def test_changes_of_equal_length_and_time_are_seen(tmp_path: Path) -> None:
    state = Snapshot()
    path = tmp_path / "a.txt"
    fingerprints_seen = set()
    for number in range(50):
        path.write_text(f"{number:03}")
        os.utime(path, (1, 1))
        state.forget()
        fingerprints_seen.add(state.answer(_make_question(path)))

    assert len(fingerprints_seen) == 50


def _make_question(path: Path) -> Any:
    from workbench.watch.snapshot import Question

    return Question("file", str(path), None)


@pytest.mark.parametrize(
    "source",
    ["nonlocal x", "def f(a, a): pass", "x = 1; global x", "break", "class A:\n yield 1", "\0", "# coding: x"],
)
def test_every_compile_error_is_found_with_a_message(tmp_path: Path, source: str) -> None:
    (tmp_path / "tools.py").write_text(source)

    broken = Snapshot().find_broken_source(str(tmp_path / "tools.py"))

    assert broken is not None and broken.message
    assert broken.line != 0
