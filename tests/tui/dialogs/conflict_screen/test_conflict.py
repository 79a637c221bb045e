"""A set that changes on disk under unsaved edits: the screen shows both versions, and no choice loses data."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.engine.open_documents import OpenDocuments


@pytest.fixture
def reach_conflict(open_app: Any, lights: Path, actions: Any) -> Callable[[Any], Any]:
    """Bring a screen to the point where saving is refused."""

    async def reach(screen: Any) -> None:
        await screen.until("2 cases")
        await screen.press("down")
        await actions.insert(screen, "mine")
        actions.write(lights, "on", "off", "theirs")
        await screen.press("ctrl+s")
        await screen.until("keep mine", "added by you: mine", "added by another program: theirs")

    return reach


@pytest.mark.parametrize(("width", "side_by_side"), [(140, True), (80, False)])
async def test_saving_over_a_changed_file_shows_both_versions(
    open_app: Any, project: Path, lights: Path, reach_conflict: Any, width: int, side_by_side: bool
) -> None:
    async with open_app(project, size=(width, 42)) as screen:
        await reach_conflict(screen)

        text = await screen.until('"eval_id": "mine"', '"eval_id": "theirs"')
        titles = [line for line in text.splitlines() if "on disk" in line and "yours" in line]
        assert any("│" in title.strip(" │") for title in titles) == side_by_side
    assert b"theirs" in lights.read_bytes()


async def test_the_user_can_keep_their_own_version(
    open_app: Any, project: Path, lights: Path, reach_conflict: Any
) -> None:
    async with open_app(project) as screen:
        await reach_conflict(screen)
        await screen.press("m")
        await screen.until_gone("keep mine")
        await screen.until("saved")

    assert b'"mine"' in lights.read_bytes() and b'"theirs"' not in lights.read_bytes()


async def test_the_user_can_take_the_version_on_disk_and_undo_that(
    open_app: Any, project: Path, lights: Path, reach_conflict: Any, actions: Any
) -> None:
    async with open_app(project) as screen:
        await reach_conflict(screen)
        await screen.press("t")
        await screen.until_gone("keep mine")
        await screen.until("3 cases", "theirs")
        await actions.wait_for_notification(screen, "has the version on disk; u restores your edits")
        assert (await screen.app._backend.call(lambda workspace: workspace.documents.dirty())) == ()

        await screen.press("u")
        await screen.until("mine")
        assert (await screen.app._backend.call(lambda workspace: workspace.documents.dirty())) == (lights.name,)


async def test_changes_of_different_cases_can_be_combined(
    open_app: Any, project: Path, lights: Path, reach_conflict: Any
) -> None:
    async with open_app(project) as screen:
        await reach_conflict(screen)
        await screen.until("No case was changed by both", "keep both")
        await screen.press("b")
        await screen.until_gone("keep mine")
        await screen.until("saved", "4 cases", "mine", "theirs")
        assert (await screen.app._backend.call(lambda workspace: workspace.documents.dirty())) == ()

        await screen.press("u")
        await screen.until("undone")
        assert (await screen.app._backend.call(lambda workspace: workspace.documents.dirty())) == (lights.name,)

    assert [item["eval_id"] for item in json.loads(lights.read_bytes())["eval_cases"]] == [
        "mine",
        "on",
        "off",
        "theirs",
    ]


async def test_changes_of_the_same_case_cannot_be_combined(
    open_app: Any, project: Path, lights: Path, actions: Any
) -> None:
    async with open_app(project) as screen:
        await screen.until("2 cases")
        await screen.press("down")
        await actions.insert(screen, "new")
        actions.write(lights, "on", "off", "new")
        lights.write_bytes(lights.read_bytes().replace(b'"hello"', b'"good evening"'))
        await screen.press("ctrl+s")
        await screen.until("keep mine", "changed differently by both: new", "changed by another program: on, off")
        await screen.until_gone("keep both")
        await screen.press("b")
        await screen.until("keep mine")
        assert b'"good evening"' in lights.read_bytes()


async def test_both_versions_can_be_merged_in_the_editor(
    open_app: Any, project: Path, lights: Path, reach_conflict: Any, editor: Any
) -> None:
    log = editor(
        "text = path.read_text()\n"
        "assert '<<<<<<< yours, unsaved' in text and '>>>>>>> on disk' in text\n"
        "if tries > 1:\n"
        "    lines = [l for l in text.split('\\n') if not l.startswith(('<<<<<<<', '=======', '>>>>>>>'))]\n"
        '    path.write_text(\'{"eval_set_id": "lights", "eval_cases": [{"eval_id": "merged",'
        ' "conversation": []}]}\')\n'
        "else:\n"
        "    path.write_text(text.replace('=======\\n', ''))\n"
    )
    async with open_app(project) as screen:
        await reach_conflict(screen)
        await screen.press("e")
        await screen.until("and keep one of the two versions", "Edit it again?")
        await screen.press("y")
        await screen.until_gone("keep mine")
        await screen.until("merged")

    assert b'"merged"' in lights.read_bytes()
    assert log.read_text().count(".evalset.json") == 2


async def test_an_open_conflict_keeps_both_versions_and_stays_among_the_problems(
    open_app: Any, project: Path, lights: Path, reach_conflict: Any
) -> None:
    async with open_app(project) as screen:
        await reach_conflict(screen)
        await screen.press("escape")
        await screen.until_gone("keep mine")
        assert b'"theirs"' in lights.read_bytes()
        assert (await screen.app._backend.call(lambda workspace: workspace.documents.dirty())) == (lights.name,)

        await screen.press("exclamation_mark")
        await screen.until("decide which to keep", "enter shows both versions")
        await screen.press("enter")
        await screen.until("keep mine")
        await screen.press("m")
        await screen.until_gone("decide which to keep")
        assert not screen.state.problems.rows
    assert b'"mine"' in lights.read_bytes()


async def test_a_file_that_changes_again_is_shown_again_before_overwriting(
    open_app: Any, project: Path, lights: Path, reach_conflict: Any, actions: Any
) -> None:
    async with open_app(project) as screen:
        await reach_conflict(screen)
        actions.write(lights, "newest")
        await screen.press("m")
        await screen.until("changed again", "added by another program: newest", "removed by another program: on, off")
        assert b'"newest"' in lights.read_bytes()
        await screen.press("m")
        await screen.until_gone("keep mine")

    assert b'"mine"' in lights.read_bytes()


async def test_a_deleted_file_can_be_written_again(open_app: Any, project: Path, lights: Path, actions: Any) -> None:
    async with open_app(project) as screen:
        await screen.until("2 cases")
        await screen.press("down")
        await actions.insert(screen, "mine")
        lights.unlink()
        await screen.press("f5")
        await screen.until("mine")
        await screen.press("ctrl+s")
        await screen.until("the file no longer exists")
        await screen.press("m")
        await screen.until_gone("keep mine")

    assert b'"mine"' in lights.read_bytes()


async def test_a_deleted_file_has_no_version_to_take_until_it_is_back(
    open_app: Any, project: Path, lights: Path, actions: Any
) -> None:
    async with open_app(project) as screen:
        await screen.until("2 cases")
        await screen.press("down")
        await actions.insert(screen, "mine")
        lights.unlink()
        await screen.press("ctrl+s")
        await screen.until("the file no longer exists", "keep mine")
        await screen.until_gone("take theirs")
        await screen.press("t")
        await screen.until("the file no longer exists", "keep mine")

        actions.write(lights, "theirs")
        await screen.press("m")
        await screen.until("take theirs", "added by another program: theirs")


async def test_undoing_a_saved_edit_asks_if_the_file_has_changed(
    open_app: Any, project: Path, lights: Path, actions: Any
) -> None:
    async with open_app(project) as screen:
        await screen.until("2 cases")
        await screen.press("down")
        backend = screen.app._backend
        await backend.edit(
            lambda workspace: workspace.documents.edit_and_save(
                actions.lights, lambda document: document.remove_case(0), label="remove on"
            )
        )
        before = lights.read_bytes()
        await backend.call(
            lambda workspace: workspace.documents.document(actions.lights).undo()
        )  # as if the file changed in between
        lights.write_bytes(before.replace(b'"off"', b'"theirs"'))
        await screen.press("ctrl+s")
        await screen.until("keep mine", "theirs")


async def test_a_choice_before_both_versions_are_shown_is_ignored(
    open_app: Any, project: Path, lights: Path, actions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_answer, versions = threading.Event(), OpenDocuments.versions

    def delay_versions(documents: OpenDocuments, eval_set: str) -> Any:
        may_answer.wait(30)
        return versions(documents, eval_set)

    monkeypatch.setattr(OpenDocuments, "versions", delay_versions)
    async with open_app(project) as screen:
        await screen.until("2 cases")
        await screen.press("down")
        await actions.insert(screen, "mine")
        actions.write(lights, "on", "off", "theirs")
        await screen.press("ctrl+s")
        await screen.until("decide later")
        await screen.press("m")
        may_answer.set()
        await screen.until("keep mine", "added by you: mine", "added by another program: theirs")
        assert b"theirs" in lights.read_bytes()

        await screen.press("m", "t")
        await actions.wait_for_notification(screen, "saved")
    assert b'"mine"' in lights.read_bytes() and b'"theirs"' not in lights.read_bytes()
