"""What the screen says about the changes that a watch reports, and which verdicts it shows without a watch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.watch.watched import Folder
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.identity import CaseKey, Dependency, DependencyKind, JobKey
from workbench.model.results import CaseStatus
from workbench.tui.backend.watch_calls import ReasonWords, VerdictCheck, Watch
from workbench.tui.state.case_status import ResultLocation
from workbench.tui.state.watch_state import CaseStates
from workbench.watch.selector import Action, Decision, Reason, Why
from workbench.watch.watch_events import DecisionsMade


def test_a_file_is_named_once_though_cases_read_different_contents_of_it(tmp_path: Path) -> None:
    path = tmp_path / "prompt.txt"
    path.write_text("now")
    planned: Any = None
    decisions = [
        Decision(
            JobKey(case=CaseKey(target="t", eval_set="s", eval_id=then)),
            planned,
            Action.RUN,
            (Reason(row=Dependency(kind=DependencyKind.FILE, key=str(path), fingerprint=then)),),
        )
        for then in ("a", "b")
    ]
    session: Any = SimpleNamespace(state=None)

    reaches = ReasonWords(session, tmp_path).describe_reaches(decisions, decisions)

    assert reaches == ("prompt.txt changed <- used by 2 of 2 cases",)


def test_a_case_that_was_only_played_has_no_stale_verdict(tmp_path: Path) -> None:
    planned: Any = None
    reasons = {"played": Why.NEVER_JUDGED, "judged": Why.CRITERIA_CHANGED}
    jobs = {name: JobKey(case=CaseKey(target="t", eval_set="s", eval_id=name)) for name in reasons}
    made = DecisionsMade(
        tuple(Decision(jobs[name], planned, Action.JUDGE, (Reason(why),)) for name, why in reasons.items())
    )
    session: Any = SimpleNamespace(files=0, state=None)
    workspace: Any = SimpleNamespace(root=tmp_path, verdicts=SimpleNamespace(newest=lambda job: job))
    call: Any = None
    watch = Watch(session, workspace, call, shown={}, on_event=lambda: None)

    [states] = watch._describe(workspace, made)

    assert isinstance(states, CaseStates)
    assert list(states.stale) == [jobs["judged"]]


async def test_a_repeat_that_the_newest_run_did_not_have_is_shown_again_if_its_verdict_is_current(
    tmp_path: Path,
) -> None:
    folder = Folder(tmp_path)
    folder.write("agent.py", "def answer(prompt): return prompt")
    folder.write("workbench.toml", (tmp_path / "workbench.toml").read_text() + "[run]\nruns = 2\n")
    folder.cases(one="one")
    with Workspace.open(tmp_path) as workspace:
        run = workspace.start(workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions()))
        list(run.iter_events())

        async def call(work: Callable[[Workspace], Any]) -> Any:
            return work(workspace)

        [first] = (result for result in run.results() if result.repeat == 0)
        shown = {first.case: {0: ResultLocation(run.run_id, JobKey(case=first.case, repeat=0))}}
        [checked] = [each async for each in VerdictCheck(call).check(shown)]

    assert checked.stale == {}
    restored = {repeat: verdict.stored.status for repeat, verdict in checked.current[first.case].items()}
    assert restored == {1: CaseStatus.PASSED}
