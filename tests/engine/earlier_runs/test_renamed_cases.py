"""Results of a case are found under its new name after it was renamed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.watch.watched import AGENT, TOOLS, Folder
from workbench.engine.earlier_runs import FormerNames
from workbench.engine.open_documents import OpenDocuments
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.identity import CaseKey
from workbench.store.history.history_queries import UsedName

SET = "set.evalset.json"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    project = Folder(tmp_path)
    project.write("agent.py", AGENT)
    project.write("tools.py", TOOLS)
    return project


def name(eval_id: str) -> CaseKey:
    return CaseKey(target="home", eval_set=SET, eval_id=eval_id)


def used(first: int, last: int, *inputs: str, judged_by: str = "") -> UsedName:
    return UsedName(frozenset((key, judged_by) for key in inputs), first, last)


def find(names: dict[CaseKey, UsedName], eval_id: str, execution_key: str, scoring_key: str = "") -> list[str]:
    """Find the former ids of a case, if all other names are gone."""
    gone = [key for key in names if key != name(eval_id)]
    return [former.eval_id for former in FormerNames(names, gone).find(name(eval_id), (execution_key, scoring_key))]


def run(folder: Folder) -> None:
    with Workspace.open(folder.root) as workspace:
        list(workspace.start(workspace.plan([Selection(eval_set=SET)], RunOptions())).iter_events())


def find_renamed(folder: Folder) -> dict[str, str]:
    """Map the new ids of renamed cases to the ids under which they ran."""
    with Workspace.open(folder.root) as workspace, workspace.history() as history:
        found = workspace.find_renamed_jobs(history, history.latest_jobs())
    return {key.eval_id: jobs[0].case.eval_id for key, jobs in found.items()}


def find_history(folder: Folder, eval_id: str) -> list[str]:
    """List the former ids of a case."""
    with Workspace.open(folder.root) as workspace, workspace.history() as history:
        (target,) = {key.target for key in history.latest_jobs()}
        key = CaseKey(target=target, eval_set=SET, eval_id=eval_id)
        return [former.eval_id for former in workspace.find_former_names(history, [key]).get(key, ())]


def test_a_former_name_has_an_input_of_the_case() -> None:
    names = {name("a"): used(1, 2, "x"), name("b"): used(1, 2, "y")}

    assert find(names, "new", "x") == ["a"]
    assert find(names, "new", "z") == []


def test_all_names_of_a_case_are_found_the_newest_first() -> None:
    names = {name("a"): used(1, 2, "x"), name("b"): used(3, 4, "x", "y"), name("new"): used(5, 6, "y")}

    assert find(names, "new", "z") == ["b", "a"]


def test_a_case_that_ran_beside_another_one_was_not_renamed_from_it() -> None:
    names = {name("deleted"): used(1, 4, "x"), name("kept"): used(2, 5, "x")}

    assert find(names, "kept", "x") == []


def test_of_two_names_with_the_same_input_that_with_the_same_expectations_is_found() -> None:
    names = {name("a"): used(1, 2, "x", judged_by="p"), name("b"): used(3, 4, "x", judged_by="q")}

    assert find(names, "new_a", "x", "p") == ["a"]
    assert find(names, "new_b", "x", "q")[0] == "b"
    assert find(names, "new", "x", "r")[0] == "b"


def test_a_name_that_was_changed_here_is_a_former_one_with_any_input() -> None:
    names = {name("a"): used(1, 2, "x"), name("b"): used(3, 4, "y"), name("other"): used(5, 6, "z")}
    gone = [*names]

    former = FormerNames(names, gone, {"a": "b", "b": "c", "c": "new"})

    assert [key.eval_id for key in former.find(name("new"), ("w", ""))] == ["b", "a"]
    assert former.find(name("c"), ("w", "")) == []


def test_the_last_result_of_a_renamed_case_is_found(folder: Folder) -> None:
    folder.cases(one="up one", two="down")
    run(folder)
    assert find_renamed(folder) == {}
    folder.cases(first="up one", two="down", new="up new")

    assert find_renamed(folder) == {"first": "one"}
    assert find_history(folder, "first") == ["one"]
    run(folder)
    assert find_renamed(folder) == {}
    assert find_history(folder, "first") == ["one"]


def test_a_copy_of_a_case_has_no_earlier_results(folder: Folder) -> None:
    folder.cases(one="up one")
    run(folder)
    folder.cases(one="up one", copy="up one")

    assert find_renamed(folder) == {}


def test_a_case_that_was_edited_and_renamed_here_has_its_earlier_results(folder: Folder) -> None:
    folder.cases(one="up one", two="down")
    run(folder)

    def edit(documents: OpenDocuments, prompt: str) -> None:
        place = ("conversation", 0, "user_content", "parts", 0, "text")
        documents.edit(SET, lambda document: document.set_value(place, prompt, case=0), label="edit")

    def rename(documents: OpenDocuments, eval_id: str) -> None:
        documents.edit_and_save(SET, lambda document: document.set_value(("eval_id",), eval_id, case=0), label="rename")

    with Workspace.open(folder.root) as workspace:
        documents = workspace.documents
        edit(documents, "up two")
        rename(documents, "first")
        assert find_renamed(folder) == {"first": "one"}
        rename(documents, "start")
        edit(documents, "up three")
        documents.save(SET)
        assert find_renamed(folder) == {"start": "one"}

        for _ in range(2):
            documents.undo(SET)
        documents.save(SET)
        assert find_renamed(folder) == {"first": "one"}
        rename(documents, "one")
        assert find_renamed(folder) == {}
        rename(documents, "two")  # a duplicate id, which cannot run
        rename(documents, "last")
        assert find_renamed(folder) == {"last": "one"}


def test_a_renamed_case_with_another_prompt_has_no_earlier_results(folder: Folder) -> None:
    folder.cases(one="up one")
    run(folder)
    folder.cases(first="up two")

    assert find_renamed(folder) == {}
