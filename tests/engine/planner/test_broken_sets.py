"""Errors of eval-set files: a run of a set with a validation error never ends with status 0."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.engine.project import Project, turn
from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.results import FailureKind
from workbench.store.evalsets.validation import validate

TWO = {"a": [turn("one")], "b": [turn("two")]}
TOKENS = ('"', ",", ":", "{", "}", "[", "]", "'", "\\", "\n", "True", "None", "<<<<<<< HEAD\n", "=======\n", "x", "1")


def _is_wrong_input(workspace: Workspace) -> bool:
    """Return whether a run of the set would end with status 2."""
    try:
        plan = workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions())
    except PlanError:
        return True
    failures = [case.problem for case in plan.cases if case.problem is not None]
    return bool(plan.problems) or any(failure.kind is FailureKind.FILE for failure in failures)


def _damage(text: str, chance: random.Random) -> str:
    """Remove, double or move a part of the text, or add a token."""
    start = chance.randrange(len(text))
    end = min(start + chance.choice((1, 1, 1, 5, 40)), len(text))
    token = chance.choice(TOKENS)
    return chance.choice(
        (
            text[:start],
            text[:start] + text[end:],
            text[:start] + token + text[start:],
            text[:start] + token + text[end:],
            text[:end] + text[start:],
            text + text[start:],
        )
    )


def test_every_validation_error_makes_a_run_end_with_status_2(project: Project) -> None:
    path = project.root / project.add_set(TWO)
    text = path.read_text().replace("}, {", "},\n{")
    chance = random.Random(16)
    workspace = project.open_workspace()
    errors = 0
    for number in range(150):
        damaged_text = _damage(text, chance)
        path.write_text(damaged_text)

        is_error = any(problem.severity == "error" for problem in validate([path]))

        errors += is_error
        assert not is_error or _is_wrong_input(workspace), f"{number}: {damaged_text}"
    assert errors > 50


@pytest.mark.parametrize(
    ("old", "new", "runs"),
    [
        ('"eval_set_id": "set",', '"eval_set_id": "set"', ["a", "b"]),
        ('"eval_set_id": "set",', '<<<<<<< HEAD\n"eval_set_id": "set",\n=======\n', ["a", "b"]),
        ('"eval_set_id": "set"', "'eval_set_id': 'set'", ["a", "b"]),
        ('"eval_set_id": "set"', '"eval_set_id": "set", "done": True', ["a", "b"]),
        ("}, {", "} {", ["a", "b"]),
        ("}]}", "}]", ["a", "b"]),
        ("}]}", '}]} {"eval_set_id": "other"}', ["a", "b"]),
        (', {"eval_id": "b"', None, ["a"]),
    ],
    ids=[
        "no comma in the header",
        "merge markers",
        "single quotes",
        "True",
        "no comma",
        "cut",
        "two documents",
        "half",
    ],
)
def test_intact_cases_of_a_broken_set_run_and_its_errors_are_reported(
    project: Project, old: str, new: str | None, runs: list[str]
) -> None:
    path: Path = project.root / project.add_set(TWO)
    before, found, after = path.read_text().rpartition(old)
    assert found
    path.write_text(before if new is None else before + new + after)
    workspace = project.open_workspace()

    plan = workspace.plan([Selection(eval_set=path.name)], RunOptions())

    assert [case.key.eval_id for case in plan.cases if case.problem is None] == runs
    assert [str(problem) for problem in validate([path]) if problem.severity == "error"] == list(plan.problems)
    assert plan.problems


def test_errors_of_unselected_cases_are_not_reported(project: Project) -> None:
    cases = {"a": [turn("one")], "b": [{**turn("two"), "note": "which ADK refuses"}]}
    path = project.root / project.add_set(cases)
    workspace = project.open_workspace()

    selected_plan = workspace.plan([Selection(eval_set=path.name, cases=("a",))], RunOptions())
    full_plan = workspace.plan([Selection(eval_set=path.name)], RunOptions())

    assert not selected_plan.problems
    assert [problem.partition(": error: ")[2] for problem in full_plan.problems] == [
        "eval_cases[1].conversation[0].note: ADK refuses the unknown key 'note' in Invocation"
    ]


def test_a_case_that_is_not_found_in_a_broken_set_has_the_errors_of_the_file(project: Project) -> None:
    name = project.add_set(TWO)
    (project.root / name).write_text('{"eval_set_id": "set" "eval_cases": [', encoding="utf-8")

    with pytest.raises(PlanError) as caught:
        project.open_workspace().plan([Selection(eval_set="set.evalset.json", cases=("a",))], RunOptions())

    first, second, *_ = str(caught.value).splitlines()
    assert first == "set.evalset.json: no eval case 'a'"
    assert "expected ','" in second
