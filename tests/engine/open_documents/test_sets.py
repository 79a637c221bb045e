"""Open documents: sets are created, renamed, copied, deleted and edited together, and undo reverts it."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from tests.engine.open_documents.files import LIGHTS, case, make_rename, make_unsaved_edit, write_set
from workbench.engine.open_documents import OpenDocuments
from workbench.model.evalset import Quarantine
from workbench.store.errors import FileChanged, StoreError
from workbench.store.evalsets.evalset_document import EvalSetDocument
from workbench.store.evalsets.quarantine import read_quarantines, set_quarantine
from workbench.store.files import get_sidecar_path

IN_QUARANTINE = Quarantine(until=date(2026, 12, 24))

# Files of sets.


def test_undo_restores_a_deleted_set_with_its_unsaved_edits(documents: OpenDocuments, path: Path) -> None:
    content = path.read_bytes()
    path.chmod(0o640)
    make_unsaved_edit(documents)

    documents.delete_set(LIGHTS)
    assert not path.exists() and documents.dirty() == ()

    operation = documents.undo_newest(None)
    assert operation is not None and (operation.before, operation.after) == (None, LIGHTS)
    assert path.read_bytes() == content and path.stat().st_mode & 0o777 == 0o640
    assert documents.dirty() == (LIGHTS,) and documents.document(LIGHTS).name == "ours"
    documents.save(LIGHTS)
    assert b"ours" in path.read_bytes()


def test_restoring_never_overwrites_a_newer_file(documents: OpenDocuments, path: Path) -> None:
    documents.delete_set(LIGHTS)
    path.write_text("newer")

    with pytest.raises(StoreError, match="already exists"):
        documents.undo_operation()

    assert path.read_text() == "newer"
    path.unlink()
    documents.undo_operation()
    assert documents.document(LIGHTS).name == "lights"


def test_a_renamed_set_keeps_edits_and_undo_and_can_be_renamed_back(documents: OpenDocuments, path: Path) -> None:
    content = path.read_bytes()
    make_unsaved_edit(documents)
    new = "other/lamps.evalset.json"

    documents.rename_set(LIGHTS, new)

    assert not path.exists() and documents.dirty() == (new,)
    documents.save(new)
    assert b"ours" in (path.parent.parent / new).read_bytes()
    assert documents.undo_newest(new) is not None  # the rename is newer than the edit
    assert documents.document(LIGHTS).name == "ours" and not (path.parent.parent / new).exists()
    documents.undo(LIGHTS)
    documents.save(LIGHTS)
    assert path.read_bytes() == content


def test_quarantines_follow_the_names_of_sets_and_cases(documents: OpenDocuments, path: Path) -> None:
    set_quarantine(path, ["on"], IN_QUARANTINE)
    documents.edit(LIGHTS, lambda document: document.set_value(("eval_id",), "lit", case=0), label="rename")
    documents.save(LIGHTS)
    new = "other/lamps.evalset.json"
    documents.rename_set(LIGHTS, new)
    renamed = path.parent.parent / new

    assert read_quarantines(renamed) == ({"lit": IN_QUARANTINE}, [], {})
    assert not get_sidecar_path(path).exists()
    documents.undo_newest(new)
    documents.undo(LIGHTS)
    documents.save(LIGHTS)
    assert read_quarantines(path) == ({"on": IN_QUARANTINE}, [], {})


def test_a_quarantine_follows_a_case_that_is_named_after_its_file(documents: OpenDocuments, tmp_path: Path) -> None:
    old, new = (tmp_path / f"sets/{name}.test.json" for name in ("old", "new"))
    old.write_text('[{"query": "hello", "expected_tool_use": [], "reference": "hi"}]')
    set_quarantine(old, ["old"], IN_QUARANTINE)

    documents.rename_set("sets/old.test.json", "sets/new.test.json")
    assert read_quarantines(new) == ({"new": IN_QUARANTINE}, [], {})

    documents.undo_operation()
    assert read_quarantines(old) == ({"old": IN_QUARANTINE}, [], {})


def test_a_quarantine_follows_neither_a_rewritten_case_nor_one_of_two_with_the_same_messages(
    documents: OpenDocuments, path: Path
) -> None:
    set_quarantine(path, ["on", "off"], IN_QUARANTINE)
    before = get_sidecar_path(path).read_bytes()

    def rewrite(document: EvalSetDocument) -> None:
        document.set_value(("conversation", 0, "user_content", "parts", 0, "text"), "another wish", case=0)
        document.set_value(("eval_id",), "lit", case=0)
        document.duplicate_case(1, eval_id="off_1")
        document.duplicate_case(1, eval_id="off_2")
        document.remove_cases([1])

    documents.edit(LIGHTS, rewrite, label="rewrite")
    documents.save(LIGHTS)

    assert get_sidecar_path(path).read_bytes() == before


def test_a_set_is_not_renamed_if_the_file_beside_it_cannot_follow(documents: OpenDocuments, path: Path) -> None:
    set_quarantine(path, ["on"], IN_QUARANTINE)
    path.with_name("lamps.evalset.workbench.json").write_text("{}")

    with pytest.raises(StoreError, match=r"lamps.evalset.workbench.json.*already exists"):
        documents.rename_set(LIGHTS, "sets/lamps.evalset.json")

    assert path.exists() and not path.with_name("lamps.evalset.json").exists()
    assert read_quarantines(path).cases == {"on": IN_QUARANTINE}


def test_a_set_is_never_renamed_over_another(documents: OpenDocuments, path: Path) -> None:
    other = write_set(path.parent.parent, "sets/b.evalset.json", "b")
    before = other.read_bytes()

    with pytest.raises(StoreError, match="already exists"):
        documents.rename_set(LIGHTS, "sets/b.evalset.json")

    assert path.exists() and other.read_bytes() == before
    assert documents.undo_newest(None) is None


def test_the_creation_of_a_set_can_be_undone_only_while_the_set_is_unchanged(
    documents: OpenDocuments, tmp_path: Path
) -> None:
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


def test_a_duplicate_has_the_unsaved_content_and_its_own_id(documents: OpenDocuments, path: Path) -> None:
    make_unsaved_edit(documents)

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
    operations: tuple[Callable[[], object], ...] = (
        lambda: documents.create_set(name, eval_set_id="out"),
        lambda: documents.rename_set(LIGHTS, name),
        lambda: documents.duplicate_set(LIGHTS, name),
        lambda: documents.delete_set(name),
    )
    for operation in operations:
        with pytest.raises(StoreError):
            operation()
    assert not list(tmp_path.parent.glob("out.*")) and (tmp_path / LIGHTS).exists()


def test_undo_reverts_the_newest_edit_or_file_operation(documents: OpenDocuments, tmp_path: Path) -> None:
    write_set(tmp_path, "b.evalset.json", "b")
    make_unsaved_edit(documents, "first")
    documents.delete_set("b.evalset.json")

    undone_operations = [documents.undo_newest(LIGHTS) for _ in range(3)]
    assert [step and step.label for step in undone_operations] == ["delete b.evalset.json", "rename", None]
    redone_operations = [documents.redo_newest(LIGHTS) for _ in range(3)]
    assert [step and step.label for step in redone_operations] == ["rename", "delete b.evalset.json", None]
    assert not (tmp_path / "b.evalset.json").exists()


# Edits of several sets.

HEAT = "sets/heat.evalset.json"


@pytest.fixture
def two_sets(documents: OpenDocuments, tmp_path: Path) -> OpenDocuments:
    """Open documents with a second set, after a case of the first set moved to it."""
    write_set(tmp_path, HEAT, "warm")
    move_case(documents)
    return documents


def move_case(documents: OpenDocuments) -> None:
    documents.edit_together(
        [
            (HEAT, insert_case("on")),
            (LIGHTS, lambda document: document.remove_case(0)),
        ],
        label="move",
    )


def insert_case(eval_id: str) -> Callable[[EvalSetDocument], None]:
    return lambda document: document.insert_case(len(document), case(eval_id))


def read_ids(tmp_path: Path, name: str) -> list[str]:
    return [item["eval_id"] for item in json.loads((tmp_path / name).read_bytes())["eval_cases"]]


@pytest.mark.parametrize("where", [LIGHTS, HEAT])
def test_an_edit_of_two_sets_is_saved_undone_and_redone_as_one(
    two_sets: OpenDocuments, tmp_path: Path, where: str
) -> None:
    assert (read_ids(tmp_path, LIGHTS), read_ids(tmp_path, HEAT)) == (["off"], ["warm", "on"])

    operation = two_sets.undo_newest(where)

    assert operation is not None and operation.label == "move" and set(operation.eval_sets) == {LIGHTS, HEAT}
    assert (read_ids(tmp_path, LIGHTS), read_ids(tmp_path, HEAT)) == (["on", "off"], ["warm"])
    two_sets.redo_newest(where)
    assert (read_ids(tmp_path, LIGHTS), read_ids(tmp_path, HEAT)) == (["off"], ["warm", "on"])


def test_a_quarantine_follows_its_case_to_another_set_and_back(documents: OpenDocuments, tmp_path: Path) -> None:
    heat, lights = write_set(tmp_path, HEAT, "warm"), tmp_path / LIGHTS
    set_quarantine(lights, ["off", "on"], IN_QUARANTINE)
    before = get_sidecar_path(lights).read_bytes()
    both = {"off": IN_QUARANTINE, "on": IN_QUARANTINE}

    move_case(documents)
    assert read_quarantines(lights) == ({"off": IN_QUARANTINE}, [], {})
    assert read_quarantines(heat) == ({"on": IN_QUARANTINE}, [], {})

    documents.undo(HEAT)
    assert (read_quarantines(lights).cases, read_quarantines(heat).cases) == (both, {})
    assert json.loads(get_sidecar_path(lights).read_bytes()) == json.loads(before)
    assert not get_sidecar_path(heat).exists()
    documents.redo(LIGHTS)
    assert read_quarantines(heat).cases == {"on": IN_QUARANTINE}


def test_a_quarantine_follows_a_case_that_is_renamed_and_moved_at_once(
    documents: OpenDocuments, tmp_path: Path
) -> None:
    heat, lights = write_set(tmp_path, HEAT, "warm"), tmp_path / LIGHTS
    set_quarantine(lights, ["on"], IN_QUARANTINE)
    own = get_sidecar_path(lights)
    own.rename(tmp_path / "shared.json")
    own.symlink_to(tmp_path / "shared.json")
    documents.edit(LIGHTS, lambda document: document.set_value(("eval_id",), "lit", case=0), label="rename")

    changes = [(HEAT, insert_case("lit")), (LIGHTS, lambda document: document.remove_case(0))]
    documents.edit_together(changes, label="move")
    assert (read_quarantines(lights).cases, read_quarantines(heat).cases) == ({}, {"lit": IN_QUARANTINE})
    assert own.is_symlink()

    own.write_bytes(get_sidecar_path(heat).read_bytes())  # as if the program was killed before it removed the entry
    documents.undo(HEAT)
    assert (read_quarantines(lights).cases, read_quarantines(heat).cases) == ({"lit": IN_QUARANTINE}, {})


def test_a_quarantine_of_a_deleted_case_does_not_follow_another_one_with_the_same_messages(
    documents: OpenDocuments, path: Path
) -> None:
    set_quarantine(path, ["on"], IN_QUARANTINE)
    before = get_sidecar_path(path).read_bytes()

    documents.edit(LIGHTS, lambda document: document.remove_case(0), label="delete")
    documents.edit(LIGHTS, lambda document: document.set_value(("eval_id",), "dark", case=0), label="rename")
    documents.save(LIGHTS)

    assert get_sidecar_path(path).read_bytes() == before


def test_a_moved_case_does_not_take_the_entry_of_another_case(documents: OpenDocuments, tmp_path: Path) -> None:
    heat, lights = write_set(tmp_path, HEAT, "warm"), tmp_path / LIGHTS
    set_quarantine(lights, ["on"], IN_QUARANTINE)
    entry = {"quarantine": {"on": {"until": "2026-12-01", "messages": "of a deleted case"}}}
    get_sidecar_path(heat).write_text(json.dumps(entry))

    move_case(documents)

    assert json.loads(get_sidecar_path(heat).read_bytes()) == entry
    assert read_quarantines(lights).cases == {"on": IN_QUARANTINE}


def test_a_copy_is_not_in_quarantine_and_an_undeleted_case_is(documents: OpenDocuments, path: Path) -> None:
    set_quarantine(path, ["on"], IN_QUARANTINE)
    documents.edit_and_save(LIGHTS, lambda document: document.duplicate_case(0, eval_id="copy"), label="duplicate")
    documents.edit_and_save(LIGHTS, lambda document: document.remove_case(0), label="delete")
    assert read_quarantines(path).cases.get("copy") is None

    documents.undo(LIGHTS)

    assert read_quarantines(path) == ({"on": IN_QUARANTINE}, [], {})


def test_half_of_an_edit_of_two_sets_is_never_undone(two_sets: OpenDocuments, tmp_path: Path) -> None:
    two_sets.edit(HEAT, make_rename("later"), label="later")

    with pytest.raises(StoreError, match=r"heat.*edited later"):
        two_sets.undo(LIGHTS)

    assert read_ids(tmp_path, LIGHTS) == ["off"]
    assert two_sets.undo(HEAT) == "later" and two_sets.undo(LIGHTS) == "move"
    assert (read_ids(tmp_path, LIGHTS), read_ids(tmp_path, HEAT)) == (["on", "off"], ["warm"])


def test_an_edit_of_two_sets_changes_neither_if_one_is_in_conflict(
    documents: OpenDocuments, path: Path, tmp_path: Path
) -> None:
    heat = write_set(tmp_path, HEAT, "warm")
    make_unsaved_edit(documents)
    write_set(tmp_path, LIGHTS, "on", "off", set_name="theirs")
    before = path.read_bytes(), heat.read_bytes()

    with pytest.raises(FileChanged):
        move_case(documents)

    assert (path.read_bytes(), heat.read_bytes()) == before
    assert documents.dirty() == (LIGHTS,) and documents.undo(LIGHTS) == "rename"


def test_an_edit_of_two_sets_changes_neither_if_one_refuses(documents: OpenDocuments, tmp_path: Path) -> None:
    write_set(tmp_path, HEAT, "warm")

    def refuse(document: EvalSetDocument) -> None:
        raise StoreError(document.path, "no")

    with pytest.raises(StoreError, match="no"):
        documents.edit_together([(HEAT, lambda document: document.remove_case(0)), (LIGHTS, refuse)], label="x")

    assert read_ids(tmp_path, HEAT) == ["warm"] and documents.dirty() == ()
    assert len(documents.document(HEAT)) == 1
