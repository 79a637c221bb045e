"""Which folders and files of a project are watched."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from workbench.watch import folder_scanner as watched
from workbench.watch.folder_scanner import Folders, Picture


def tree(root: Path, *files: str) -> Path:
    """Make files, each with its own path as its content."""
    for file in files:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file)
    return root


def take(folders: Folders | Path, known: Picture | None = None) -> Picture:
    return watched.scan_folders(Folders(folders) if isinstance(folders, Path) else folders, known, lambda: False)


def files(picture: Picture, root: Path) -> set[str]:
    """The watched files below a root, by every path that leads to them."""
    paths = (path for folder in picture.folders.values() for name in folder.files for path in folder.list_paths(name))
    return {os.path.relpath(path, root) for path in paths if Path(path).is_relative_to(root) and Path(path).is_file()}


def test_a_project_is_watched_except_generated_files(tmp_path: Path) -> None:
    kept = ["agent.py", "prompts/system.md", "a/b/c/d.json", "env/settings.py", ".env", "target/agent.py", "build/x.py"]
    left = [
        *[".git/HEAD", ".hg/store", ".svn/entries", ".workbench/history.db", ".adk/eval_history/x.json"],
        *["__pycache__/agent.cpython-311.pyc", "a/.mypy_cache/x", ".pytest_cache/x", ".ruff_cache/x", ".idea/x.xml"],
        *[".venv/lib/x.py", "web/node_modules/p/i.js", "a/site-packages/x.py", "agent.egg-info/PKG-INFO"],
        *["old/pyvenv.cfg", "old/lib/x.py", "mine/CACHEDIR.TAG", "mine/x.py", "conda/conda-meta/history"],
    ]
    tree(tmp_path, *kept, *left)

    assert files(take(tmp_path), tmp_path) == set(kept)


@pytest.mark.parametrize(
    ("folder", "beside"), [("build", "pyproject.toml"), ("dist", "package.json"), ("target", "Cargo.toml")]
)
def test_a_folder_is_a_build_output_only_beside_the_file_that_builds_it(
    tmp_path: Path, folder: str, beside: str
) -> None:
    tree(tmp_path, f"{folder}/a.py", "deeper/agent.py", f"deeper/{folder}/b.py")
    before = take(tmp_path)
    assert files(before, tmp_path) == {f"{folder}/a.py", "deeper/agent.py", f"deeper/{folder}/b.py"}

    tree(tmp_path, beside)

    assert files(take(tmp_path, before), tmp_path) == {beside, "deeper/agent.py", f"deeper/{folder}/b.py"}


@pytest.mark.parametrize(
    "name",
    [
        *["agent.py~", "#agent.py#", ".#agent.py", ".agent.py.swp", ".agent.py.swx", "4913", ".agent.py.un~"],
        *["agent.py___jb_tmp___", ".goutputstream-X1Y2Z3", ".~lock.data.csv#", "~$data.xlsx", "agent.py.bak"],
        *["x.tmp", "sedAb12Cd", ".nfs000000000a1b2c3d00000001", ".DS_Store", "agent.pyc", ".coverage"],
    ],
)
def test_temporary_files_of_editors_and_systems_are_not_watched(tmp_path: Path, name: str) -> None:
    tree(tmp_path, "agent.py", name)

    assert files(take(tmp_path), tmp_path) == {"agent.py"}


def test_gitignore_files_are_obeyed_nested_ones_too(tmp_path: Path) -> None:
    tree(tmp_path, "a.log", "keep.log", "out/x.py", "data/raw/1.csv", "data/2.csv", "sub/x.txt", "sub/y.txt", "x.txt")
    tree(tmp_path, "sub/deep/x.txt", "sub/deep/a.log", "other/sub/x.txt", "anchored/x", "other/anchored/x")
    (tmp_path / ".gitignore").write_text("# logs\n*.log\n!keep.log\nout/\ndata/raw\n/anchored\n")
    (tmp_path / "sub/.gitignore").write_text("x.txt\n!*.log\n")

    assert files(take(tmp_path), tmp_path) == {
        *[".gitignore", "sub/.gitignore", "keep.log", "data/2.csv", "x.txt", "sub/y.txt", "sub/deep/a.log"],
        *["other/sub/x.txt", "other/anchored/x"],
    }


def test_an_edited_gitignore_counts_at_the_next_look(tmp_path: Path) -> None:
    tree(tmp_path, "a.log", "out/x.py")
    (tmp_path / ".gitignore").write_text("*.log\n")
    first = take(tmp_path)
    (tmp_path / ".gitignore").write_text("out/\n")

    assert files(first, tmp_path) == {".gitignore", "out/x.py"}
    assert files(take(tmp_path, first), tmp_path) == {".gitignore", "a.log"}


def test_a_pattern_that_is_none_and_bytes_that_are_no_text_are_passed_over(tmp_path: Path) -> None:
    tree(tmp_path, "a.log", "b.txt")
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbf!\n/\n\\\n***\xff\xfe[\n*.log\r\n")

    assert files(take(tmp_path), tmp_path) == {".gitignore", "b.txt"}


def test_a_pattern_with_many_stars_takes_no_time(tmp_path: Path) -> None:
    tree(tmp_path, "a" * 200, "a" * 200 + "b", "keep.txt", "x1y2z.log", "d/x1y2z.log/f")
    (tmp_path / ".gitignore").write_text("*a" * 30 + "b\nx*y*z.log\n" + "**/a/" * 12 + "b\n")

    assert files(take(tmp_path), tmp_path) == {".gitignore", "a" * 200, "keep.txt"}


def test_environment_files_are_watched_although_git_ignores_them(tmp_path: Path) -> None:
    tree(tmp_path, ".env", ".env.local", "prod.env", "other")
    (tmp_path / ".gitignore").write_text("*\n.env*\n")

    assert files(take(tmp_path), tmp_path) == {".env", ".env.local", "prod.env"}


def test_rules_of_the_repository_above_the_project_count(tmp_path: Path) -> None:
    tree(tmp_path, ".git/info/exclude", "project/a.log", "project/b.tape", "project/c.py", "project/gen/d.py")
    (tmp_path / ".git/info/exclude").write_text("*.tape\n")
    (tmp_path / ".gitignore").write_text("*.log\n/project/gen\n")

    assert files(take(tmp_path / "project"), tmp_path) >= {"project/c.py", ".gitignore"}
    assert files(take(tmp_path / "project"), tmp_path / "project") >= {"c.py"}
    assert not files(take(tmp_path / "project"), tmp_path) & {"project/a.log", "project/b.tape", "project/gen/d.py"}


def test_a_folder_that_was_asked_for_by_name_is_watched_though_git_ignores_it(tmp_path: Path) -> None:
    tree(tmp_path, ".git/HEAD", "agent.py", "prompts/a.md", "prompts/.gitignore", "prompts/b.log", "build/c.md")
    (tmp_path / ".gitignore").write_text("prompts\nbuild\n")
    (tmp_path / "prompts/.gitignore").write_text("*.log")
    more = (tmp_path / "prompts", tmp_path / "build")

    assert files(take(Folders(tmp_path, more)), tmp_path) == {
        *["agent.py", ".gitignore", "prompts/a.md", "prompts/.gitignore", "build/c.md"]
    }


def test_a_nested_repository_has_rules_of_its_own(tmp_path: Path) -> None:
    tree(tmp_path, "sub/.git/HEAD", "sub/a.log", "a.log")
    (tmp_path / ".gitignore").write_text("*.log")

    assert files(take(tmp_path), tmp_path) == {".gitignore", "sub/a.log"}


def test_requested_folders_and_files_outside_the_project_are_watched(tmp_path: Path) -> None:
    tree(tmp_path, "project/agent.py", "library/src/lib/__init__.py", "library/.venv/x.py", "rules.md", "other.md")
    more = (tmp_path / "library/src", tmp_path / "rules.md", tmp_path / "project", tmp_path / "nothing/there.md")

    picture = take(Folders(tmp_path / "project", more))

    assert files(picture, tmp_path) == {"project/agent.py", "library/src/lib/__init__.py", "rules.md"}
    assert picture.missing == {str(tmp_path / "nothing/there.md")}


def test_dependencies_are_watched_wherever_they_are(tmp_path: Path) -> None:
    tree(
        tmp_path, "project/agent.py", "project/out/data.json", "project/out/more.json", "project/.cache/x", "far/a.csv"
    )
    (tmp_path / "project/.gitignore").write_text("out\n")
    used = [tmp_path / "project/out/data.json", tmp_path / "far/a.csv", tmp_path / "far/not/there.csv"]

    picture = take(Folders(tmp_path / "project").add_used(used))

    found = files(picture, tmp_path)
    assert found == {"project/agent.py", "project/.gitignore", "project/out/data.json", "far/a.csv"}
    assert str(tmp_path / "far") in picture.folders


def test_links_lead_to_what_they_mean_by_both_paths(tmp_path: Path) -> None:
    tree(tmp_path, "project/real/a.py", "outside/b.py", "elsewhere/c.md")
    (tmp_path / "project/link").symlink_to("real")
    (tmp_path / "project/out").symlink_to(tmp_path / "outside")
    (tmp_path / "project/c.md").symlink_to(tmp_path / "elsewhere/c.md")
    (tmp_path / "project/dangling.md").symlink_to(tmp_path / "elsewhere/none.md")

    assert files(take(tmp_path / "project"), tmp_path) == {
        *["project/real/a.py", "project/link/a.py", "project/out/b.py", "outside/b.py"],
        *["project/c.md", "elsewhere/c.md"],
    }


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    tree(tmp_path, "a/b/x.py")
    (tmp_path / "a/b/up").symlink_to(tmp_path / "a")
    (tmp_path / "self").symlink_to(tmp_path)
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")

    found = files(take(tmp_path), tmp_path)

    assert {"a/b/x.py", "a/b/up/b/x.py", "self/a/b/x.py"} <= found
    assert len(found) < 20


def test_links_that_multiply_each_other_do_not_explode(tmp_path: Path) -> None:
    for level in range(12):
        tree(tmp_path, f"l{level}/x.py")
        for link in range(4):
            (tmp_path / f"l{level}/to{link}").symlink_to(tmp_path / f"l{level + 1}")
    tree(tmp_path, "l12/x.py")

    picture = take(tmp_path)

    assert "l12/x.py" in files(picture, tmp_path)
    assert sum(len(folder.names) for folder in picture.folders.values()) < 200


def test_a_link_to_a_disk_full_of_data_is_followed_only_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "_LINKED_FOLDERS", 50)
    tree(tmp_path, "project/agent.py", *(f"data/{number}/x.csv" for number in range(200)))
    (tmp_path / "project/data").symlink_to(tmp_path / "data")

    picture = take(tmp_path / "project")

    assert len(picture.folders) < 60
    assert picture.too_much


def test_a_link_to_an_environment_is_left_out(tmp_path: Path) -> None:
    tree(tmp_path, "project/agent.py", "envs/one/pyvenv.cfg", "envs/one/lib/x.py", "node_modules/p/x.js")
    (tmp_path / "project/env").symlink_to(tmp_path / "envs/one")
    (tmp_path / "project/modules").symlink_to(tmp_path / "node_modules")

    assert files(take(tmp_path / "project"), tmp_path) == {"project/agent.py"}


def test_a_project_that_is_reached_by_a_link_is_watched_by_both_paths(tmp_path: Path) -> None:
    tree(tmp_path, "project/a/b.py", "project/c.log")
    (tmp_path / "project/.gitignore").write_text("*.log")
    (tmp_path / "link").symlink_to("project")

    assert files(take(tmp_path / "link"), tmp_path) == {
        *["project/.gitignore", "link/.gitignore", "link/a/b.py", "project/a/b.py"]
    }


def test_pipes_and_sockets_are_not_watched(tmp_path: Path) -> None:
    tree(tmp_path, "agent.py")
    os.mkfifo(tmp_path / "pipe")

    assert files(take(tmp_path), tmp_path) == {"agent.py"}
    assert set(take(tmp_path).folders[str(tmp_path)].files) == {"agent.py"}


@pytest.mark.needs_permissions
def test_a_folder_that_cannot_be_read_costs_only_itself(tmp_path: Path) -> None:
    tree(tmp_path, "secret/x.py", "agent.py")
    (tmp_path / "secret").chmod(0)
    try:
        picture = take(Folders(tmp_path).add_used([tmp_path / "secret/x.py"]))
        assert files(picture, tmp_path) == {"agent.py"}
    finally:
        (tmp_path / "secret").chmod(0o700)
