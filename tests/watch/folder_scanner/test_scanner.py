"""The scanner finds changes without file events, whatever the clock says."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.watch.eyes import SAVES
from tests.watch.scanned import make_files, start_scanner
from workbench.watch import folder_scanner as scanning
from workbench.watch import folder_scanner as watched
from workbench.watch.folder_scanner import Folders, Scanner


def scan_paths(scanner: Scanner, root: Path) -> set[str]:
    return {os.path.relpath(path, root) for path in scanner.scan()}


@pytest.mark.parametrize("save", SAVES)
def test_every_way_of_saving_is_found_once(tmp_path: Path, save: Callable[[Path, str], None]) -> None:
    scanner = start_scanner(make_files(tmp_path, "a/agent.py", "b.py"))

    save(tmp_path / "a/agent.py", "other")

    assert scan_paths(scanner, tmp_path) == {"a/agent.py"}
    assert scan_paths(scanner, tmp_path) == set()


def test_added_and_removed_files_are_found_with_their_folder(tmp_path: Path) -> None:
    scanner = start_scanner(make_files(tmp_path, "a/old.py", "b/x.py"))
    (tmp_path / "a/old.py").unlink()
    make_files(tmp_path, "b/new.py", "c/d/e.py")

    assert scan_paths(scanner, tmp_path) == {"a", "a/old.py", "b", "b/new.py", ".", "c", "c/d", "c/d/e.py"}


def test_requesting_a_watched_folder_reports_no_change(tmp_path: Path) -> None:
    scanner = start_scanner(make_files(tmp_path, "a/agent.py", "b.py"))

    for used_paths in ([tmp_path], [tmp_path, tmp_path / "a"], [tmp_path / "a"], []):
        assert scanner.scan(Folders(tmp_path).add_used(used_paths)) == set()

    scanner.scan(Folders(tmp_path).add_used([tmp_path / "a"]))
    make_files(tmp_path, "a/new.py")
    assert scan_paths(scanner, tmp_path) == {"a", "a/new.py"}


def test_a_moved_folder_is_found_with_its_content_at_both_paths(tmp_path: Path) -> None:
    scanner = start_scanner(make_files(tmp_path, "a/b/x.py", "c/y.py"))
    (tmp_path / "a/b").rename(tmp_path / "c/b")

    assert scan_paths(scanner, tmp_path) == {"a", "a/b", "a/b/x.py", "c", "c/b", "c/b/x.py"}


def test_a_replaced_folder_is_found_with_its_content(tmp_path: Path) -> None:
    scanner = start_scanner(make_files(tmp_path, "a/x.py", "b.py"))
    shutil.copytree(tmp_path / "a", tmp_path / "new")
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "new").rename(tmp_path / "a")

    assert {"a", "a/x.py"} <= scan_paths(scanner, tmp_path) <= {".", "a", "a/x.py"}


@pytest.mark.parametrize("when", [0, 1, -5, 2**31 + 5, 4_000_000_000])
def test_modification_times_in_the_past_or_future_are_found(tmp_path: Path, when: int) -> None:
    scanner = start_scanner(make_files(tmp_path, "a.py"))
    (tmp_path / "a.py").write_text("b.py")
    os.utime(tmp_path / "a.py", (when, when))

    assert scan_paths(scanner, tmp_path) == {"a.py"}

    (tmp_path / "a.py").write_text("c.py")
    os.utime(tmp_path / "a.py", (when, when))

    assert scan_paths(scanner, tmp_path) == {"a.py"}, "the same length and the same time, set back"


def test_a_second_save_within_a_second_is_found_if_times_are_full_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        watched,
        "make_file_signature",
        lambda stat_result: (stat_result.st_mtime_ns // 10**9 * 10**9, 0, stat_result.st_size, 1),
    )
    path = make_files(tmp_path, "a.py") / "a.py"
    now = path.stat().st_mtime_ns
    scanner = start_scanner(tmp_path)
    for text in ("b.py", "c.py", "d.py"):
        path.write_text(text)
        os.utime(path, ns=(now, now))

        assert scan_paths(scanner, tmp_path) == {"a.py"}, text
    assert scan_paths(scanner, tmp_path) == set()


def test_content_is_compared_only_shortly_after_a_save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_files(tmp_path, "a.py") / "a.py"
    os.utime(path, (1_000_000_000, 1_000_000_000))
    scanner = start_scanner(tmp_path)
    path.write_text("b.py")
    scan_paths(scanner, tmp_path)
    later_time = time.monotonic() + 10
    monkeypatch.setattr(time, "monotonic", lambda: later_time)
    scan_paths(scanner, tmp_path)

    read_paths: list[str] = []
    monkeypatch.setattr(scanning, "_hash_content", read_paths.append)
    scan_paths(scanner, tmp_path)

    assert not read_paths


def test_an_event_of_any_kind_marks_its_path_as_changed(tmp_path: Path) -> None:
    scanner = start_scanner(make_files(tmp_path, "a/x.py"))
    path = str(tmp_path / "a/x.py")

    assert scanner.apply_event(path).paths == {path}, "nothing differs, but an event never lies"
    (tmp_path / "a/y.py").write_text("")
    assert scanner.apply_event(str(tmp_path / "a/y.py")).paths == {str(tmp_path / "a"), str(tmp_path / "a/y.py")}
    (tmp_path / "a/y.py").unlink()
    assert scanner.apply_event(str(tmp_path / "a/y.py")).paths == {str(tmp_path / "a"), str(tmp_path / "a/y.py")}
    assert scan_paths(scanner, tmp_path) == set(), "events were taken in"


def test_events_of_excluded_and_temporary_files_are_ignored(tmp_path: Path) -> None:
    scanner = start_scanner(make_files(tmp_path, "a/x.py", "a/.gitignore"))
    (tmp_path / "a/.gitignore").write_text("*.log")
    scan_paths(scanner, tmp_path)
    make_files(tmp_path, "a/b.log", "a/x.py~", "a/__pycache__/x.pyc")

    for name in ("b.log", "x.py~", "__pycache__", "never.py"):
        result = scanner.apply_event(str(tmp_path / "a" / name))
        assert not result.paths, name
        assert not result.needs_scan, name


def test_added_and_removed_folders_require_a_scan(tmp_path: Path) -> None:
    scanner = start_scanner(make_files(tmp_path, "a/x.py"))
    (tmp_path / "a/new").mkdir()
    assert scanner.apply_event(str(tmp_path / "a/new")).needs_scan
    shutil.rmtree(tmp_path / "a")
    assert scanner.apply_event(str(tmp_path / "a")).needs_scan
    assert scanner.apply_event(str(tmp_path / "unknown/x.py")).needs_scan


def test_a_new_gitignore_requires_a_scan(tmp_path: Path) -> None:
    scanner = start_scanner(make_files(tmp_path, "a.log"))
    (tmp_path / ".gitignore").write_text("*.log")

    assert scanner.apply_event(str(tmp_path / ".gitignore")).needs_scan


def test_a_change_of_a_linked_file_is_found_by_the_link_too(tmp_path: Path) -> None:
    make_files(tmp_path, "project/agent.py", "far/prompt.md")
    (tmp_path / "project/prompt.md").symlink_to(tmp_path / "far/prompt.md")
    scanner = start_scanner(tmp_path / "project")
    (tmp_path / "far/prompt.md").write_text("other")

    both_paths = {str(tmp_path / "project/prompt.md"), str(tmp_path / "far/prompt.md")}
    assert scanner.apply_event(str(tmp_path / "far/prompt.md")).paths == both_paths
    (tmp_path / "far/prompt.md").write_text("another one")
    assert scanner.scan() == both_paths


def test_a_link_with_a_new_target_is_found(tmp_path: Path) -> None:
    make_files(tmp_path, "a.md", "b.md", "one/x.py", "two/x.py")
    (tmp_path / "link.md").symlink_to("a.md")
    (tmp_path / "folder").symlink_to("one")
    scanner = start_scanner(tmp_path)
    for link, target in (("link.md", "b.md"), ("folder", "two")):
        (tmp_path / link).unlink()
        (tmp_path / link).symlink_to(target)

    assert {"link.md", "folder/x.py"} <= scan_paths(scanner, tmp_path)


def test_added_paths_have_no_earlier_state(tmp_path: Path) -> None:
    make_files(tmp_path, "project/agent.py", "far/data.json", "project/.cache/x.json")
    folders = Folders(tmp_path / "project")
    scanner = start_scanner(folders)
    (tmp_path / "project/agent.py").write_text("other")
    folders = folders.add_used(
        [tmp_path / "far/data.json", tmp_path / "project/.cache/x.json", tmp_path / "project/none"]
    )

    assert scanner.scan(folders) == {str(tmp_path / "project/agent.py")}

    (tmp_path / "far/data.json").write_text("[]")
    (tmp_path / "project/.cache/x.json").unlink()
    (tmp_path / "project/none").write_text("")
    assert scanner.scan() >= {
        *(str(tmp_path / path) for path in ("far/data.json", "project/.cache/x.json", "project/none"))
    }


def test_a_folder_listed_by_a_case_changes_with_any_name_in_it(tmp_path: Path) -> None:
    make_files(tmp_path, "project/agent.py", "project/data/a.csv", "far/x")
    listed = [tmp_path / "project/data", tmp_path / "far"]
    scanner = start_scanner(Folders(tmp_path / "project").add_used(listed, listed=listed))
    make_files(tmp_path, "project/data/b.tmp", "far/y")

    assert scan_paths(scanner, tmp_path) == {"project/data", "far"}

    (tmp_path / "far/x").write_text("content is not a name")
    assert scan_paths(scanner, tmp_path) == set()
    (tmp_path / "project/data/b.tmp").unlink()
    assert scanner.apply_event(str(tmp_path / "project/data/b.tmp")).paths == {str(tmp_path / "project/data")}


def test_a_folder_that_a_case_did_not_list_changes_only_by_its_own_name(tmp_path: Path) -> None:
    make_files(tmp_path, "project/agent.py", "far/x")
    scanner = start_scanner(Folders(tmp_path / "project").add_used([tmp_path / "far"]))
    make_files(tmp_path, "far/y")

    assert scanner.apply_event(str(tmp_path / "far/y")).paths == set()
    assert scan_paths(scanner, tmp_path) == set()
    shutil.rmtree(tmp_path / "far")
    assert "far" in scan_paths(scanner, tmp_path)


def test_a_missing_dependency_is_found_when_its_folders_appear(tmp_path: Path) -> None:
    make_files(tmp_path, "project/agent.py")
    wanted_path = tmp_path / "far/away/x.json"
    scanner = start_scanner(Folders(tmp_path / "project").add_used([wanted_path]))
    make_files(tmp_path, "far/away/x.json")

    assert str(wanted_path) in scanner.scan()

    shutil.rmtree(tmp_path / "far")
    assert str(wanted_path) in scanner.scan()
