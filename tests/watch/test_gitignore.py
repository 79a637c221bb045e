"""Files and folders that are not watched: generated ones, temporary ones, and those that git ignores."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.watch.scanned import list_files, make_files, scan, start_scanner
from workbench.watch.folder_scanner import Folders
from workbench.watch.gitignore import Rules


@pytest.mark.parametrize(
    ("folder", "beside"), [("build", "pyproject.toml"), ("dist", "package.json"), ("target", "Cargo.toml")]
)
def test_a_folder_is_build_output_only_next_to_its_build_file(tmp_path: Path, folder: str, beside: str) -> None:
    make_files(tmp_path, f"{folder}/a.py", "deeper/agent.py", f"deeper/{folder}/b.py")
    before = scan(tmp_path)
    assert list_files(before, tmp_path) == {f"{folder}/a.py", "deeper/agent.py", f"deeper/{folder}/b.py"}

    make_files(tmp_path, beside)

    assert list_files(scan(tmp_path, before), tmp_path) == {beside, "deeper/agent.py", f"deeper/{folder}/b.py"}


@pytest.mark.parametrize(
    "name",
    [
        *["agent.py~", "#agent.py#", ".#agent.py", ".agent.py.swp", ".agent.py.swx", "4913", ".agent.py.un~"],
        *["agent.py___jb_tmp___", ".goutputstream-X1Y2Z3", ".~lock.data.csv#", "~$data.xlsx", "agent.py.bak"],
        *["x.tmp", "sedAb12Cd", ".nfs000000000a1b2c3d00000001", ".DS_Store", "agent.pyc", ".coverage"],
    ],
)
def test_temporary_files_of_editors_and_systems_are_not_watched(tmp_path: Path, name: str) -> None:
    make_files(tmp_path, "agent.py", name)

    assert list_files(scan(tmp_path), tmp_path) == {"agent.py"}


def test_nested_gitignore_files_are_obeyed(tmp_path: Path) -> None:
    make_files(
        tmp_path, "a.log", "keep.log", "out/x.py", "data/raw/1.csv", "data/2.csv", "sub/x.txt", "sub/y.txt", "x.txt"
    )
    make_files(tmp_path, "sub/deep/x.txt", "sub/deep/a.log", "other/sub/x.txt", "anchored/x", "other/anchored/x")
    (tmp_path / ".gitignore").write_text("# logs\n*.log\n!keep.log\nout/\ndata/raw\n/anchored\n")
    (tmp_path / "sub/.gitignore").write_text("x.txt\n!*.log\n")

    assert list_files(scan(tmp_path), tmp_path) == {
        *[".gitignore", "sub/.gitignore", "keep.log", "data/2.csv", "x.txt", "sub/y.txt", "sub/deep/a.log"],
        *["other/sub/x.txt", "other/anchored/x"],
    }


def test_an_edited_gitignore_applies_at_the_next_scan(tmp_path: Path) -> None:
    make_files(tmp_path, "a.log", "out/x.py")
    (tmp_path / ".gitignore").write_text("*.log\n")
    first = scan(tmp_path)
    (tmp_path / ".gitignore").write_text("out/\n")

    assert list_files(first, tmp_path) == {".gitignore", "out/x.py"}
    assert list_files(scan(tmp_path, first), tmp_path) == {".gitignore", "a.log"}


def test_invalid_patterns_and_bytes_in_a_gitignore_are_ignored(tmp_path: Path) -> None:
    make_files(tmp_path, "a.log", "b.txt")
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbf!\n/\n\\\n***\xff\xfe[\n*.log\r\n")

    assert list_files(scan(tmp_path), tmp_path) == {".gitignore", "b.txt"}


def test_a_pattern_with_many_stars_is_matched_quickly(tmp_path: Path) -> None:
    make_files(tmp_path, "a" * 200, "a" * 200 + "b", "keep.txt", "x1y2z.log", "d/x1y2z.log/f")
    (tmp_path / ".gitignore").write_text("*a" * 30 + "b\nx*y*z.log\n" + "**/a/" * 12 + "b\n")

    assert list_files(scan(tmp_path), tmp_path) == {".gitignore", "a" * 200, "keep.txt"}


def test_environment_files_are_watched_although_git_ignores_them(tmp_path: Path) -> None:
    make_files(tmp_path, ".env", ".env.local", "prod.env", "other")
    (tmp_path / ".gitignore").write_text("*\n.env*\n")

    assert list_files(scan(tmp_path), tmp_path) == {".env", ".env.local", "prod.env"}


def test_gitignore_rules_of_the_enclosing_repository_apply(tmp_path: Path) -> None:
    make_files(tmp_path, ".git/info/exclude", "project/a.log", "project/b.tape", "project/c.py", "project/gen/d.py")
    (tmp_path / ".git/info/exclude").write_text("*.tape\n")
    (tmp_path / ".gitignore").write_text("*.log\n/project/gen\n")

    assert list_files(scan(tmp_path / "project"), tmp_path) >= {"project/c.py", ".gitignore"}
    assert list_files(scan(tmp_path / "project"), tmp_path / "project") >= {"c.py"}
    assert not list_files(scan(tmp_path / "project"), tmp_path) & {
        "project/a.log",
        "project/b.tape",
        "project/gen/d.py",
    }


def test_a_requested_folder_is_watched_although_git_ignores_it(tmp_path: Path) -> None:
    make_files(tmp_path, ".git/HEAD", "agent.py", "prompts/a.md", "prompts/.gitignore", "prompts/b.log", "build/c.md")
    (tmp_path / ".gitignore").write_text("prompts\nbuild\n")
    (tmp_path / "prompts/.gitignore").write_text("*.log")
    more = (tmp_path / "prompts", tmp_path / "build")

    assert list_files(scan(Folders(tmp_path, more)), tmp_path) == {
        *["agent.py", ".gitignore", "prompts/a.md", "prompts/.gitignore", "build/c.md"]
    }


def test_a_nested_repository_has_its_own_gitignore_rules(tmp_path: Path) -> None:
    make_files(tmp_path, "sub/.git/HEAD", "sub/a.log", "a.log")
    (tmp_path / ".gitignore").write_text("*.log")

    assert list_files(scan(tmp_path), tmp_path) == {".gitignore", "sub/a.log"}


def test_a_repeated_scan_evaluates_no_gitignore_rule_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_files(tmp_path, *(f"{one}/{two}/x.log" for one in range(8) for two in range(8)))
    (tmp_path / ".gitignore").write_text("*.log\n")
    scanner = start_scanner(tmp_path)
    evaluated_paths: list[str] = []
    monkeypatch.setattr(Rules, "is_excluded", lambda self, path, *, folder: evaluated_paths.append(path) or False)
    scanner.scan()

    assert not [path for path in evaluated_paths if path.endswith(".log")]
