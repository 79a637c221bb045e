"""The generator and the oracle, on which the proof of watching depends."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.store.evalsets.config_files import load_config

from .cases import make_turn
from .edits import KINDS, Edit, edit, make_scene
from .harness import RunByModules, RunEverything, RunNothing, make_project, prove
from .oracle import Oracle, quick_folder
from .outcomes import Outcome, make_outcome
from .packages import CRITERIA, ENVIRONMENT, EVAL_SET, all_recipes, generate
from .scene import Scene

pytestmark = pytest.mark.needs_fork


SMALL: dict[str, Any] = {"cases": (6, 10)}
"""Sizes of packages that are run after each of many edits."""


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with quick_folder() as scratch, Oracle(scratch) as oracle:
        yield oracle


@pytest.fixture(scope="module")
def remembering_oracle() -> Iterator[Oracle]:
    """An oracle for tests of strategies, which ask it for the same states as the harness."""
    with quick_folder() as scratch, Oracle(scratch, remembers=True) as oracle:
        yield oracle


def read_files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def make_edits(scene: Scene, count: int) -> list[Edit]:
    edits = [edit(scene) for _ in range(count)]
    return [item for item in edits if item is not None]


def test_equal_seeds_make_equal_packages_and_edits(tmp_path: Path) -> None:
    packages = []
    for folder in ("one", "two"):
        scene = make_scene(generate(tmp_path / folder, 7))
        packages.append((read_files(scene.root), make_edits(scene, 40), read_files(scene.root)))

    assert packages[0] == packages[1]
    assert read_files(generate(tmp_path / "other", 8).root) != packages[0][0]


def test_excluded_kinds_of_edits_are_never_made(tmp_path: Path) -> None:
    scene = make_scene(generate(tmp_path, 7))
    scene.excluded_kinds = frozenset({"body", "data_edited"})

    edits = [*make_edits(scene, 150), *(each for _ in range(50) if (each := edit(scene, "several")) is not None)]

    made = {kind for each in edits for kind in (each.kind, *re.findall(r"(\w+): ", each.description))}
    assert {"several", "undo", "constant"} <= made
    assert not made & scene.excluded_kinds


def test_an_unedited_package_gives_the_same_results_twice(tmp_path: Path, oracle: Oracle) -> None:
    for seed in range(4):
        project = make_project(tmp_path / str(seed), seed, oracle)

        outcomes = oracle.run(project.root)

        assert outcomes == oracle.run(project.root)
        assert 8 <= len(outcomes) <= 24
        assert {"PASSED", "FAILED"} <= {outcome.verdict for outcome in outcomes.values()}


def test_every_recipe_works_and_gives_different_results_for_different_numbers(tmp_path: Path, oracle: Oracle) -> None:
    for recipe in all_recipes():
        package = generate(tmp_path / recipe.name, 3, tools=(1, 1), recipes=[recipe.name])
        tools = [name for name, used_recipe in package.recipes.items() if used_recipe == recipe.name]
        prompts = {f"{tool} {number}": f"{tool} {number}" for tool in tools for number in range(4)}
        write_set(package.root, prompts)

        outcomes = oracle.run(package.root)

        responses = {outcome.answers[0].response for outcome in outcomes.values() if outcome.answers}
        assert len(responses) > 1, recipe.name
        assert all(
            prompt in (outcome.answers[0].response or "") for prompt, outcome in outcomes.items() if outcome.answers
        )


def write_set(root: Path, prompts: dict[str, str]) -> None:
    """Replace the eval set of a package by a set with one case for each prompt."""
    import json

    cases = [
        {
            "eval_id": name,
            "conversation": [make_turn(prompt, 0)],
            "session_input": {"app_name": "generated", "user_id": "user"},
        }
        for name, prompt in prompts.items()
    ]
    (root / EVAL_SET).write_text(json.dumps({"eval_set_id": "set", "eval_cases": cases}))


def test_each_kind_of_edit_changes_some_results_but_neutral_kinds_change_none(tmp_path: Path, oracle: Oracle) -> None:
    projects = [make_project(tmp_path / str(seed), seed, oracle, **SMALL) for seed in range(3)]
    before = [oracle.run(project.root) for project in projects]
    originals = [read_files(project.root) for project in projects]
    selective = effective_edits = 0
    used_kinds: set[str] = set()
    for number, kind in enumerate(
        kind for kind in KINDS if not kind.startswith("journal_")
    ):  # these are never reverted
        place = number % len(projects)
        project, known, original = projects[place], before[place], originals[place]
        scene = make_scene(project)
        new_edit = edit(scene, kind)
        if new_edit is None:  # this package has no place for the kind, or no earlier edit
            continue
        changed = find_changed_cases(known, oracle.run(project.root))
        assert not (new_edit.neutral and changed), new_edit
        used_kinds.add(kind)
        effective_edits += not new_edit.neutral
        selective += 0 < len(changed) < len(known)
        revert_all(scene)
        assert read_files(project.root) == original, f"{new_edit} could not be taken back"
    assert len(KINDS) >= 60 and len(used_kinds) > 0.7 * len(KINDS)
    assert selective > 0.25 * effective_edits


def find_changed_cases(before: dict[str, Outcome], after: dict[str, Outcome]) -> list[str]:
    return [eval_id for eval_id in before.keys() & after.keys() if before[eval_id] != after[eval_id]]


def revert_all(scene: Scene) -> None:
    with scene.record_change("taken back"):
        for change in reversed(scene.changes):
            scene.restore(change.before)


def test_every_kind_is_used_in_a_long_session(tmp_path: Path) -> None:
    used_kinds: dict[str, int] = defaultdict(int)
    recipes = ["plugins", "probe", "journal", "class_attribute", "installed", "database", "cache", "failing_write"]
    recipes += ["link", "mode", "hanging", "variable", "optional_late"]
    for seed in range(16):
        scene = make_scene(generate(tmp_path / str(seed), seed, recipes=recipes))
        scene.likely_kinds = ("env_deleted", "env_created", "journal_brought_back") if seed < 4 else ()
        for new_edit in make_edits(scene, 75):
            used_kinds[new_edit.kind] += 1

    assert set(used_kinds) == set(KINDS)


def test_reverting_all_edits_restores_the_results(tmp_path: Path, oracle: Oracle) -> None:
    project = make_project(tmp_path / "project", 5, oracle)
    before, original = oracle.run(project.root), read_files(project.root)
    scene = make_scene(project)
    make_edits(scene, 12)
    assert find_changed_cases(before, oracle.run(project.root))

    revert_all(scene)

    assert read_files(project.root) == original
    assert oracle.run(project.root) == before


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_the_oracle_and_the_engine_find_the_same_outcomes(
    seed: int, tmp_path: Path, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    project = make_project(tmp_path / "project", seed, oracle, **SMALL)
    scene = make_scene(project)
    with Workspace.open(project.root) as workspace:
        for number in range(4):
            found, truth = run_with_engine(workspace), oracle.run(project.root)

            for eval_id in sorted({*found, *truth}):
                assert found[eval_id] == truth[eval_id], (eval_id, found[eval_id].list_differences(truth[eval_id]))
            make_edits(scene, 1 + 2 * number)


def run_with_engine(workspace: Workspace) -> dict[str, Outcome]:
    """Run all cases of a project with the engine."""
    workspace.refresh()
    run = workspace.start(workspace.plan([Selection(eval_set=EVAL_SET)], RunOptions(retries=0)))
    list(run.iter_events())
    criteria = [criterion.metric for criterion in load_config(workspace.root / CRITERIA).criteria]
    return {
        result.case.eval_id: make_outcome(result, root=workspace.root, criteria=criteria) for result in run.results()
    }


async def test_the_harness_finds_no_miss_if_everything_runs(tmp_path: Path, remembering_oracle: Oracle) -> None:
    strategy = RunEverything(remembering_oracle)

    report = await prove(strategy, remembering_oracle, tmp_path, range(2), edits=8, **SMALL)

    assert not report.misses
    assert not report.false_neutral_edits
    assert report.total.edits == 16
    assert report.total.rerun_share == 1.0
    assert 0.03 < report.total.changed_share == report.total.precision < 0.4


@pytest.mark.parametrize("strategy", [RunNothing, RunByModules])
async def test_the_harness_detects_strategies_that_run_too_little(
    strategy: type[RunNothing | RunByModules], tmp_path: Path, remembering_oracle: Oracle
) -> None:
    oracle = remembering_oracle

    report = await prove(strategy(oracle), oracle, tmp_path, range(4), edits=30, **SMALL)

    assert report.misses
    assert not report.misses[0].has_rerun
    assert report.total.edits <= 60


def test_only_possible_edits_are_made(tmp_path: Path) -> None:
    scene = make_scene(generate(tmp_path, 1))
    scene.rng = random.Random(0)

    assert edit(scene, "syntax_repaired") is None
    syntax_error = edit(scene, "syntax_error")

    assert syntax_error is not None
    assert edit(scene, "syntax_repaired") is not None
