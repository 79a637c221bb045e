"""What the screen says about the changes that a watch reports, and which verdicts it shows without a watch."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.watch.watched import Folder
from workbench.engine.plan import RunOptions, Selection
from workbench.engine.workspace import Workspace
from workbench.model.identity import CaseKey, Dependency, DependencyKind, JobKey
from workbench.model.results import CaseStatus
from workbench.tui.backend.watch_calls import ReasonWords, VerdictCheck, Watch, WatchCalls
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


async def test_a_further_repeat_of_a_manual_run_is_stale_if_only_its_code_changed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with number_calls() as port:
        folder.write("further.py", "text = ''")
        folder.write("agent.py", AGENT_OF_TWO_WAYS.format(port=port))
        folder.cases(one="one")
        with Workspace.open(tmp_path) as workspace:
            run = workspace.start(
                workspace.plan([Selection(eval_set="set.evalset.json")], RunOptions(runs=2, concurrency=1))
            )
            list(run.iter_events())
            jobs = {result.repeat: JobKey(case=result.case, repeat=result.repeat) for result in run.results()}

            async def call(work: Callable[[Workspace], Any]) -> Any:
                return work(workspace)

            watch = await WatchCalls(tmp_path, call).open(
                shown={job: ResultLocation(run.run_id, job) for job in jobs.values()},
                priority=lambda job: 0,
                on_event=lambda: None,
            )
            try:
                first = await wait_for_states(watch, lambda states: True)
                folder.write("further.py", "text = '!'")
                changed = await wait_for_states(watch, lambda states: bool(states.stale or states.affected))
            finally:
                await watch.close()

    assert first.stale == {}
    assert changed.stale == {jobs[1]: ("further.py: text changed",)}
    assert changed.affected == []


AGENT_OF_TWO_WAYS = """
    import socket

    def answer(prompt):
        with socket.create_connection(("127.0.0.1", {port})) as connection:
            number = connection.recv(1)
        if number == b"1":
            import further
            return prompt + further.text
        return prompt
"""


@contextmanager
def number_calls() -> Iterator[int]:
    """Yield the port of a server that sends each client the number of those before it."""

    def serve() -> None:
        for number in range(2):
            with server.accept()[0] as connection:
                connection.sendall(str(number).encode())

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


async def wait_for_states(watch: Watch, condition: Callable[[CaseStates], bool]) -> CaseStates:
    """Return the next decisions of the watch that satisfy the condition."""
    async with asyncio.timeout(30):
        while True:
            while watch.events:
                event = watch.events.popleft()
                if isinstance(event, CaseStates) and condition(event):
                    return event
            await asyncio.sleep(0.01)
