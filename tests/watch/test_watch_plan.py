"""The plan of a watch: made again when eval sets, settings and agents change, but not while they are broken."""

from __future__ import annotations

import os

import pytest

from tests.watch.watched import Folder, watch_project
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.run_events import Notice
from workbench.watch.watch_events import AllKnown, WatchStarted
from workbench.watch.watch_plan import WatchPlanner


async def test_only_new_and_changed_cases_run_and_a_renamed_case_does_not(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        changed = await watch.apply(lambda: folder.cases(up_1="up one", down="down under", new="new"))

        assert changed.verdicts == {"down": "PASSED", "new": "PASSED"}
        assert changed.first(AllKnown).summary.total == 3

        renamed = await watch.apply(lambda: folder.cases(first="up one", down="down under", new="new"))
        while not (renamed.verdicts or renamed.stored_verdicts):  # the change was a late event of the save before
            renamed = await watch.wait_until_quiet()
        assert renamed.verdicts == {}
        assert renamed.stored_verdicts == {"first": "PASSED"}


async def test_a_changed_set_of_equal_size_and_time_is_read_again(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        path = folder.root / "set.evalset.json"

        def copy() -> None:
            times = path.stat().st_atime_ns, path.stat().st_mtime_ns
            path.write_text(path.read_text().replace("up one", "up 001"))
            os.utime(path, ns=times)

        copied = await watch.apply(copy)

        assert copied.verdicts == {"up_1": "PASSED"}


async def test_a_half_typed_eval_set_keeps_its_cases(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        complete_text = (folder.root / "set.evalset.json").read_text()

        broken = await watch.apply(lambda: folder.write("set.evalset.json", complete_text[:40]))
        assert "set.evalset.json" in broken.first(Notice).message
        assert broken.first(AllKnown).summary.total == 3

        mended = await watch.apply(lambda: folder.write("set.evalset.json", complete_text))
        assert mended.verdicts == {}
        assert mended.first(AllKnown).summary.total == 3


async def test_broken_settings_are_reported_and_a_new_agent_runs(folder: Folder) -> None:
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()
        settings = (folder.root / "workbench.toml").read_text()

        broken = await watch.apply(lambda: folder.write("workbench.toml", "[targets"))
        assert "workbench.toml" in broken.first(Notice).message
        assert broken.first(AllKnown).stale == 0

        other = await watch.apply(lambda: folder.write("workbench.toml", settings.replace("agent:", "other.agent:")))
        assert set(other.verdicts.values()) == {"ERROR"}

        agent = "def answer(prompt):\n    return prompt\n"
        appeared = await watch.apply(lambda: folder.write("other/agent.py", agent))
        assert set(appeared.verdicts.values()) == {"PASSED"}


async def test_a_temporarily_empty_project_is_not_replaced_by_the_repository_around_it(
    folder: Folder, request: pytest.FixtureRequest
) -> None:
    outer_repository = folder.root.parent / ".git"
    outer_repository.mkdir()
    request.addfinalizer(outer_repository.rmdir)  # later tests of this process use the same folder
    saved = {path.name: path.read_text() for path in folder.root.iterdir() if path.is_file()}
    async with watch_project(folder.root) as watch:
        await watch.wait_until_quiet()

        deletion = await watch.apply(lambda: [(folder.root / name).unlink() for name in saved])
        assert deletion.first(AllKnown).summary.total == 0

        restored = await watch.apply(lambda: [folder.write(name, text) for name, text in saved.items()])
        assert (restored.verdicts, set(restored.stored_verdicts.values())) == ({}, {"PASSED"})


async def test_a_project_without_cases_is_watched_and_its_first_case_runs(folder: Folder) -> None:
    (folder.root / "set.evalset.json").unlink()
    async with watch_project(folder.root) as watch:
        start = await watch.wait_until_quiet()
        assert start.first(WatchStarted).total == 0
        (notice,) = [event for event in start.events if isinstance(event, Notice) and "eval set" in event.message]
        assert "no eval set (*.evalset.json" in notice.message

        added_round = await watch.apply(lambda: folder.cases(down="down"))
        assert added_round.verdicts == {"down": "PASSED"}
        assert not added_round.has(Notice)

        deletion = await watch.apply((folder.root / "set.evalset.json").unlink)
        assert deletion.first(AllKnown).summary.total == 0
        assert "no eval set (*.evalset.json" in deletion.first(Notice).message

        restored = await watch.apply(lambda: folder.cases(down="down"))
        assert (restored.verdicts, restored.stored_verdicts) == ({}, {"down": "PASSED"})


async def test_a_set_runs_once_its_agent_is_configured(folder: Folder) -> None:
    settings = (folder.root / "workbench.toml").read_text()
    folder.write("workbench.toml", "")
    async with watch_project(folder.root) as watch:
        start = await watch.wait_until_quiet()
        assert start.first(AllKnown).summary.total == 0
        assert "set.evalset.json" in start.first(Notice).message

        found = await watch.apply(lambda: folder.write("workbench.toml", settings))
        assert set(found.verdicts) == {"up_1", "up_2", "down"}


def test_unsaved_edits_are_not_planned_so_that_verdicts_are_those_of_the_saved_set(folder: Folder) -> None:
    with Workspace.open(folder.root) as workspace:
        name = "set.evalset.json"
        planner = WatchPlanner(workspace, lambda _: [Selection(eval_set=name)], RunOptions())
        before, _ = planner.plan()

        workspace.documents.edit(name, lambda document: document.remove_case(0), label="delete")
        while_edited, _ = planner.plan()
        folder.cases(theirs="up one")
        after_a_save_by_another_program, _ = planner.plan()

        assert while_edited.cases == before.cases
        assert [case.key.eval_id for case in after_a_save_by_another_program.cases] == ["theirs"]
        assert workspace.documents.get_status(name).changed_on_disk
