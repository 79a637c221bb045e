"""The generator and the oracle themselves: what the proof of watching is worth depends on them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.store.evalsets.config_files import load_config

from .cases import make_turn
from .edits import KINDS, Edit, edit, scene_of
from .harness import RunByModules, RunEverything, RunNothing, make_project, prove
from .oracle import Oracle
from .outcomes import Outcome, outcome_of
from .packages import CRITERIA, ENVIRONMENT, EVAL_SET, all_recipes, generate
from .scene import Scene

pytestmark = pytest.mark.needs_fork


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    with Oracle(tmp_path_factory.mktemp("scratch")) as oracle:
        yield oracle


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def edited(scene: Scene, count: int) -> list[Edit]:
    made = [edit(scene) for _ in range(count)]
    return [item for item in made if item is not None]


def test_equal_seeds_make_equal_packages_and_edits(tmp_path: Path) -> None:
    made = []
    for folder in ("one", "two"):
        scene = scene_of(generate(tmp_path / folder, 7))
        made.append((files_of(scene.root), edited(scene, 40), files_of(scene.root)))

    assert made[0] == made[1]
    assert files_of(generate(tmp_path / "other", 8).root) != made[0][0]


def test_an_unedited_package_gives_the_same_results_twice(tmp_path: Path, oracle: Oracle) -> None:
    for seed in range(4):
        project = make_project(tmp_path / str(seed), seed, oracle)

        outcomes = oracle.run(project.root)

        assert outcomes == oracle.run(project.root)
        assert 8 <= len(outcomes) <= 24
        assert {"PASSED", "FAILED"} <= {outcome.verdict for outcome in outcomes.values()}


def test_every_recipe_works_and_distinguishes_its_numbers(tmp_path: Path, oracle: Oracle) -> None:
    for recipe in all_recipes():
        package = generate(tmp_path / recipe.name, 3, tools=(1, 1), recipes=[recipe.name])
        tools = [name for name, used in package.recipes.items() if used == recipe.name]
        prompts = {f"{tool} {number}": f"{tool} {number}" for tool in tools for number in range(6)}
        write_set(package.root, prompts)

        outcomes = oracle.run(package.root)

        responses = {outcome.answers[0].response for outcome in outcomes.values() if outcome.answers}
        assert len(responses) > 1, recipe.name
        assert all(
            prompt in (outcome.answers[0].response or "") for prompt, outcome in outcomes.items() if outcome.answers
        )


def write_set(root: Path, prompts: dict[str, str]) -> None:
    """Replace the eval set of a package by one with a case for each prompt."""
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


def test_edits_of_every_kind_change_some_results_and_neutral_ones_none(tmp_path: Path, oracle: Oracle) -> None:
    projects = [make_project(tmp_path / str(seed), seed, oracle) for seed in range(3)]
    before = [oracle.run(project.root) for project in projects]
    originals = [files_of(project.root) for project in projects]
    selective = made_of_kind = 0
    used: set[str] = set()
    for number, kind in enumerate(
        kind for kind in KINDS if not kind.startswith("journal_")
    ):  # which is never taken back
        place = number % len(projects)
        project, known, original = projects[place], before[place], originals[place]
        scene = scene_of(project)
        made = edit(scene, kind)
        if made is None:  # for some kinds this package has no place, or nothing was edited yet
            continue
        changed = different(known, oracle.run(project.root))
        assert not (made.neutral and changed), made
        used.add(kind)
        made_of_kind += not made.neutral
        selective += 0 < len(changed) < len(known)
        take_all_back(scene)
        assert files_of(project.root) == original, f"{made} could not be taken back"
    assert len(KINDS) >= 60 and len(used) > 0.7 * len(KINDS)
    assert selective > 0.25 * made_of_kind


def different(before: dict[str, Outcome], after: dict[str, Outcome]) -> list[str]:
    return [eval_id for eval_id in before.keys() & after.keys() if before[eval_id] != after[eval_id]]


def take_all_back(scene: Scene) -> None:
    with scene.recording("taken back"):
        for change in reversed(scene.changes):
            scene.restore(change.before)


def test_every_kind_is_used_in_a_long_session(tmp_path: Path) -> None:
    used: dict[str, int] = defaultdict(int)
    recipes = ["plugins", "probe", "journal", "class_attribute", "installed", "database", "cache", "failing_write"]
    recipes += ["link", "mode", "hanging", "variable", "optional_late"]
    for seed in range(12):
        scene = scene_of(generate(tmp_path / str(seed), seed, recipes=recipes))
        scene.likely = ("env_deleted", "env_created", "journal_brought_back") if seed < 4 else ()
        for made in edited(scene, 75):
            used[made.kind] += 1

    assert set(used) == set(KINDS)


def test_what_was_undone_gives_the_results_of_before(tmp_path: Path, oracle: Oracle) -> None:
    project = make_project(tmp_path / "project", 5, oracle)
    before, original = oracle.run(project.root), files_of(project.root)
    scene = scene_of(project)
    edited(scene, 12)
    assert different(before, oracle.run(project.root))

    take_all_back(scene)

    assert files_of(project.root) == original
    assert oracle.run(project.root) == before


@pytest.mark.parametrize("seed", [1, 2, 3, 4])
def test_the_oracle_finds_what_the_engine_finds(
    seed: int, tmp_path: Path, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    project = make_project(tmp_path / "project", seed, oracle)
    scene = scene_of(project)
    with Workspace.open(project.root) as workspace:
        for number in range(4):
            found, truth = run_with_engine(workspace), oracle.run(project.root)

            for eval_id in sorted({*found, *truth}):
                assert found[eval_id] == truth[eval_id], (eval_id, found[eval_id].differences(truth[eval_id]))
            edited(scene, 1 + 2 * number)


def run_with_engine(workspace: Workspace) -> dict[str, Outcome]:
    """A full run of a project by the engine, as it is."""
    workspace.refresh()
    run = workspace.start(workspace.plan([Selection(eval_set=EVAL_SET)], RunOptions(retries=0)))
    list(run.iter_events())
    criteria = [criterion.metric for criterion in load_config(workspace.root / CRITERIA).criteria]
    return {result.case.eval_id: outcome_of(result, root=workspace.root, criteria=criteria) for result in run.results()}


async def test_the_harness_finds_no_fault_with_running_everything(tmp_path: Path, oracle: Oracle) -> None:
    report = await prove(RunEverything(oracle), oracle, tmp_path, range(2), edits=8)

    assert not report.misses
    assert not report.wrongly_neutral
    assert report.total.edits == 16
    assert report.total.rerun_share == 1.0
    assert 0.03 < report.total.changed_share == report.total.precision < 0.4


@pytest.mark.parametrize("strategy", [RunNothing, RunByModules])
async def test_the_harness_catches_strategies_that_run_too_little(
    strategy: type[RunNothing | RunByModules], tmp_path: Path, oracle: Oracle
) -> None:
    report = await prove(strategy(oracle), oracle, tmp_path, range(4), edits=30)

    assert report.misses
    assert not report.misses[0].was_run
    assert report.total.edits <= 60


def test_an_edit_is_chosen_among_those_that_are_possible(tmp_path: Path) -> None:
    scene = scene_of(generate(tmp_path, 1))
    scene.rng = random.Random(0)

    assert edit(scene, "syntax_repaired") is None
    broken = edit(scene, "syntax_error")

    assert broken is not None
    assert edit(scene, "syntax_repaired") is not None
