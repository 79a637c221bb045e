"""The search for a commit on the screen, in a real repository."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.report.bisect_report import BisectReport, BisectStep, Commit, CommitOutcome, Suspect
from workbench.tui.dialogs.results_screen import BisectScreen

Open = Callable[..., Any]


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def project(make_history_project: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Create a repository whose second of three commits breaks the case, which has run at the last one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    project = make_history_project("on")
    git(project.path, "init", "--quiet")
    git(project.path, "config", "user.name", "Ann")
    git(project.path, "config", "user.email", "ann@example.org")
    (project.path / ".gitignore").write_text(".workbench/\n__pycache__/\n")
    for prompts, subject in (("nothing", "Begin"), ("on", "Break 改 [/b]"), ("on off", "Go further")):
        project.set_failing_prompts(*prompts.split())
        git(project.path, "add", "--all")
        git(project.path, "commit", "--quiet", "-m", subject)
    project.run()
    return project


STEPS = [
    BisectStep(
        commit=Commit(id=letter * 40, parents=(), subject=subject, author="Ann", date="2026-02-11T10:00:00+01:00"),
        outcome=outcome,
        reason=reason,
        suspects=suspects,
    )
    for letter, subject, outcome, reason, suspects in (
        ("a", "Go further [/b] 改", CommitOutcome.FAILED, "", None),
        ("b", "Begin", CommitOutcome.PASSED, "", 5),
        ("c", "Remove the agent", CommitOutcome.SKIPPED, "the agent cannot be started: no module agent", 5),
        ("d", "Prefer the hall", CommitOutcome.FAILED, "", 1),
    )
]


class StillScreen(BisectScreen):
    """Shows its steps without a search."""

    def _search(self) -> None:  # type: ignore[override]
        for step in STEPS:
            self._add(step)
        report = BisectReport(
            case=self._case, good=STEPS[1].commit, bad=STEPS[0].commit, commits=8, repeats=1, confidence=None,
            suspects=[Suspect(STEPS[3].commit, 1.0)], steps=STEPS, executions=2, notices=(),
            diff="--- a/agent.py\n+++ b/agent.py\n@@ -1 +1 @@\n-room = 'bedroom'\n+room = 'hall'\n",
        )  # fmt: skip
        self._finish(report)


@pytest.mark.parametrize("size", [(40, 10), (80, 24), (140, 42)])
def test_a_snapshot_of_the_result(
    snap_compare: Any, lights: Any, make: Any, make_app: Any, size: tuple[int, int]
) -> None:
    async def open_screen(pilot: Any) -> None:
        screen = pilot.app.screen
        while not hasattr(screen, "screen_context"):
            await pilot.pause(0.02)
            screen = pilot.app.screen
        await pilot.app.push_screen(StillScreen(make.key("on"), screen.screen_context, repeats=1, show_step=print))
        await pilot.pause(0.2)

    assert snap_compare(make_app(lights), terminal_size=size, run_before=open_screen)


async def test_the_commit_is_found_and_each_step_can_be_looked_at(project: Any, open_app: Open) -> None:
    async with open_app(project.path) as screen:
        await screen.until("0/1")
        await screen.press("j", "j", "5")
        await screen.until("1 execution")
        await screen.press("b")
        await screen.until("Which commit broke on?")
        await screen.press("enter")
        await screen.until("turned red in", "Break 改 [/b]", "-nothing", "+on", "- ping (not made)")
        assert "2 executions, 1 verdict known" in screen.text
        await screen.press("j")
        await screen.until("Go further", "failed, known, run")
        await screen.press("enter")
        await screen.until("commit ", "Go further", "ACTUAL")
        await screen.press("escape")
        await screen.until("failed, known, run")
        await screen.press("home", "enter")
        await screen.until("commit ", "Break 改 [/b]", "ACTUAL")
        await screen.press("escape")
        await screen.until("turned red in", "else use --repeats", "is asked for when you press escape")
    assert git(project.path, "worktree", "list").count("\n") == 0


async def test_repeats_are_samples_of_each_commit(project: Any, open_app: Open) -> None:
    async with open_app(project.path) as screen:
        await screen.until("0/1")
        await screen.press("j", "j", "5")
        await screen.until("1 execution")
        await screen.press("b")
        await screen.until("Executions of each commit")
        await screen.press("0", "enter")
        await screen.until("expected a number from 1 to 100")
        await screen.press("backspace", "3", "enter")
        await screen.until("turned red in", "from up to 3 samples of a commit")


async def test_a_problem_is_shown_and_escape_closes(project: Any, open_app: Open) -> None:
    git(project.path, "checkout", "--quiet", "HEAD~2")
    (eval_set,) = project.path.glob("*.evalset.json")
    async with open_app(project.path) as screen:
        await screen.until("on")
        await screen.app._backend.edit(
            lambda workspace: workspace.documents.edit(
                eval_set.name, lambda document: document.set_value(("tag",), "x", case=0), label="x"
            )
        )
        await screen.press("j", "j", "f5", "5")
        await screen.until("1 execution")
        await screen.press("b")
        await screen.until("Which commit broke on?")
        await screen.press("enter")
        await screen.until("so there is nothing to find", "the search found nothing", "the case has unsaved edits")
        await screen.press("escape")
        await screen.until("1 execution, old to new")


async def test_closing_the_screen_removes_the_worktree(project: Any, open_app: Open) -> None:
    (agent,) = project.path.glob("agent*.py")
    agent.write_text(f"{agent.read_text()}\nimport time\ntime.sleep(20)\n")
    git(project.path, "commit", "--quiet", "--all", "-m", "Be slow")
    async with open_app(project.path) as screen:
        await screen.until("0/1")
        await screen.press("j", "j", "5")
        await screen.until("1 execution")
        await screen.press("b")
        await screen.until("Which commit broke on?")
        await screen.press("enter")
        await screen.until("executing ", "Be slow …", "looking at the newest commit …")
        await screen.press("escape")
        await screen.until("1 execution, old to new")
        for _ in range(500):
            if git(project.path, "worktree", "list").count("\n") == 0:
                break
            await screen.pilot.pause(0.02)
    assert git(project.path, "worktree", "list").count("\n") == 0
