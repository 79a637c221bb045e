"""The search for a commit on the screen, in a real repository."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


async def test_the_commit_is_found_and_each_step_can_be_looked_at(project: Any, open_app: Open) -> None:
    async with open_app(project.path) as screen:
        await screen.until("0/1")
        await screen.press("j", "j", "5")
        await screen.until("1 execution")
        await screen.press("b")
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
        await screen.until("turned red in", "else use --repeats", "command `workbench bisect lights.evalset.json:on`")
    assert git(project.path, "worktree", "list").count("\n") == 0


async def test_a_problem_is_shown_and_escape_closes(project: Any, open_app: Open) -> None:
    git(project.path, "checkout", "--quiet", "HEAD~2")
    async with open_app(project.path) as screen:
        await screen.until("on")
        await screen.press("j", "j", "5")
        await screen.until("1 execution")
        await screen.press("b")
        await screen.until("so there is nothing to find", "the search found nothing")
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
        await screen.until("searching …", "looking at the newest commit …")
        await screen.press("escape")
        await screen.until("1 execution, old to new")
        for _ in range(500):
            if git(project.path, "worktree", "list").count("\n") == 0:
                break
            await screen.pilot.pause(0.02)
    assert git(project.path, "worktree", "list").count("\n") == 0
