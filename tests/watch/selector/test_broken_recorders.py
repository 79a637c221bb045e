"""The proof detects every broken watch of `broken` after a few edits.

Its edits come between runs, and its criteria are not code. Two separate scenes cover edits during a run and edits
of the code of a metric.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.watch.broken import VARIANTS, Variant
from tests.watch.generated.harness import prove
from tests.watch.generated.oracle import Oracle, quick_folder
from tests.watch.generated.packages import ENVIRONMENT
from tests.watch.strategy import DecisionsOnly
from tests.watch.watched import Folder
from workbench.engine.plan import Plan, RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.store.history.history_queries import StoredVerdict
from workbench.watch import selector
from workbench.watch.selector import Action, Selector, decide_plan

pytestmark = pytest.mark.needs_fork

_PACKAGES = 8
_EDITS_OF_A_PACKAGE = 40


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with quick_folder() as scratch, Oracle(scratch, remembers=True) as oracle:
        yield oracle


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
async def test_the_proof_detects_each_broken_variant(
    variant: Variant, tmp_path: Path, oracle: Oracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    variant.break_it(monkeypatch)
    seeds = range(variant.first_seed, variant.first_seed + _PACKAGES)

    report = await prove(
        DecisionsOnly(), oracle, tmp_path, seeds, edits=_EDITS_OF_A_PACKAGE,
        tools=(5, 7), cases=(6, 8), recipes=variant.recipes, likely=variant.likely,
    )  # fmt: skip

    print(f"\n{variant}: noticed after {report.total.edits} edits")
    assert report.misses
    assert not report.misses[0].has_rerun


SLOW = """
import time
from pathlib import Path

def answer(prompt):
    first = Path("data.txt").read_text()
    assert not Path("go").exists()  # asked before anybody can make it: what is noted is the first answer
    Path("begun").touch()
    while not Path("go").exists():
        time.sleep(0.01)
    return first + Path("data.txt").read_text()
"""


def _decide_after_a_change_during_the_run(root: Path) -> Action:
    """Change a file during a run, and restore it afterwards."""
    folder = Folder(root)
    folder.write("agent.py", SLOW)
    folder.write("data.txt", "a")
    folder.cases(case="say")
    with Workspace.open(root) as workspace:
        plan = _make_plan(workspace)
        run = workspace.start(plan)
        deadline = time.monotonic() + 30
        while not (root / "begun").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        folder.write("data.txt", "b")
        (root / "go").touch()
        list(run.iter_events())
        folder.write("data.txt", "a")
        (root / "go").unlink()
        (decision,) = decide_plan(workspace, plan)
        return decision.action


def _decide_after_an_edit_of_a_metric(root: Path) -> Action:
    folder = Folder(root)
    folder.write("agent.py", "def answer(prompt):\n    return prompt\n")
    metric = "def judge(instance):\n    return {'score': 1.0}\n"
    folder.write("metric.py", metric)
    config = {"criteria": {"own": 1.0}, "custom_metrics": {"own": {"code_config": {"name": "metric.judge"}}}}
    folder.write("test_config.json", json.dumps(config))
    folder.cases(case="say")
    with Workspace.open(root) as workspace:
        plan = _make_plan(workspace)
        list(workspace.start(plan).iter_events())
        (before,) = decide_plan(workspace, plan)
        assert before.action is Action.NOTHING
        folder.write("metric.py", metric.replace("1.0", "0.0"))
        (decision,) = decide_plan(workspace, plan)
        return decision.action


def _make_plan(workspace: Workspace) -> Plan:
    return workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(adk_results=False, retries=0))


def _ignore_taint(patch: pytest.MonkeyPatch) -> None:
    original = selector._is_verdict

    def is_verdict(stored: StoredVerdict) -> bool:
        return original(stored._replace(is_certain=True))

    patch.setattr(selector, "_is_verdict", is_verdict)


def _ignore_code_of_metrics(patch: pytest.MonkeyPatch) -> None:
    original = Selector.decide

    class VerdictsWithoutScoringDependencies:
        """Verdicts without the dependencies of their scoring."""

        def __init__(self, verdicts: Any) -> None:
            self._verdicts = verdicts

        def __getattr__(self, name: str) -> Any:
            return getattr(self._verdicts, name)

        def for_job(self, job: Any, key: Any) -> list[StoredVerdict]:
            return [each._replace(scoring_dependencies=None) for each in self._verdicts.for_job(job, key)]

    def decide(self: Selector, *arguments: Any, **options: Any) -> Any:
        if not isinstance(self._verdicts, VerdictsWithoutScoringDependencies):
            self._verdicts = cast("Any", VerdictsWithoutScoringDependencies(self._verdicts))
        return original(self, *arguments, **options)

    patch.setattr(Selector, "decide", decide)


@pytest.mark.parametrize(
    ("scene", "break_it", "right"),
    [
        (_decide_after_a_change_during_the_run, _ignore_taint, Action.RUN),
        (_decide_after_an_edit_of_a_metric, _ignore_code_of_metrics, Action.JUDGE),
    ],
    ids=["taint ignored", "code of metrics ignored"],
)
def test_a_separate_scene_detects_what_the_proof_does_not_reach(
    scene: Callable[[Path], Action],
    break_it: Callable[[pytest.MonkeyPatch], None],
    right: Action,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert scene(tmp_path / "right") is right

    break_it(monkeypatch)

    assert scene(tmp_path / "broken") is Action.NOTHING
