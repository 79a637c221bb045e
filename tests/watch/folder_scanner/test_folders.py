"""The folders and files of a project that are watched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.watch.scanned import list_files, make_files, scan
from workbench.watch import folder_scanner as scanner_module
from workbench.watch.folder_scanner import Folders


def test_a_project_is_watched_except_generated_files(tmp_path: Path) -> None:
    watched_files = [
        "agent.py",
        "prompts/system.md",
        "a/b/c/d.json",
        "env/settings.py",
        ".env",
        "target/agent.py",
        "build/x.py",
    ]
    excluded_files = [
        *[".git/HEAD", ".hg/store", ".svn/entries", ".workbench/history.db", ".adk/eval_history/x.json"],
        *["__pycache__/agent.cpython-311.pyc", "a/.mypy_cache/x", ".pytest_cache/x", ".ruff_cache/x", ".idea/x.xml"],
        *[".venv/lib/x.py", "web/node_modules/p/i.js", "a/site-packages/x.py", "agent.egg-info/PKG-INFO"],
        *["old/pyvenv.cfg", "old/lib/x.py", "mine/CACHEDIR.TAG", "mine/x.py", "conda/conda-meta/history"],
    ]
    make_files(tmp_path, *watched_files, *excluded_files)

    assert list_files(scan(tmp_path), tmp_path) == set(watched_files)


def test_requested_folders_and_files_outside_the_project_are_watched(tmp_path: Path) -> None:
    make_files(
        tmp_path, "project/agent.py", "library/src/lib/__init__.py", "library/.venv/x.py", "rules.md", "other.md"
    )
    more = (tmp_path / "library/src", tmp_path / "rules.md", tmp_path / "project", tmp_path / "nothing/there.md")

    picture = scan(Folders(tmp_path / "project", more))

    assert list_files(picture, tmp_path) == {"project/agent.py", "library/src/lib/__init__.py", "rules.md"}
    assert picture.missing == {str(tmp_path / "nothing/there.md")}


def test_dependencies_are_watched_in_any_folder(tmp_path: Path) -> None:
    make_files(
        tmp_path, "project/agent.py", "project/out/data.json", "project/out/more.json", "project/.cache/x", "far/a.csv"
    )
    (tmp_path / "project/.gitignore").write_text("out\n")
    used_paths = [tmp_path / "project/out/data.json", tmp_path / "far/a.csv", tmp_path / "far/not/there.csv"]

    picture = scan(Folders(tmp_path / "project").add_used(used_paths))

    found = list_files(picture, tmp_path)
    assert found == {"project/agent.py", "project/.gitignore", "project/out/data.json", "far/a.csv"}
    assert str(tmp_path / "far") in picture.folders


def test_linked_files_are_watched_by_both_paths(tmp_path: Path) -> None:
    make_files(tmp_path, "project/real/a.py", "outside/b.py", "elsewhere/c.md")
    (tmp_path / "project/link").symlink_to("real")
    (tmp_path / "project/out").symlink_to(tmp_path / "outside")
    (tmp_path / "project/c.md").symlink_to(tmp_path / "elsewhere/c.md")
    (tmp_path / "project/dangling.md").symlink_to(tmp_path / "elsewhere/none.md")

    assert list_files(scan(tmp_path / "project"), tmp_path) == {
        *["project/real/a.py", "project/link/a.py", "project/out/b.py", "outside/b.py"],
        *["project/c.md", "elsewhere/c.md"],
    }


def test_circular_links_do_not_make_the_scan_endless(tmp_path: Path) -> None:
    make_files(tmp_path, "a/b/x.py")
    (tmp_path / "a/b/up").symlink_to(tmp_path / "a")
    (tmp_path / "self").symlink_to(tmp_path)
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")

    found = list_files(scan(tmp_path), tmp_path)

    assert {"a/b/x.py", "a/b/up/b/x.py", "self/a/b/x.py"} <= found
    assert len(found) < 20


def test_links_between_many_folders_do_not_multiply_the_watched_files(tmp_path: Path) -> None:
    for level in range(12):
        make_files(tmp_path, f"l{level}/x.py")
        for link in range(4):
            (tmp_path / f"l{level}/to{link}").symlink_to(tmp_path / f"l{level + 1}")
    make_files(tmp_path, "l12/x.py")

    picture = scan(tmp_path)

    assert "l12/x.py" in list_files(picture, tmp_path)
    assert sum(len(folder.names) for folder in picture.folders.values()) < 200


def test_a_link_to_a_large_folder_is_followed_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner_module, "_LINKED_FOLDERS", 50)
    make_files(tmp_path, "project/agent.py", *(f"data/{number}/x.csv" for number in range(200)))
    (tmp_path / "project/data").symlink_to(tmp_path / "data")

    picture = scan(tmp_path / "project")

    assert len(picture.folders) < 60
    assert picture.too_much


def test_a_link_to_an_environment_is_excluded(tmp_path: Path) -> None:
    make_files(tmp_path, "project/agent.py", "envs/one/pyvenv.cfg", "envs/one/lib/x.py", "node_modules/p/x.js")
    (tmp_path / "project/env").symlink_to(tmp_path / "envs/one")
    (tmp_path / "project/modules").symlink_to(tmp_path / "node_modules")

    assert list_files(scan(tmp_path / "project"), tmp_path) == {"project/agent.py"}


def test_a_project_opened_through_a_link_is_watched_by_both_paths(tmp_path: Path) -> None:
    make_files(tmp_path, "project/a/b.py", "project/c.log")
    (tmp_path / "project/.gitignore").write_text("*.log")
    (tmp_path / "link").symlink_to("project")

    assert list_files(scan(tmp_path / "link"), tmp_path) == {
        *["project/.gitignore", "link/.gitignore", "link/a/b.py", "project/a/b.py"]
    }


def test_pipes_are_not_watched(tmp_path: Path) -> None:
    make_files(tmp_path, "agent.py")
    os.mkfifo(tmp_path / "pipe")

    assert list_files(scan(tmp_path), tmp_path) == {"agent.py"}
    assert set(scan(tmp_path).folders[str(tmp_path)].files) == {"agent.py"}


@pytest.mark.needs_permissions
def test_an_unreadable_folder_affects_no_other_folder(tmp_path: Path) -> None:
    make_files(tmp_path, "secret/x.py", "agent.py")
    (tmp_path / "secret").chmod(0)
    try:
        picture = scan(Folders(tmp_path).add_used([tmp_path / "secret/x.py"]))
        assert list_files(picture, tmp_path) == {"agent.py"}
    finally:
        (tmp_path / "secret").chmod(0o700)
