"""The worktree of a search: its paths, and what is linked into it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from workbench.engine.git_worktrees import Repository, Worktree


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a repository with a tracked and an untracked `.env`, and a project in a folder of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    top = tmp_path / "repository"
    (top / "project").mkdir(parents=True)
    (top / "tracked.env").write_text("A=1\n")
    (top / "project/agent.py").write_text("x = 1\n")
    git(top, "init", "--quiet")
    git(top, "add", "--all")
    git(top, "-c", "user.name=Ann", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "Begin")
    (top / "project/.env").write_text("B=2\n")
    (top / "venv/bin").mkdir(parents=True)
    return top


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_paths_are_mapped_except_linked_files_and_interpreters(top: Path) -> None:
    repository = Repository(top / "project")
    linked = repository.list_untracked_env_files()
    assert linked == ["project/.env"]

    with Worktree(repository, top / "project", linked=linked, interpreters=[top / "venv", top.parent]) as worktree:
        moved = worktree.to_worktree(str(top / "project/agent.py"))
        assert moved == f"{worktree.top}/project/agent.py"
        assert worktree.to_worktree(moved) == moved
        assert worktree.to_repository(moved) == str(top / "project/agent.py")
        assert worktree.is_only_in_repository(str(top / "project/agent.py"))
        for path in (top / "project/.env", top / "venv/bin/python", top.parent / "elsewhere.py"):
            assert worktree.to_worktree(str(path)) == str(path)


def test_a_check_out_has_the_commit_the_links_and_nothing_else(top: Path) -> None:
    repository = Repository(top)
    commit = repository.require_commit("HEAD", option="--bad")

    with Worktree(repository, top / "project", linked=["project/.env"]) as worktree:
        worktree.check_out(commit)
        (worktree.project / "left_by_agent").write_text("x")
        (worktree.project / "agent.py").write_text("y = 2\n")
        worktree.commit = None
        worktree.check_out(commit)

        names = {path.name for path in worktree.project.iterdir()}
        assert names == {".env", ".workbench", "agent.py"}
        assert (worktree.project / "agent.py").read_text() == "x = 1\n"
        assert (worktree.project / ".env").resolve() == top / "project/.env"
        assert (worktree.project / ".workbench").resolve() == top / "project/.workbench/bisect/.workbench"
    assert not worktree.top.exists()
    assert (top / "project/.env").read_text() == "B=2\n"


def test_a_tracked_env_file_replaces_the_link(top: Path) -> None:
    git(top, "add", "--force", "project/.env")
    git(top, "-c", "user.name=Ann", "-c", "user.email=a@example.org", "commit", "--quiet", "-m", "Track it")
    (top / "project/.env").write_text("B=3\n")
    repository = Repository(top)

    with Worktree(repository, top / "project", linked=["project/.env"]) as worktree:
        for revision, content in (("HEAD~1", "B=3\n"), ("HEAD", "B=2\n"), ("HEAD~1", "B=3\n")):
            worktree.check_out(repository.require_commit(revision, option="--bad"))
            assert (worktree.project / ".env").read_text() == content
    assert (top / "project/.env").read_text() == "B=3\n"
