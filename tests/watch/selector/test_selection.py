"""Decisions about a case, from constructed verdicts and real files."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.watch.watched_case import CASE, JOB, WatchedCase
from workbench.agents.worker.recording import fingerprints
from workbench.agents.worker.recording.blocks import read_blocks
from workbench.engine.verdict_index import Asked
from workbench.model.identity import JobKey
from workbench.model.results import CaseResult, CaseStatus, FailureKind
from workbench.store.history.history import History
from workbench.store.history.history_queries import ResultToStore, RunRecord
from workbench.watch.selector import Action, Selector, VerdictKey, Why, read_results


def test_a_case_that_never_ran_runs(case: WatchedCase) -> None:
    decision = case.decide()

    assert decision.action is Action.RUN
    assert case.describe_reasons(decision) == ["never ran"]


def test_a_case_with_changed_prompts_runs(case: WatchedCase) -> None:
    case.add(case.write_file("a.txt", "a"))

    decision = case.decide(execution_key="another")

    assert (decision.action, decision.reasons[0].why) == (Action.RUN, Why.CASE_CHANGED)


def test_a_verdict_holds_while_its_dependencies_are_unchanged(case: WatchedCase) -> None:
    verdict = case.add(case.write_file("a.txt", "a"))

    assert case.decide().verdict is verdict
    case.write_file("a.txt", "b")
    changed = case.decide()
    assert (changed.action, case.describe_reasons(changed)) == (Action.RUN, ["a.txt changed"])
    case.write_file("a.txt", "a")
    assert case.decide().action is Action.NOTHING


def test_a_verdict_on_replayed_answers_is_stale_if_models_must_be_asked(case: WatchedCase) -> None:
    row = case.write_file("a.txt", "a")
    live, replayed = case.add(row), case.add(row, is_replayed=True)
    assert case.decide().verdict is replayed
    case.selector = Selector(case.verdicts, case.snapshot, rejects_replays=True)

    assert case.decide().verdict is live

    case.add(case.write_file("a.txt", "b"), is_replayed=True)
    decision = case.decide()
    assert (decision.action, decision.verdict.job.run_id) == (Action.RUN, "run3")
    assert case.describe_reasons(decision) == ["answers of models were replayed"]
    assert case.decide(scoring_key="other").action is Action.RUN


def test_any_current_verdict_is_reused_and_the_shown_one_is_preferred(case: WatchedCase) -> None:
    first = case.add(case.write_file("a.txt", "a"), execution=7)
    second = case.add(case.write_file("a.txt", "b"))
    third = case.add(case.write_file("a.txt", "a"))

    decision = case.decide()
    assert decision.verdict is third
    case.selector.forget()
    shown_job = (first.job.run_id, first.job.key)
    shown = case.selector.decide(JOB, decision.planned, shown={JOB: shown_job})  # type: ignore[dict-item]
    assert shown.verdict is first
    case.write_file("a.txt", "b")
    assert case.decide().verdict is second


def test_a_reason_is_what_changed_since_the_shown_verdict(case: WatchedCase) -> None:
    other = case.write_file("b.txt", "b")
    first = case.add(case.write_file("a.txt", "a"), other)
    case.add(case.write_file("a.txt", "edited"), other)
    case.write_file("a.txt", "a")  # taken back
    assert case.decide().verdict is first

    case.write_file("b.txt", "edited")
    planned = case.decide().planned
    shown = {JOB: VerdictKey(first.job.run_id, first.job.key)}

    assert case.describe_reasons(case.selector.decide(JOB, planned, shown=shown)) == ["b.txt changed"]


def test_changed_criteria_only_rescore(case: WatchedCase) -> None:
    verdict = case.add(case.write_file("a.txt", "a"))

    decision = case.decide(scoring_key="otherwise")

    assert (decision.action, decision.verdict) == (Action.JUDGE, verdict)


def test_changed_code_of_a_metric_only_rescores(case: WatchedCase) -> None:
    case.add(case.write_file("a.txt", "a"), scored_with=(case.write_file("metric.py", "x"),))
    assert case.decide().action is Action.NOTHING

    case.write_file("metric.py", "y")

    decision = case.decide()
    assert (decision.action, case.describe_reasons(decision)) == (Action.JUDGE, ["metric.py changed"])


@pytest.mark.parametrize("kind", [FailureKind.TIMEOUT, FailureKind.CRASH, FailureKind.INFRASTRUCTURE])
def test_a_case_without_an_answer_runs_only_after_a_relevant_change(case: WatchedCase, kind: FailureKind) -> None:
    case.add(case.write_file("a.txt", "a"), failure=kind, is_certain=False)

    assert case.decide().action is Action.LEAVE
    case.write_file("a.txt", "b")
    assert case.decide().action is Action.RUN


def test_a_case_that_timed_out_on_the_current_code_is_left_alone(case: WatchedCase) -> None:
    good = case.add(case.write_file("a.txt", "a"))
    case.add(case.write_file("a.txt", "b"), failure=FailureKind.TIMEOUT)

    decision = case.decide()
    assert (decision.action, decision.reasons[0].why) == (Action.LEAVE, Why.NO_ANSWER)

    # As long as another verdict is shown, which is stale, the change concerns the case.
    while_shown = case.selector.decide(JOB, decision.planned, shown={JOB: VerdictKey(good.job.run_id, JOB)})
    assert (while_shown.action, [reason.row is not None for reason in while_shown.reasons]) == (Action.RUN, [True])

    case.write_file("a.txt", "c")
    assert case.decide().action is Action.RUN


def test_opaque_dependencies_of_a_metric_are_current_only_until_the_next_change(case: WatchedCase) -> None:
    case.add(case.write_file("a.txt", "a"), scored_with=(("opaque", "subprocess git", "-"),))
    assert case.decide().action is Action.JUDGE

    case.is_current = True

    assert case.decide().action is Action.NOTHING


def test_an_exception_of_the_agent_is_a_verdict(case: WatchedCase) -> None:
    case.add(case.write_file("a.txt", "a"), failure=FailureKind.AGENT)

    assert case.decide().action is Action.NOTHING


def test_a_case_runs_again_if_its_files_changed_during_the_run(case: WatchedCase) -> None:
    case.add(case.write_file("a.txt", "a"), is_certain=False)

    decision = case.decide()

    assert (decision.action, decision.reasons[0].why) == (Action.RUN, Why.TAINTED)


def test_unknown_dependencies_are_current_only_until_the_next_change(case: WatchedCase) -> None:
    case.add(has_dependencies=False)
    assert case.decide().reasons[0].why is Why.UNKNOWN

    case.is_current = True

    assert case.decide().action is Action.NOTHING


def test_opaque_dependencies_are_current_only_until_the_next_change(case: WatchedCase) -> None:
    case.add(case.write_file("a.txt", "a"), ("opaque", "subprocess git", "-"))
    stale = case.decide()
    assert stale.action is Action.RUN
    assert case.describe_reasons(stale) == ["it uses subprocess git, which cannot be tracked: every change affects it"]

    case.is_current = True

    assert case.decide().action is Action.NOTHING


def test_a_target_with_rerun_always_runs_after_any_change(tmp_path: Path) -> None:
    case = WatchedCase(tmp_path, rerun="always")
    case.add(case.write_file("a.txt", "a"))

    assert case.decide().reasons[0].why is Why.ALWAYS
    case.is_current = True
    assert case.decide().action is Action.NOTHING


def test_files_written_by_agents_stay_current_until_edited_by_hand(case: WatchedCase) -> None:
    _, path, agent_state = case.write_file("log.txt", "left by one")
    case.add(("state", path, agent_state))
    _, _, later = case.write_file("log.txt", "left by another")
    case.add(("state", path, later), execution_key="another case")

    assert case.decide().action is Action.NOTHING
    case.write_file("log.txt", "by hand")
    assert case.decide().action is Action.RUN
    case.is_busy = True
    assert case.decide().action is Action.NOTHING


def test_restoring_an_older_state_of_an_agents_file_is_an_edit(case: WatchedCase) -> None:
    """Only the verdict from before the restored state holds."""
    _, path, first = case.write_file("log.txt", "left by one")
    earlier = case.add(("state", path, first))
    _, _, other = case.write_file("log.txt", "edited by hand, then left by the case")
    later = case.add(("state", path, other))
    assert case.decide().verdict == later

    case.write_file("log.txt", "left by one")

    assert case.decide().verdict == earlier


def test_a_listing_ignores_files_written_by_agents(case: WatchedCase) -> None:
    (case.root / "data").mkdir()
    case.write_file("data/a.txt", "a")
    folder = str(case.root / "data")
    case.add(("folder", folder, fingerprints.of_folder(folder)), ("written", f"{folder}/out.txt", "x"))
    case.write_file("data/out.txt", "out")

    assert case.decide().action is Action.NOTHING
    case.write_file("data/b.txt", "b")
    assert case.decide().action is Action.RUN


def test_deleting_a_file_written_by_agents_changes_a_listing(case: WatchedCase) -> None:
    (case.root / "data").mkdir()
    folder = str(case.root / "data")
    names = fingerprints.of_folder(folder)
    case.add(("folder", folder, names), ("written", f"{folder}/out.txt", "x"))
    case.write_file("data/out.txt", "out")

    (case.root / "data/out.txt").unlink()

    assert case.decide().action is Action.RUN
    case.is_busy = True  # an agent may be deleting the file
    assert case.decide().action is Action.NOTHING
    case.is_busy = False
    case.add(("folder", folder, fingerprints.of_names([], gone={"out.txt"})))
    assert case.decide().action is Action.NOTHING
    case.add(("written", f"{folder}/out.txt", fingerprints.ABSENT), execution_key="another case")
    assert case.decide().action is Action.NOTHING
    case.write_file("data/out.txt", "by hand")
    assert case.decide().action is Action.RUN


def test_a_case_waits_for_source_that_does_not_compile_and_names_the_line(case: WatchedCase) -> None:
    source = "def f():\n    return 1\n"
    _, path, _ = case.write_file("tools.py", source)
    blocks = read_blocks(source.encode(), path)
    case.add(("module", path, blocks.module), ("block", f"{path}::f", blocks.bodies["f"]))
    assert case.decide().action is Action.NOTHING

    case.write_file("tools.py", source + "def (:\n")
    broken = case.decide()
    assert broken.action is Action.WAIT
    assert case.describe_reasons(broken)[0] == "tools.py:3 cannot be compiled: invalid syntax"

    case.write_file("tools.py", source.replace("1", "2"))
    assert case.describe_reasons(case.decide()) == ["tools.py: f() changed"]
    (case.root / "tools.py").unlink()
    assert case.describe_reasons(case.decide())[0] == "tools.py is gone"


def test_a_branch_counts_for_the_cases_that_took_it(case: WatchedCase) -> None:
    source = "def f(n):\n    if n:\n        return 1\n    else:\n        return 2\n"
    _, path, _ = case.write_file("tools.py", source)
    bodies = read_blocks(source.encode(), path).bodies
    case.add(
        ("block", f"{path}::f", bodies["f"]), ("branch", f"{path}::f.<branch 0>", bodies["f.<branch 0>"])
    )  # fmt: skip
    assert case.decide().action is Action.NOTHING

    case.write_file("tools.py", source.replace("return 2", "return 3"))
    assert case.decide().action is Action.NOTHING
    case.write_file("tools.py", source.replace("return 1", "return 3"))
    changed = case.decide()
    assert (changed.action, case.describe_reasons(changed)) == (Action.RUN, ["tools.py: f() changed in a branch"])
    case.write_file("tools.py", source.replace("return 2", "m = 2"))  # a new local name
    assert case.describe_reasons(case.decide()) == ["tools.py: f() changed"]


def test_changed_variables_of_a_case_that_reads_all_are_named(
    case: WatchedCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_variables() -> str:
        return fingerprints.of_variables(
            fingerprints.derive_secret(str(case.root)), fingerprints.select_variables("all", os.environ, defined=())
        )

    monkeypatch.setenv("WB_GONE", "1")
    monkeypatch.setenv("WB_MODEL", "a")
    case.add(("variables", "all", read_variables()))
    monkeypatch.delenv("WB_GONE")
    monkeypatch.setenv("WB_MODEL", "b")
    monkeypatch.setenv("WB_\udce9", "x")

    decision = case.decide()

    assert case.describe_reasons(decision) == [
        r"$WB_GONE is gone, $WB_MODEL changed, $WB_\udce9 is new, and the case reads all variables"
    ]
    for name in "ABC":
        monkeypatch.setenv(f"WB_{name}", "x")
    assert case.describe_reasons(case.decide())[0].startswith("$WB_A is new, $WB_B is new, $WB_C is new and 3 more,")


def test_a_row_of_an_earlier_version_about_all_variables_names_none(case: WatchedCase) -> None:
    case.add(("variables", "all", "0123456789abcdef"))

    assert case.describe_reasons(case.decide()) == ["environment variables changed, and the case reads all of them"]


def test_only_verdicts_with_a_stored_execution_are_known(case: WatchedCase) -> None:
    row = case.write_file("a.txt", "a")
    for number in range(7):
        case.add(row, scoring_key=f"judged {number}")

    verdicts = case.verdicts.find(Asked("t", "asked", 0))

    assert [verdict.job.scoring_key for verdict in verdicts] == [f"judged {number}" for number in (6, 5, 4, 3, 2)]


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2), min_size=1)),
        max_size=6,
    ),
    st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2)),
)
def test_the_decision_agrees_with_a_simple_model(
    tmp_path_factory: pytest.TempPathFactory, earlier: list[tuple[str, dict[str, int]]], now: dict[str, int]
) -> None:
    """The model: `earlier` verdicts by scoring key and files; `now` is the content of the files."""
    case = WatchedCase(tmp_path_factory.mktemp("model"))
    digest: Callable[[int], str] = lambda value: fingerprints.digest(str(value).encode())  # noqa: E731
    for scoring_key, files in earlier:
        case.add(
            *[("file", str(case.root / name), digest(value)) for name, value in files.items()], scoring_key=scoring_key
        )
    for name, value in now.items():
        case.write_file(name, str(value))

    action = case.decide(scoring_key="a").action

    fitting_keys = [
        scoring_key
        for scoring_key, files in earlier[-5:]
        if all(now.get(name) == value for name, value in files.items())
    ]
    expected = Action.NOTHING if "a" in fitting_keys else Action.JUDGE if fitting_keys else Action.RUN
    assert action is expected


def test_caches_are_dropped_with_their_dependency_sets(case: WatchedCase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.engine.verdict_index._LATELY_USED", 3)

    for number in range(20):
        case.add(case.write_file("a.txt", str(number)))
        assert case.decide().action is Action.NOTHING
    case.selector.forget()

    assert len(case.selector._specials) < 12
    assert len(case.selector._surroundings_cache) < 12


def test_stored_results_are_read_under_the_jobs_that_they_apply_to(tmp_path: Path) -> None:
    renamed = JobKey(case=CASE.model_copy(update={"eval_id": "renamed"}), repeat=1)
    with History.open(tmp_path) as history:
        history.begin_run(RunRecord(run_id="r", started_at=datetime(2026, 1, 1, tzinfo=UTC), root=tmp_path))
        result = CaseResult(case=CASE, eval_set_id="s", status=CaseStatus.PASSED, metrics=())
        (verdict,) = history.finish_jobs("r", [ResultToStore(result)])

        read = dict(read_results(history, {JOB: verdict, renamed: verdict}))

    assert {job: JobKey(case=each.case, repeat=each.repeat) for job, each in read.items()} == {
        JOB: JOB,
        renamed: renamed,
    }
