"""Decisions about a case, from constructed verdicts and real files."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.agents.worker.recording import fingerprints
from workbench.agents.worker.recording.blocks import read_blocks
from workbench.engine.plan import PlannedCase
from workbench.engine.verdict_index import Asked, Verdicts
from workbench.metrics.registry import prepare
from workbench.model.criteria import EvalConfig
from workbench.model.identity import CaseKey, Dependencies, Dependency, JobKey
from workbench.model.results import CaseResult, CaseStatus, Execution, Failure, FailureKind, MetricResult, MetricStatus
from workbench.model.target import AgentKind, Target
from workbench.store.history.history_queries import StoredJob, StoredVerdict
from workbench.watch.selector import Action, Decision, Selector, Why
from workbench.watch.snapshot import Snapshot
from workbench.watch.watch_events import describe_reason

CASE = CaseKey(target="t", eval_set="s.evalset.json", eval_id="case")
JOB = JobKey(case=CASE)


class Known:
    """Verdicts of one case, and the decision."""

    def __init__(self, root: Path, **target: Any) -> None:
        self.root = root
        self.target = Target(name="t", kind=AgentKind.FUNCTION, location="a:b", path=root, **target)
        self.verdicts = Verdicts()
        self.state = Snapshot(leftovers=self.verdicts.list_agent_files)
        self.current = False
        self.busy = False
        self.selector = Selector(
            self.verdicts, self.state, is_current=lambda _: self.current, is_busy=lambda: self.busy
        )
        self._number = 0

    def add(
        self,
        *rows: tuple[str, str, str],
        asked: str = "asked",
        judged: str = "judged",
        failure: FailureKind | None = None,
        scored_with: tuple[tuple[str, str, str], ...] = (),
        certain: bool = True,
        known: bool = True,
        execution: int | None = None,
    ) -> StoredVerdict:
        """A verdict of a run."""
        self._number += 1
        ended = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=self._number)
        told = Dependencies(
            rows=frozenset(Dependency(*row) for row in rows), complete=certain, recorded_at=ended.timestamp()
        )
        by = Dependencies(rows=frozenset(Dependency(*row) for row in scored_with), complete=True)
        metric = MetricResult(
            name="m", score=1.0, threshold=1.0, status=MetricStatus.PASSED, dependencies=by if scored_with else None
        )
        result = CaseResult(
            case=CASE,
            eval_set_id="s",
            status=CaseStatus.ERROR if failure else CaseStatus.PASSED,
            metrics=(metric,),
            execution=Execution(dependencies=told if known else None),
        )
        job = StoredJob(
            run_id=f"run{self._number}",
            key=JOB,
            status=result.status,
            duration_seconds=0.1,
            agent_seconds=0.1,
            failure=Failure(kind=failure, message="x") if failure else None,
            finished_at=ended,
            execution_key=asked,
            scoring_key=judged,
        )
        stored = StoredVerdict(
            job,
            execution or self._number,
            1000 + self._number if known else None,
            2000 + self._number if scored_with else None,
            is_certain=certain and known,
            started_at=ended.timestamp() - job.duration_seconds,
        )
        self.verdicts.add(stored, result)
        return stored

    def decide(self, *, asked: str = "asked", judged: str = "judged", **planned: Any) -> Decision:
        """Return the present decision."""
        self.selector.forget()
        case = PlannedCase(
            key=CASE,
            eval_set_id="s",
            target=self.target,
            criteria=prepare(EvalConfig(criteria=())),
            execution_hash=asked,
            scoring_hash=judged,
            **planned,
        )
        return self.selector.decide(JOB, case)

    def file(self, name: str, text: str) -> tuple[str, str, str]:
        """A file, and the row of a case that has read it."""
        path = self.root / name
        path.write_text(text)
        return "file", str(path), fingerprints.of_file(str(path))

    def words(self, decision: Decision) -> list[str]:
        """The reasons as people read them."""
        return [describe_reason(reason, root=self.root, state=self.state) for reason in decision.reasons]


@pytest.fixture
def known(tmp_path: Path) -> Known:
    return Known(tmp_path)


def test_a_case_that_never_ran_runs(known: Known) -> None:
    decision = known.decide()

    assert decision.action is Action.RUN
    assert known.words(decision) == ["never ran"]


def test_a_case_that_is_asked_something_else_runs(known: Known) -> None:
    known.add(known.file("a.txt", "a"))

    decision = known.decide(asked="another")

    assert (decision.action, decision.reasons[0].why) == (Action.RUN, Why.CASE_CHANGED)


def test_a_verdict_holds_while_everything_is_as_it_was(known: Known) -> None:
    verdict = known.add(known.file("a.txt", "a"))

    assert known.decide().verdict is verdict
    known.file("a.txt", "b")
    changed = known.decide()
    assert (changed.action, known.words(changed)) == (Action.RUN, ["a.txt changed"])
    known.file("a.txt", "a")
    assert known.decide().action is Action.NOTHING


def test_any_verdict_that_holds_will_do_and_the_one_that_is_shown_is_preferred(known: Known) -> None:
    first = known.add(known.file("a.txt", "a"), execution=7)
    second = known.add(known.file("a.txt", "b"))
    third = known.add(known.file("a.txt", "a"))

    decision = known.decide()
    assert decision.verdict is third
    known.selector.forget()
    place = (first.job.run_id, first.job.key)
    shown = known.selector.decide(JOB, decision.planned, shown=place)  # type: ignore[arg-type]
    assert shown.verdict is first
    known.file("a.txt", "b")
    assert known.decide().verdict is second


def test_other_criteria_only_judge_again(known: Known) -> None:
    verdict = known.add(known.file("a.txt", "a"))

    decision = known.decide(judged="otherwise")

    assert (decision.action, decision.verdict) == (Action.JUDGE, verdict)


def test_code_of_a_metric_only_judges_again(known: Known) -> None:
    known.add(known.file("a.txt", "a"), scored_with=(known.file("metric.py", "x"),))
    assert known.decide().action is Action.NOTHING

    known.file("metric.py", "y")

    decision = known.decide()
    assert (decision.action, known.words(decision)) == (Action.JUDGE, ["metric.py changed"])


@pytest.mark.parametrize("kind", [FailureKind.TIMEOUT, FailureKind.CRASH, FailureKind.INFRASTRUCTURE])
def test_no_answer_is_no_verdict_and_waits_for_a_change_that_concerns_it(known: Known, kind: FailureKind) -> None:
    known.add(known.file("a.txt", "a"), failure=kind, certain=False)

    assert known.decide().action is Action.LEAVE
    known.file("a.txt", "b")
    assert known.decide().action is Action.RUN


def test_what_took_too_long_is_not_tried_again_because_an_earlier_run_was_on_other_code(known: Known) -> None:
    good = known.add(known.file("a.txt", "a"))
    known.add(known.file("a.txt", "b"), failure=FailureKind.TIMEOUT)
    shown = (good.job.run_id, good.job.key)

    left = known.decide()
    assert (left.action, left.reasons[0].why) == (Action.LEAVE, Why.NO_ANSWER)
    assert known.selector.decide(JOB, left.planned, shown=shown).action is Action.LEAVE  # type: ignore[arg-type]

    known.file("a.txt", "c")
    assert known.decide().action is Action.RUN


def test_what_a_metric_does_that_cannot_be_followed_holds_only_until_the_next_change(known: Known) -> None:
    known.add(known.file("a.txt", "a"), scored_with=(("opaque", "subprocess git", "-"),))
    assert known.decide().action is Action.JUDGE

    known.current = True

    assert known.decide().action is Action.NOTHING


def test_an_exception_of_the_agent_is_a_verdict(known: Known) -> None:
    known.add(known.file("a.txt", "a"), failure=FailureKind.AGENT)

    assert known.decide().action is Action.NOTHING


def test_a_case_runs_again_if_its_files_changed_during_the_run(known: Known) -> None:
    known.add(known.file("a.txt", "a"), certain=False)

    decision = known.decide()

    assert (decision.action, decision.reasons[0].why) == (Action.RUN, Why.TAINTED)


def test_unknown_dependencies_are_current_only_until_the_next_change(known: Known) -> None:
    known.add(known=False)
    assert known.decide().reasons[0].why is Why.UNKNOWN

    known.current = True

    assert known.decide().action is Action.NOTHING


def test_opaque_dependencies_are_current_only_until_the_next_change(known: Known) -> None:
    known.add(known.file("a.txt", "a"), ("opaque", "subprocess git", "-"))
    stale = known.decide()
    assert stale.action is Action.RUN
    assert known.words(stale) == ["it uses subprocess git, which cannot be followed: any change counts"]

    known.current = True

    assert known.decide().action is Action.NOTHING


def test_a_target_that_always_runs_again(tmp_path: Path) -> None:
    known = Known(tmp_path, rerun="always")
    known.add(known.file("a.txt", "a"))

    assert known.decide().reasons[0].why is Why.ALWAYS
    known.current = True
    assert known.decide().action is Action.NOTHING


def test_files_that_agents_write_are_theirs(known: Known) -> None:
    _, path, left = known.file("log.txt", "left by one")
    known.add(("state", path, left))
    _, _, later = known.file("log.txt", "left by another")
    known.add(("state", path, later), asked="another case")

    assert known.decide().action is Action.NOTHING
    known.file("log.txt", "by hand")
    assert known.decide().action is Action.RUN
    known.busy = True
    assert known.decide().action is Action.NOTHING


def test_what_agents_left_in_a_file_before_a_case_ran_is_no_longer_theirs(known: Known) -> None:
    """Somebody has brought it back: only a verdict from before holds."""
    _, path, first = known.file("log.txt", "left by one")
    earlier = known.add(("state", path, first))
    _, _, other = known.file("log.txt", "edited by hand, then left by the case")
    later = known.add(("state", path, other))
    assert known.decide().verdict == later

    known.file("log.txt", "left by one")

    assert known.decide().verdict == earlier


def test_a_listing_ignores_files_written_by_agents(known: Known) -> None:
    (known.root / "data").mkdir()
    known.file("data/a.txt", "a")
    folder = str(known.root / "data")
    known.add(("folder", folder, fingerprints.of_folder(folder)), ("written", f"{folder}/out.txt", "x"))
    known.file("data/out.txt", "out")

    assert known.decide().action is Action.NOTHING
    known.file("data/b.txt", "b")
    assert known.decide().action is Action.RUN


def test_what_somebody_else_deletes_of_what_agents_wrote_counts_in_a_listing(known: Known) -> None:
    (known.root / "data").mkdir()
    folder = str(known.root / "data")
    names = fingerprints.of_folder(folder)
    known.add(("folder", folder, names), ("written", f"{folder}/out.txt", "x"))
    known.file("data/out.txt", "out")

    (known.root / "data/out.txt").unlink()

    assert known.decide().action is Action.RUN
    known.busy = True  # it may be an agent that deletes it
    assert known.decide().action is Action.NOTHING
    known.busy = False
    known.add(("folder", folder, fingerprints.of_names([], gone={"out.txt"})))
    assert known.decide().action is Action.NOTHING
    known.add(("written", f"{folder}/out.txt", fingerprints.ABSENT), asked="another case")
    assert known.decide().action is Action.NOTHING
    known.file("data/out.txt", "by hand")
    assert known.decide().action is Action.RUN


def test_source_that_cannot_be_compiled_waits_with_its_place(known: Known) -> None:
    source = "def f():\n    return 1\n"
    _, path, _ = known.file("tools.py", source)
    blocks = read_blocks(source.encode(), path)
    known.add(("module", path, blocks.module), ("block", f"{path}::f", blocks.bodies["f"]))
    assert known.decide().action is Action.NOTHING

    known.file("tools.py", source + "def (:\n")
    broken = known.decide()
    assert broken.action is Action.WAIT
    assert known.words(broken)[0] == "tools.py:3 cannot be compiled: invalid syntax"

    known.file("tools.py", source.replace("1", "2"))
    assert known.words(known.decide()) == ["tools.py: f() changed"]
    (known.root / "tools.py").unlink()
    assert known.words(known.decide())[0] == "tools.py is gone"


def test_rows_of_an_unknown_kind_are_never_current(known: Known) -> None:
    known.add(("moon", "phase", "full"))

    assert known.decide().action is Action.RUN


def test_variables_count_as_the_env_files_leave_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTER", "outer")
    known = Known(tmp_path)
    env = tmp_path / ".env"
    env.write_text("INNER=1\nOUTER=hidden\n")
    secret = fingerprints.derive_secret(str(tmp_path))
    known.add(
        ("env_files", str(env), "-"),
        ("variable", "INNER", fingerprints.of_variable(secret, "1")),
        ("variable", "OUTER", fingerprints.of_variable(secret, "outer")),
        ("variable", "NONE", fingerprints.of_variable(secret, None)),
    )
    assert known.decide().action is Action.NOTHING

    env.write_text("INNER=1\nOUTER=else\n")
    assert known.decide().action is Action.NOTHING
    env.write_text("INNER=2\n")
    assert known.words(known.decide()) == ["$INNER changed"]


def test_only_verdicts_whose_execution_is_kept_are_known(known: Known) -> None:
    row = known.file("a.txt", "a")
    for number in range(7):
        known.add(row, judged=f"judged {number}")

    kept = known.verdicts.find(Asked("t", "asked", 0))

    assert [verdict.job.scoring_key for verdict in kept] == [f"judged {number}" for number in (6, 5, 4, 3, 2)]


def test_equal_length_within_a_moment_is_seen(tmp_path: Path) -> None:
    state = Snapshot()
    path = tmp_path / "a.txt"
    seen = set()
    for number in range(50):
        path.write_text(f"{number:03}")
        os.utime(path, (1, 1))
        state.forget()
        seen.add(state.answer(_question(path)))

    assert len(seen) == 50


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2), min_size=1)),
        max_size=6,
    ),
    st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2)),
)
def test_a_case_is_left_alone_exactly_where_some_verdict_fits(
    tmp_path_factory: pytest.TempPathFactory, earlier: list[tuple[str, dict[str, int]]], now: dict[str, int]
) -> None:
    """Against a plain model: verdicts were given by criteria and files; files are so now."""
    known = Known(tmp_path_factory.mktemp("model"))
    digest: Callable[[int], str] = lambda value: fingerprints.digest(str(value).encode())  # noqa: E731
    for judged, files in earlier:
        known.add(*[("file", str(known.root / name), digest(value)) for name, value in files.items()], judged=judged)
    for name, value in now.items():
        known.file(name, str(value))

    action = known.decide(judged="a").action

    fitting = [judged for judged, files in earlier[-5:] if all(now.get(name) == value for name, value in files.items())]
    expected = Action.NOTHING if "a" in fitting else Action.JUDGE if fitting else Action.RUN
    assert action is expected


def _question(path: Path) -> Any:
    from workbench.watch.snapshot import Question

    return Question("file", str(path), None)


def test_caches_are_dropped_with_their_sets(known: Known, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.engine.verdict_index._LATELY_USED", 3)

    for number in range(20):
        known.add(known.file("a.txt", str(number)))
        assert known.decide().action is Action.NOTHING
    known.selector.forget()

    assert len(known.selector._specials) < 12
    assert len(known.selector._surroundings_cache) < 12
