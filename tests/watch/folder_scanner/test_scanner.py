"""Looking finds what differs, without events, whatever clocks say."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.watch.eyes import SAVES
from tests.watch.folder_scanner.test_folders import tree
from workbench.watch import folder_scanner as scanning
from workbench.watch import folder_scanner as watched
from workbench.watch.folder_scanner import Folders, Scanner
from workbench.watch.gitignore import Rules


def scanner(folders: Folders | Path) -> Scanner:
    found = Scanner(Folders(folders) if isinstance(folders, Path) else folders)
    found.start()
    return found


def look(found: Scanner, root: Path) -> set[str]:
    return {os.path.relpath(path, root) for path in found.scan()}


@pytest.mark.parametrize("save", SAVES)
def test_every_way_of_saving_shows_once(tmp_path: Path, save: Callable[[Path, str], None]) -> None:
    found = scanner(tree(tmp_path, "a/agent.py", "b.py"))

    save(tmp_path / "a/agent.py", "other")

    assert look(found, tmp_path) == {"a/agent.py"}
    assert look(found, tmp_path) == set()


def test_added_and_removed_files_are_found_with_their_folder(tmp_path: Path) -> None:
    found = scanner(tree(tmp_path, "a/old.py", "b/x.py"))
    (tmp_path / "a/old.py").unlink()
    tree(tmp_path, "b/new.py", "c/d/e.py")

    assert look(found, tmp_path) == {"a", "a/old.py", "b", "b/new.py", ".", "c", "c/d", "c/d/e.py"}


def test_a_folder_that_is_also_asked_for_by_itself_is_no_change(tmp_path: Path) -> None:
    found = scanner(tree(tmp_path, "a/agent.py", "b.py"))

    for used in ([tmp_path], [tmp_path, tmp_path / "a"], [tmp_path / "a"], []):
        assert found.scan(Folders(tmp_path).add_used(used)) == set()

    found.scan(Folders(tmp_path).add_used([tmp_path / "a"]))
    tree(tmp_path, "a/new.py")
    assert look(found, tmp_path) == {"a", "a/new.py"}


def test_a_folder_that_moves_shows_with_all_in_it_at_both_places(tmp_path: Path) -> None:
    found = scanner(tree(tmp_path, "a/b/x.py", "c/y.py"))
    (tmp_path / "a/b").rename(tmp_path / "c/b")

    assert look(found, tmp_path) == {"a", "a/b", "a/b/x.py", "c", "c/b", "c/b/x.py"}


def test_a_folder_that_was_replaced_shows_with_all_in_it(tmp_path: Path) -> None:
    found = scanner(tree(tmp_path, "a/x.py", "b.py"))
    shutil.copytree(tmp_path / "a", tmp_path / "new")
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "new").rename(tmp_path / "a")

    assert {"a", "a/x.py"} <= look(found, tmp_path) <= {".", "a", "a/x.py"}


@pytest.mark.parametrize("when", [0, 1, -5, 2**31 + 5, 4_000_000_000])
def test_times_in_the_past_and_in_the_future_are_other_times(tmp_path: Path, when: int) -> None:
    found = scanner(tree(tmp_path, "a.py"))
    (tmp_path / "a.py").write_text("b.py")
    os.utime(tmp_path / "a.py", (when, when))

    assert look(found, tmp_path) == {"a.py"}

    (tmp_path / "a.py").write_text("c.py")
    os.utime(tmp_path / "a.py", (when, when))

    assert look(found, tmp_path) == {"a.py"}, "the same length and the same time, set back"


def test_where_times_are_full_seconds_a_second_save_in_the_same_second_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        watched, "make_file_signature", lambda there: (there.st_mtime_ns // 10**9 * 10**9, 0, there.st_size, 1)
    )
    path = tree(tmp_path, "a.py") / "a.py"
    now = path.stat().st_mtime_ns
    found = scanner(tmp_path)
    for text in ("b.py", "c.py", "d.py"):
        path.write_text(text)
        os.utime(path, ns=(now, now))

        assert look(found, tmp_path) == {"a.py"}, text
    assert look(found, tmp_path) == set()


def test_content_is_compared_only_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tree(tmp_path, "a.py") / "a.py"
    os.utime(path, (1_000_000_000, 1_000_000_000))
    found = scanner(tmp_path)
    path.write_text("b.py")
    look(found, tmp_path)
    later = time.monotonic() + 10
    monkeypatch.setattr(time, "monotonic", lambda: later)
    look(found, tmp_path)

    read: list[str] = []
    monkeypatch.setattr(scanning, "_hash_content", read.append)
    look(found, tmp_path)

    assert not read


def test_an_event_says_that_a_path_is_other_whatever_kind_it_is(tmp_path: Path) -> None:
    found = scanner(tree(tmp_path, "a/x.py"))
    path = str(tmp_path / "a/x.py")

    assert found.apply_event(path).paths == {path}, "nothing differs, but an event never lies"
    (tmp_path / "a/y.py").write_text("")
    assert found.apply_event(str(tmp_path / "a/y.py")).paths == {str(tmp_path / "a"), str(tmp_path / "a/y.py")}
    (tmp_path / "a/y.py").unlink()
    assert found.apply_event(str(tmp_path / "a/y.py")).paths == {str(tmp_path / "a"), str(tmp_path / "a/y.py")}
    assert look(found, tmp_path) == set(), "events were taken in"


def test_events_of_excluded_and_temporary_files_are_ignored(tmp_path: Path) -> None:
    found = scanner(tree(tmp_path, "a/x.py", "a/.gitignore"))
    (tmp_path / "a/.gitignore").write_text("*.log")
    look(found, tmp_path)
    tree(tmp_path, "a/b.log", "a/x.py~", "a/__pycache__/x.pyc")

    for name in ("b.log", "x.py~", "__pycache__", "never.py"):
        seen = found.apply_event(str(tmp_path / "a" / name))
        assert not seen.paths, name
        assert not seen.needs_scan, name


def test_folders_that_come_and_go_need_a_look(tmp_path: Path) -> None:
    found = scanner(tree(tmp_path, "a/x.py"))
    (tmp_path / "a/new").mkdir()
    assert found.apply_event(str(tmp_path / "a/new")).needs_scan
    shutil.rmtree(tmp_path / "a")
    assert found.apply_event(str(tmp_path / "a")).needs_scan
    assert found.apply_event(str(tmp_path / "unknown/x.py")).needs_scan


def test_a_gitignore_that_appears_needs_a_look(tmp_path: Path) -> None:
    found = scanner(tree(tmp_path, "a.log"))
    (tmp_path / ".gitignore").write_text("*.log")

    assert found.apply_event(str(tmp_path / ".gitignore")).needs_scan


def test_a_file_behind_a_link_shows_by_the_link_too(tmp_path: Path) -> None:
    tree(tmp_path, "project/agent.py", "far/prompt.md")
    (tmp_path / "project/prompt.md").symlink_to(tmp_path / "far/prompt.md")
    found = scanner(tmp_path / "project")
    (tmp_path / "far/prompt.md").write_text("other")

    told = {str(tmp_path / "project/prompt.md"), str(tmp_path / "far/prompt.md")}
    assert found.apply_event(str(tmp_path / "far/prompt.md")).paths == told
    (tmp_path / "far/prompt.md").write_text("another one")
    assert found.scan() == told


def test_a_link_with_a_new_target_is_found(tmp_path: Path) -> None:
    tree(tmp_path, "a.md", "b.md", "one/x.py", "two/x.py")
    (tmp_path / "link.md").symlink_to("a.md")
    (tmp_path / "folder").symlink_to("one")
    found = scanner(tmp_path)
    for link, target in (("link.md", "b.md"), ("folder", "two")):
        (tmp_path / link).unlink()
        (tmp_path / link).symlink_to(target)

    assert {"link.md", "folder/x.py"} <= look(found, tmp_path)


def test_added_paths_have_no_earlier_state(tmp_path: Path) -> None:
    tree(tmp_path, "project/agent.py", "far/data.json", "project/.cache/x.json")
    folders = Folders(tmp_path / "project")
    found = scanner(folders)
    (tmp_path / "project/agent.py").write_text("other")
    folders = folders.add_used(
        [tmp_path / "far/data.json", tmp_path / "project/.cache/x.json", tmp_path / "project/none"]
    )

    assert found.scan(folders) == {str(tmp_path / "project/agent.py")}

    (tmp_path / "far/data.json").write_text("[]")
    (tmp_path / "project/.cache/x.json").unlink()
    (tmp_path / "project/none").write_text("")
    assert found.scan() >= {
        *(str(tmp_path / path) for path in ("far/data.json", "project/.cache/x.json", "project/none"))
    }


def test_a_folder_that_a_case_listed_shows_whatever_name_comes_or_goes(tmp_path: Path) -> None:
    tree(tmp_path, "project/agent.py", "project/data/a.csv", "far/x")
    found = scanner(Folders(tmp_path / "project").add_used([tmp_path / "project/data", tmp_path / "far"]))
    tree(tmp_path, "project/data/b.tmp", "far/y")

    assert look(found, tmp_path) == {"project/data", "far"}

    (tmp_path / "far/x").write_text("content is not a name")
    assert look(found, tmp_path) == set()
    (tmp_path / "project/data/b.tmp").unlink()
    assert found.apply_event(str(tmp_path / "project/data/b.tmp")).paths == {str(tmp_path / "project/data")}


def test_a_file_that_is_looked_for_shows_when_the_way_to_it_appears(tmp_path: Path) -> None:
    tree(tmp_path, "project/agent.py")
    wanted = tmp_path / "far/away/x.json"
    found = scanner(Folders(tmp_path / "project").add_used([wanted]))
    tree(tmp_path, "far/away/x.json")

    assert str(wanted) in found.scan()

    shutil.rmtree(tmp_path / "far")
    assert str(wanted) in found.scan()


def test_looking_at_many_folders_is_quick_and_asks_no_rule_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, *(f"{one}/{two}/x.log" for one in range(8) for two in range(8)))
    (tmp_path / ".gitignore").write_text("*.log\n")
    found = scanner(tmp_path)
    asked: list[str] = []
    monkeypatch.setattr(Rules, "is_excluded", lambda self, path, *, folder: asked.append(path) or False)
    found.scan()

    assert not [path for path in asked if path.endswith(".log")]
