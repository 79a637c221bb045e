"""The worktree of a search: its paths, and what is linked into it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from workbench.engine.git_worktrees import ChangedFile, Repository, Worktree


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
    git(top, "commit", "--quiet", "-m", "Begin")
    (top / "project/.env").write_text("B=2\n")
    (top / "venv/bin").mkdir(parents=True)
    return top


AUTHOR = ("-c", "user.name=Ann", "-c", "user.email=a@example.org")


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *AUTHOR, *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


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
    git(top, "commit", "--quiet", "-m", "Track it")
    (top / "project/.env").write_text("B=3\n")
    repository = Repository(top)

    with Worktree(repository, top / "project", linked=["project/.env"]) as worktree:
        for revision, content in (("HEAD~1", "B=3\n"), ("HEAD", "B=2\n"), ("HEAD~1", "B=3\n")):
            worktree.check_out(repository.require_commit(revision, option="--bad"))
            assert (worktree.project / ".env").read_text() == content
    assert (top / "project/.env").read_text() == "B=3\n"


def test_subjects_and_names_may_have_any_character(top: Path) -> None:
    subject = "unit\x1fand record\x1eseparators"
    git(top, "commit", "--quiet", "--allow-empty", "--author=A\x1fB <a@example.org>", "-m", subject)

    commits = Repository(top).list_commits("HEAD")

    assert [each.subject for each in commits] == ["Begin", subject]
    assert commits[1].author == "A\x1fB"
    assert commits[1].parents == (commits[0].id,)


@pytest.mark.parametrize("renames", ["true", "false"])
def test_a_renamed_file_is_shown_with_both_names(top: Path, renames: str) -> None:
    (top / "project/helper.py").write_text("".join(f"line = {number}\n" for number in range(20)))
    git(top, "add", "project/helper.py")
    git(top, "commit", "--quiet", "-m", "Add it")
    git(top, "config", "diff.renames", renames)
    git(top, "mv", "project/helper.py", "project/rooms.py")
    (top / "project/rooms.py").write_text("".join(f"line = {number}\n" for number in range(21)))
    git(top, "commit", "--quiet", "--all", "-m", "Rename it")
    repository = Repository(top)
    commit = repository.list_commits("HEAD")[-1]

    changed = repository.list_changed_files(commit)

    assert changed == [ChangedFile("project/rooms.py", "project/helper.py", changes_names=True)]
    diff = repository.diff(commit, changed)
    assert "rename from project/helper.py" in diff
    assert "+line = 20" in diff
    assert "+line = 0" not in diff


def test_signatures_are_not_shown(top: Path) -> None:
    signer = top.parent / "signer"  # as gpg, it prints a signature and that it made one
    signer.write_text('#!/bin/sh\ncat >/dev/null\necho "[GNUPG:] SIG_CREATED " >&2\necho SIGNED\n')
    signer.chmod(0o755)
    git(top, "config", "gpg.program", str(signer))
    git(top, "commit", "--quiet", "--allow-empty", "--gpg-sign=0", "-m", "Signed")
    git(top, "config", "log.showSignature", "true")
    assert "SIGNED" in git(top, "cat-file", "commit", "HEAD")

    assert [each.subject for each in Repository(top).list_commits("HEAD")] == ["Begin", "Signed"]


def test_nothing_is_linked_into_a_folder_outside(top: Path) -> None:
    outside = top.parent / "outside"
    outside.mkdir()
    (top / "conf").symlink_to(outside)
    (top / "project").rename(top / "moved")
    (top / "project").symlink_to(outside)
    git(top, "add", "--all", "conf", "project")
    git(top, "commit", "--quiet", "-m", "Link elsewhere")
    repository = Repository(top)
    (top / "conf").unlink()
    (top / "project").unlink()
    (top / "conf").mkdir()
    (top / "moved").rename(top / "project")
    (top / "conf/.env").write_text("C=3\n")

    with Worktree(repository, top / "project", linked=["conf/.env", "project/.env"]) as worktree:
        worktree.check_out(repository.require_commit("HEAD", option="--bad"))

        assert not worktree.has_project
    assert not list(outside.iterdir())


@pytest.mark.parametrize("is_link", [False, True])
def test_a_tracked_store_is_not_that_of_the_search(top: Path, is_link: bool) -> None:
    store = top / "project/.workbench"
    if is_link:
        (top.parent / "outside").mkdir()
        store.symlink_to(top.parent / "outside")
    else:
        store.mkdir()
        (store / "note").write_text("tracked")
    git(top, "add", "--force", "project/.workbench")
    git(top, "commit", "--quiet", "-m", "Track it")
    git(top, "rm", "-r", "--quiet", "project/.workbench")
    git(top, "commit", "--quiet", "-m", "Remove it")
    repository = Repository(top)

    with Worktree(repository, top / "project") as worktree:
        for number, revision in enumerate(("HEAD", "HEAD~1", "HEAD~2", "HEAD~1", "HEAD")):
            worktree.check_out(repository.require_commit(revision, option="--bad"))
            (worktree.project / f".workbench/{number}").write_text("result")
    results = top / "project/.workbench/bisect/.workbench"
    assert sorted(each.name for each in results.iterdir()) == ["0", "1", "2", "3", "4"]


def test_submodules_of_an_old_commit_do_not_stop_a_check_out(top: Path) -> None:
    head = git(top, "rev-parse", "HEAD").strip()
    (top / ".gitmodules").write_text('[submodule "lib"]\n\tpath = lib\n\turl = ./nowhere\n')
    git(top, "add", ".gitmodules")
    git(top, "update-index", "--add", "--cacheinfo", f"160000,{head},lib")
    git(top, "commit", "--quiet", "-m", "Add a submodule")
    git(top, "rm", "--quiet", "--cached", "lib")
    git(top, "commit", "--quiet", "-m", "Remove it")
    git(top, "config", "submodule.recurse", "true")
    git(top, "config", "submodule.lib.active", "true")
    git(top, "config", "submodule.lib.url", "./nowhere")
    repository = Repository(top)

    with Worktree(repository, top / "project") as worktree:
        for revision in ("HEAD~1", "HEAD"):
            worktree.check_out(repository.require_commit(revision, option="--bad"))
            assert worktree.has_project
