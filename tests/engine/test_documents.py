"""Open documents: no edit is lost, whatever becomes of the files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from workbench.engine.documents import OpenDocuments
from workbench.store.documents import EvalSetDocument
from workbench.store.errors import FileChanged, IsDataset, StoreError

LIGHTS = "sets/lights.evalset.json"


def case(eval_id: str, prompt: str = "hello") -> dict[str, object]:
    return {"eval_id": eval_id, "conversation": [{"user_content": {"parts": [{"text": prompt}]}}]}


def write(root: Path, name: str, *eval_ids: str, set_name: str = "lights") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {"eval_set_id": "lights", "name": set_name, "eval_cases": [case(eval_id) for eval_id in eval_ids]}
    path.write_text(json.dumps(data, indent=2) + "\n")
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path, LIGHTS, "on", "off")


@pytest.fixture
def documents(tmp_path: Path, path: Path) -> OpenDocuments:
    return OpenDocuments(tmp_path)


def rename(name: str):  # type: ignore[no-untyped-def]
    return lambda document: document.set_value(("name",), name)


def prompt(text: str, *, index: int = 0):  # type: ignore[no-untyped-def]
    place = ("conversation", 0, "user_content", "parts", 0, "text")
    return lambda document: document.set_value(place, text, case=index)


def dirty(documents: OpenDocuments, name: str = "ours") -> None:
    documents.edit(LIGHTS, rename(name), label="rename")


# Edits.


def test_an_edit_is_unsaved_one_step_and_gives_what_the_change_gives(documents: OpenDocuments, path: Path) -> None:
    old = path.read_bytes()

    def change(document: EvalSetDocument) -> int:
        document.set_value(("name",), "one")
        document.set_value(("description",), "two")
        return 7

    assert documents.edit(LIGHTS, change, label="name it") == 7

    standing = documents.standing(LIGHTS)
    assert standing.dirty and standing.undoable == "name it" and documents.dirty() == (LIGHTS,)
    assert path.read_bytes() == old
    assert documents.undo(LIGHTS) == "name it"
    assert documents.document(LIGHTS).content() == old and not documents.standing(LIGHTS).dirty
    assert documents.redo(LIGHTS) == "name it"
    documents.save(LIGHTS)
    assert b'"one"' in path.read_bytes() and documents.dirty() == ()


def test_of_a_change_that_fails_nothing_remains(documents: OpenDocuments) -> None:
    def change(document: EvalSetDocument) -> None:
        document.set_value(("name",), "half")
        document.remove_case(99)

    with pytest.raises(StoreError):
        documents.edit(LIGHTS, change, label="fail")

    assert documents.document(LIGHTS).name == "lights"
    assert not documents.standing(LIGHTS).dirty and documents.undo(LIGHTS) is None


def test_the_document_with_its_undo_log_stays_open_over_saves(documents: OpenDocuments, path: Path) -> None:
    first = path.read_bytes()
    dirty(documents, "one")
    documents.save(LIGHTS)
    dirty(documents, "two")
    documents.save(LIGHTS)

    documents.undo(LIGHTS)
    documents.undo(LIGHTS)
    documents.save(LIGHTS)

    assert path.read_bytes() == first


def test_what_was_saved_at_once_is_saved_again_when_it_is_undone_and_redone(
    documents: OpenDocuments, path: Path
) -> None:
    first = path.read_bytes()
    documents.edit_and_save(LIGHTS, rename("at once"), label="accept")
    second = path.read_bytes()
    assert b"at once" in second

    documents.undo(LIGHTS)
    assert path.read_bytes() == first and not documents.standing(LIGHTS).dirty
    documents.redo(LIGHTS)
    assert path.read_bytes() == second and not documents.standing(LIGHTS).dirty


def test_undoing_an_edit_of_the_editor_saves_nothing(documents: OpenDocuments, path: Path) -> None:
    documents.edit_and_save(LIGHTS, rename("at once"), label="accept")
    saved = path.read_bytes()
    dirty(documents, "typed")

    documents.undo(LIGHTS)
    assert path.read_bytes() == saved and not documents.standing(LIGHTS).dirty
    dirty(documents, "typed again")
    documents.save(LIGHTS)
    documents.undo(LIGHTS)
    assert b"typed again" in path.read_bytes() and documents.standing(LIGHTS).dirty


def test_the_cases_with_unsaved_edits_are_known(documents: OpenDocuments) -> None:
    documents.edit(LIGHTS, prompt("good night", index=1), label="edit")
    assert documents.standing(LIGHTS).changed_cases == {"off"}

    documents.edit(LIGHTS, lambda document: document.duplicate_case(0, eval_id="on_2"), label="copy")
    documents.edit(LIGHTS, lambda document: document.move_case(0, 2), label="move")
    assert documents.standing(LIGHTS).changed_cases == {"off", "on_2"}

    documents.edit(LIGHTS, prompt("hello", index=1), label="as it was")
    assert documents.standing(LIGHTS).changed_cases == {"on_2"}
    documents.save(LIGHTS)
    assert documents.standing(LIGHTS).changed_cases == frozenset()


def test_the_revision_tells_contents_apart(documents: OpenDocuments, path: Path) -> None:
    first = documents.standing(LIGHTS).revision
    assert documents.standing(LIGHTS).revision == first
    dirty(documents)
    second = documents.standing(LIGHTS).revision
    write(path.parent.parent, LIGHTS, "other")
    documents.reload(LIGHTS)

    assert len({first, second, documents.standing(LIGHTS).revision}) == 3


# Changes on disk.


def test_a_change_on_disk_is_taken_where_nothing_is_unsaved(documents: OpenDocuments, path: Path) -> None:
    documents.document(LIGHTS)
    write(path.parent.parent, LIGHTS, "on", "off", "dim")
    assert documents.look_again() == {LIGHTS}

    assert [entry.eval_id for entry in documents.document(LIGHTS).entries] == ["on", "off", "dim"]
    assert documents.look_again() == frozenset() and not documents.standing(LIGHTS).dirty


def test_taking_a_change_on_disk_is_a_step_of_undo_where_there_are_others(documents: OpenDocuments, path: Path) -> None:
    dirty(documents, "ours")
    documents.save(LIGHTS)
    theirs = path.read_bytes().replace(b"ours", b"theirs")
    path.write_bytes(theirs)

    assert documents.document(LIGHTS).name == "theirs"
    documents.undo(LIGHTS)
    assert documents.document(LIGHTS).name == "ours" and documents.standing(LIGHTS).dirty
    documents.undo(LIGHTS)
    assert documents.document(LIGHTS).name == "lights"
    assert path.read_bytes() == theirs


def test_unsaved_edits_stand_in_conflict_with_a_change_on_disk(documents: OpenDocuments, path: Path) -> None:
    dirty(documents)
    theirs = path.read_bytes().replace(b"lights", b"theirs")
    path.write_bytes(theirs)

    assert documents.standing(LIGHTS).changed_on_disk
    assert documents.document(LIGHTS).name == "ours"
    with pytest.raises(FileChanged) as caught:
        documents.save(LIGHTS)
    assert caught.value.theirs == theirs == path.read_bytes()

    documents.save(LIGHTS, overwrite=True)
    assert b"ours" in path.read_bytes() and not documents.standing(LIGHTS).changed_on_disk


def test_taking_theirs_can_be_undone(documents: OpenDocuments, path: Path) -> None:
    dirty(documents)
    path.write_bytes(path.read_bytes().replace(b'"name": "lights"', b'"name": "theirs"'))

    documents.reload(LIGHTS)

    assert documents.document(LIGHTS).name == "theirs" and not documents.standing(LIGHTS).dirty
    documents.undo(LIGHTS)
    assert documents.document(LIGHTS).name == "ours" and documents.standing(LIGHTS).dirty


def test_a_conflict_ends_where_the_edits_are_taken_back(documents: OpenDocuments, path: Path) -> None:
    dirty(documents)
    path.write_bytes(path.read_bytes().replace(b'"name": "lights"', b'"name": "theirs"'))
    assert documents.standing(LIGHTS).changed_on_disk

    documents.undo(LIGHTS)

    assert documents.document(LIGHTS).name == "theirs"
    assert not documents.standing(LIGHTS).changed_on_disk and not documents.standing(LIGHTS).dirty


def test_a_conflict_ends_where_the_file_is_as_before(documents: OpenDocuments, path: Path) -> None:
    old = path.read_bytes()
    dirty(documents)
    path.write_bytes(old + b" ")
    assert documents.standing(LIGHTS).changed_on_disk
    path.write_bytes(old)
    assert not documents.standing(LIGHTS).changed_on_disk


def test_touching_the_file_is_no_change(documents: OpenDocuments, path: Path) -> None:
    document = documents.document(LIGHTS)
    os.utime(path, ns=(1, 1))
    assert documents.document(LIGHTS) is document
    dirty(documents)
    os.utime(path, ns=(2, 2))
    assert not documents.standing(LIGHTS).changed_on_disk


def test_edits_of_a_file_that_vanished_stay_and_can_be_saved_again(documents: OpenDocuments, path: Path) -> None:
    dirty(documents)
    path.unlink()
    path.parent.rmdir()

    assert documents.standing(LIGHTS).changed_on_disk and documents.document(LIGHTS).name == "ours"
    with pytest.raises(FileChanged) as caught:
        documents.save(LIGHTS)
    assert caught.value.theirs is None
    documents.save(LIGHTS, overwrite=True)
    assert b"ours" in path.read_bytes()


@pytest.mark.parametrize("edited", [False, True])
def test_the_last_good_state_of_a_file_that_broke_stays_and_the_place_is_told(
    documents: OpenDocuments, path: Path, edited: bool
) -> None:
    if edited:
        dirty(documents)
        documents.save(LIGHTS)
    name = documents.document(LIGHTS).name
    path.write_text('{\n  "eval_set_id": oops')

    assert documents.document(LIGHTS).name == name
    standing = documents.standing(LIGHTS)
    assert standing.problem is not None and standing.problem.line == 2 and not standing.dirty
    with pytest.raises(StoreError):
        documents.document_on_disk(LIGHTS)

    write(path.parent.parent, LIGHTS, "mended")
    assert [entry.eval_id for entry in documents.document(LIGHTS).entries] == ["mended"]
    assert documents.standing(LIGHTS).problem is None


def test_a_file_that_vanished_leaves_its_last_state_and_can_come_back(documents: OpenDocuments, path: Path) -> None:
    content = documents.document(LIGHTS).content()
    path.unlink()

    assert documents.document(LIGHTS).content() == content
    assert "there is no such file" in str(documents.standing(LIGHTS).problem)
    documents.save(LIGHTS, overwrite=True)
    assert path.read_bytes() == content and documents.standing(LIGHTS).problem is None


def test_a_file_that_could_never_be_read_is_an_error(documents: OpenDocuments, path: Path) -> None:
    with pytest.raises(StoreError, match="no such file"):
        documents.document("sets/none.evalset.json")
    path.write_text("[")
    with pytest.raises(StoreError):
        documents.standing(LIGHTS)


# Files of sets.


def test_a_deleted_set_comes_back_with_its_unsaved_edits(documents: OpenDocuments, path: Path) -> None:
    content = path.read_bytes()
    path.chmod(0o640)
    dirty(documents)

    documents.delete_set(LIGHTS)
    assert not path.exists() and documents.dirty() == ()

    done = documents.undo_newest(None)
    assert done is not None and (done.before, done.after) == (None, LIGHTS)
    assert path.read_bytes() == content and path.stat().st_mode & 0o777 == 0o640
    assert documents.dirty() == (LIGHTS,) and documents.document(LIGHTS).name == "ours"
    documents.save(LIGHTS)
    assert b"ours" in path.read_bytes()


def test_restoring_never_overwrites_a_newer_file(documents: OpenDocuments, path: Path) -> None:
    documents.delete_set(LIGHTS)
    path.write_text("newer")

    with pytest.raises(StoreError, match="exists already"):
        documents.undo_operation()

    assert path.read_text() == "newer"
    path.unlink()
    documents.undo_operation()
    assert documents.document(LIGHTS).name == "lights"


def test_a_renamed_set_keeps_edits_and_undo_and_can_be_renamed_back(documents: OpenDocuments, path: Path) -> None:
    content = path.read_bytes()
    dirty(documents)
    new = "other/lamps.evalset.json"

    documents.rename_set(LIGHTS, new)

    assert not path.exists() and documents.dirty() == (new,)
    documents.save(new)
    assert b"ours" in (path.parent.parent / new).read_bytes()
    assert documents.undo_newest(new) is not None  # the edit is as old as the renaming is new
    assert documents.document(LIGHTS).name == "ours" and not (path.parent.parent / new).exists()
    documents.undo(LIGHTS)
    documents.save(LIGHTS)
    assert path.read_bytes() == content


def test_a_set_is_never_renamed_over_another(documents: OpenDocuments, path: Path) -> None:
    other = write(path.parent.parent, "sets/b.evalset.json", "b")
    before = other.read_bytes()

    with pytest.raises(StoreError, match="exists already"):
        documents.rename_set(LIGHTS, "sets/b.evalset.json")

    assert path.exists() and other.read_bytes() == before
    assert documents.undo_newest(None) is None


def test_a_new_set_is_undone_only_while_nothing_was_written_into_it(documents: OpenDocuments, tmp_path: Path) -> None:
    documents.create_set("new.evalset.json", eval_set_id="new")
    assert len(documents.document("new.evalset.json")) == 0

    documents.undo_operation()
    assert not (tmp_path / "new.evalset.json").exists()
    documents.redo_operation()
    documents.edit("new.evalset.json", lambda document: document.insert_case(0, case("a")), label="add")
    documents.save("new.evalset.json")
    with pytest.raises(FileChanged):
        documents.undo_operation()
    assert b'"a"' in (tmp_path / "new.evalset.json").read_bytes()


def test_a_duplicate_has_what_is_shown_and_its_own_id(documents: OpenDocuments, path: Path) -> None:
    dirty(documents)

    documents.duplicate_set(LIGHTS, "sets/copy.evalset.json")

    copy = documents.document("sets/copy.evalset.json")
    assert (copy.eval_set_id, copy.name, len(copy)) == ("copy", "ours", 2)
    documents.undo_operation()
    assert not copy.path.exists() and path.exists()


@pytest.mark.parametrize(
    "name",
    ["../out.evalset.json", "/tmp/out.evalset.json", "sets/../../out.evalset.json", "link/out.evalset.json",
     "sets/out.json", "sets/.evalset.json", "a\0.evalset.json", ""],
)  # fmt: skip
def test_file_operations_never_leave_the_project(documents: OpenDocuments, tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to(tmp_path.parent)
    for operation in (
        lambda: documents.create_set(name, eval_set_id="out"),
        lambda: documents.rename_set(LIGHTS, name),
        lambda: documents.duplicate_set(LIGHTS, name),
        lambda: documents.delete_set(name),
    ):
        with pytest.raises(StoreError):
            operation()
    assert not list(tmp_path.parent.glob("out*")) and (tmp_path / LIGHTS).exists()


def test_undo_takes_back_the_newest_of_edits_and_file_operations(documents: OpenDocuments, tmp_path: Path) -> None:
    write(tmp_path, "b.evalset.json", "b")
    dirty(documents, "first")
    documents.delete_set("b.evalset.json")

    undone = [documents.undo_newest(LIGHTS) for _ in range(3)]
    assert [done and done.label for done in undone] == ["delete b.evalset.json", "rename", None]
    redone = [documents.redo_newest(LIGHTS) for _ in range(3)]
    assert [done and done.label for done in redone] == ["rename", "delete b.evalset.json", None]
    assert not (tmp_path / "b.evalset.json").exists()


# Recovery.

CRASH = """
import os, sys
from pathlib import Path
from workbench.engine.documents import OpenDocuments
documents = OpenDocuments(Path(sys.argv[1]))
documents.edit("sets/lights.evalset.json", lambda document: document.set_value(("name",), "recovered"), label="x")
documents.edit("sets/lights.evalset.json", lambda document: document.remove_case(0), label="x")
documents.keep()
os._exit(9)
"""


def crash(root: Path) -> None:
    assert subprocess.run([sys.executable, "-c", CRASH, str(root)], check=False).returncode == 9


def recovery_files(root: Path) -> list[Path]:
    return list((root / ".workbench" / "recovery").glob("*"))


def test_recovery_files_follow_the_unsaved_edits(documents: OpenDocuments, tmp_path: Path) -> None:
    dirty(documents)
    documents.keep()
    (file,) = recovery_files(tmp_path)
    assert b"ours" in file.read_bytes()
    dirty(documents, "newer")
    documents.keep()
    assert b"newer" in file.read_bytes()

    documents.undo(LIGHTS)
    documents.undo(LIGHTS)
    documents.keep()
    assert recovery_files(tmp_path) == []
    documents.redo(LIGHTS)
    documents.keep()
    documents.save(LIGHTS)
    assert recovery_files(tmp_path) == []


def test_edits_of_a_crashed_session_are_found_and_restored_as_one_step(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    (found,) = documents.found()
    assert found.eval_set == LIGHTS and found.differences is not None
    assert [(item.eval_id, item.how) for item in found.differences] == [("on", "only in theirs")]

    assert documents.restore(found.recovery) == LIGHTS

    assert documents.document(LIGHTS).name == "recovered" and documents.standing(LIGHTS).dirty
    assert documents.found() == [] and len(recovery_files(path.parent.parent)) == 1
    documents.undo(LIGHTS)
    assert documents.document(LIGHTS).name == "lights"
    documents.redo(LIGHTS)
    documents.save(LIGHTS)
    assert b"recovered" in path.read_bytes() and recovery_files(path.parent.parent) == []


def test_restoring_over_unsaved_edits_keeps_them_in_the_undo_log(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    dirty(documents)
    (found,) = documents.found()

    documents.restore(found.recovery)

    assert documents.document(LIGHTS).name == "recovered"
    documents.undo(LIGHTS)
    assert documents.document(LIGHTS).name == "ours"


def test_recovered_edits_of_a_file_that_changed_since_stand_in_conflict(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    documents.document(LIGHTS)
    write(path.parent.parent, LIGHTS, "on", "off", "theirs")
    (found,) = documents.found()

    documents.restore(found.recovery)

    assert documents.standing(LIGHTS).changed_on_disk
    with pytest.raises(FileChanged):
        documents.save(LIGHTS)


def test_recovered_edits_of_a_file_that_is_gone_can_be_saved(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    path.unlink()
    (found,) = documents.found()
    assert found.differences is None

    documents.restore(found.recovery)

    assert documents.standing(LIGHTS).changed_on_disk
    documents.save(LIGHTS, overwrite=True)
    assert b"recovered" in path.read_bytes()


def test_found_edits_can_be_thrown_away(documents: OpenDocuments, path: Path) -> None:
    crash(path.parent.parent)
    documents.discard(documents.found()[0].recovery)
    assert documents.found() == [] and recovery_files(path.parent.parent) == []
    assert documents.document(LIGHTS).name == "lights"


# Two versions.


def test_two_versions_are_told_apart_part_by_part(documents: OpenDocuments, path: Path) -> None:
    documents.edit(LIGHTS, prompt("ours"), label="edit")
    dirty(documents)
    write(path.parent.parent, LIGHTS, "on", "dim")

    versions = documents.versions(LIGHTS)

    assert versions.differences is not None
    assert [(item.eval_id, item.how) for item in versions.differences] == [
        ("on", "changed"),
        ("off", "only in ours"),
        ("dim", "only in theirs"),
    ]
    assert [(part.title, part.ours is None, part.theirs is None) for part in versions.parts] == [
        ("the eval set itself", False, False),
        ("on", False, False),
        ("off", False, True),
        ("dim", True, False),
    ]


@pytest.mark.parametrize("theirs", [None, b"{ broken", b"\xff\xfe"])
def test_a_version_that_is_no_eval_set_is_shown_as_it_is(
    documents: OpenDocuments, path: Path, theirs: bytes | None
) -> None:
    dirty(documents)
    path.unlink() if theirs is None else path.write_bytes(theirs)

    versions = documents.versions(LIGHTS)

    assert versions.theirs == theirs and versions.differences is None and versions.problem
    assert len(versions.parts) == (0 if theirs is None else 1)


@pytest.mark.parametrize("seen", ["file", "nothing"])
def test_ours_is_written_only_over_what_was_seen(documents: OpenDocuments, path: Path, seen: str) -> None:
    dirty(documents)
    path.write_bytes(path.read_bytes() + b" ") if seen == "file" else path.unlink()
    theirs = documents.versions(LIGHTS).theirs
    path.write_text("newer")

    with pytest.raises(FileChanged):
        documents.save_over(LIGHTS, theirs)
    assert path.read_text() == "newer" and documents.standing(LIGHTS).dirty

    documents.save_over(LIGHTS, documents.versions(LIGHTS).theirs)
    assert b"ours" in path.read_bytes() and not documents.standing(LIGHTS).dirty


def test_looking_again_tells_what_changed_broke_vanished_and_was_mended(documents: OpenDocuments, path: Path) -> None:
    root = path.parent.parent
    other = write(root, "b.evalset.json", "b")
    other.write_text("[")
    documents.document(LIGHTS)
    with pytest.raises(StoreError):
        documents.document("b.evalset.json")
    assert documents.look_again() == frozenset()

    path.write_text("{")
    assert documents.look_again() == {LIGHTS} and documents.look_again() == frozenset()
    path.unlink()
    assert documents.look_again() == {LIGHTS} and documents.look_again() == frozenset()
    write(root, LIGHTS, "back")
    write(root, "b.evalset.json", "b")
    assert documents.look_again() == {LIGHTS, "b.evalset.json"}


def test_what_changed_is_told_even_where_somebody_else_looked_first(documents: OpenDocuments, path: Path) -> None:
    documents.document(LIGHTS)
    write(path.parent.parent, LIGHTS, "new")
    documents.document(LIGHTS)
    dirty(documents)

    assert documents.look_again() == {LIGHTS} and documents.look_again() == frozenset()
    dirty(documents, "ours, again")
    documents.save(LIGHTS)
    assert documents.look_again() == frozenset()


def test_the_fault_in_a_text_of_a_case_is_told_with_its_place(documents: OpenDocuments) -> None:
    document = documents.document(LIGHTS)
    text = document.case_text(0)

    assert document.fault_in_text(text) is None
    assert (document.fault_in_text('\n{"eval_id": "a",\n x') or "").startswith("line 3, column 2: found 'x'")
    fault = document.fault_in_text('{"eval_id": "a",\n "conversation": 7}') or ""
    assert fault.startswith("line 2, column 18: conversation: found 7")


# Edits of several sets.

HEAT = "sets/heat.evalset.json"


@pytest.fixture
def two(documents: OpenDocuments, tmp_path: Path) -> OpenDocuments:
    """A second set, and the first case of the first set moved to it."""
    write(tmp_path, HEAT, "warm")
    move(documents)
    return documents


def move(documents: OpenDocuments) -> None:
    documents.edit_together(
        [
            (HEAT, lambda document: document.insert_case(len(document), case("on"))),
            (LIGHTS, lambda document: document.remove_case(0)),
        ],
        label="move",
    )


def ids_on_disk(tmp_path: Path, name: str) -> list[str]:
    return [item["eval_id"] for item in json.loads((tmp_path / name).read_bytes())["eval_cases"]]


@pytest.mark.parametrize("where", [LIGHTS, HEAT])
def test_an_edit_of_two_sets_is_saved_undone_and_redone_as_one(two: OpenDocuments, tmp_path: Path, where: str) -> None:
    assert (ids_on_disk(tmp_path, LIGHTS), ids_on_disk(tmp_path, HEAT)) == (["off"], ["warm", "on"])

    done = two.undo_newest(where)

    assert done is not None and done.label == "move" and set(done.eval_sets) == {LIGHTS, HEAT}
    assert (ids_on_disk(tmp_path, LIGHTS), ids_on_disk(tmp_path, HEAT)) == (["on", "off"], ["warm"])
    two.redo_newest(where)
    assert (ids_on_disk(tmp_path, LIGHTS), ids_on_disk(tmp_path, HEAT)) == (["off"], ["warm", "on"])


def test_half_of_an_edit_of_two_sets_is_never_undone(two: OpenDocuments, tmp_path: Path) -> None:
    two.edit(HEAT, rename("later"), label="later")

    with pytest.raises(StoreError, match=r"heat.*edited since"):
        two.undo(LIGHTS)

    assert ids_on_disk(tmp_path, LIGHTS) == ["off"]
    assert two.undo(HEAT) == "later" and two.undo(LIGHTS) == "move"
    assert (ids_on_disk(tmp_path, LIGHTS), ids_on_disk(tmp_path, HEAT)) == (["on", "off"], ["warm"])


def test_an_edit_of_two_sets_is_made_to_none_where_one_is_in_conflict(
    documents: OpenDocuments, path: Path, tmp_path: Path
) -> None:
    heat = write(tmp_path, HEAT, "warm")
    dirty(documents)
    write(tmp_path, LIGHTS, "on", "off", set_name="theirs")
    before = path.read_bytes(), heat.read_bytes()

    with pytest.raises(FileChanged):
        move(documents)

    assert (path.read_bytes(), heat.read_bytes()) == before
    assert documents.dirty() == (LIGHTS,) and documents.undo(LIGHTS) == "rename"


def test_an_edit_of_two_sets_is_made_to_none_where_one_refuses(documents: OpenDocuments, tmp_path: Path) -> None:
    write(tmp_path, HEAT, "warm")

    def refuse(document: EvalSetDocument) -> None:
        raise StoreError(document.path, "no")

    with pytest.raises(StoreError, match="no"):
        documents.edit_together([(HEAT, lambda document: document.remove_case(0)), (LIGHTS, refuse)], label="x")

    assert ids_on_disk(tmp_path, HEAT) == ["warm"] and documents.dirty() == ()
    assert len(documents.document(HEAT)) == 1


def test_a_dataset_that_changes_is_told_of_once_whoever_saw_it_first(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"prompt": "a"}')
    documents = OpenDocuments(tmp_path)

    def look() -> None:
        with pytest.raises(IsDataset, match="is a dataset, which is not edited here"):
            documents.document("rows.jsonl")

    look()
    path.write_text('{"prompt": "another"}')
    look()

    assert [documents.look_again(), documents.look_again()] == [frozenset({"rows.jsonl"}), frozenset()]
