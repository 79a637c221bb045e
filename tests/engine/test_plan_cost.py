"""What a plan costs, told before it is carried out."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import Project, turn
from tests.engine.judged import judged_folder, judging
from workbench.engine import plan_cost
from workbench.engine.plan import Plan, PlanError, RunOptions, Selection
from workbench.engine.plan_cost import Estimate, PlanCost, estimate_cost
from workbench.engine.workspace import Workspace
from workbench.llm.prompt_templates import Prices, Tokens
from workbench.model.criteria import Criterion, EvalConfig
from workbench.model.target import AgentKind

SET = Selection(eval_set="set.evalset.json")
TWO = {"a": [turn("hello")], "b": [turn("bye"), turn("again")]}


def plan(project: Project, *, config: EvalConfig | None = None, **options: Any) -> Plan:
    return project.workspace().plan([SET], RunOptions(**options), config=config)


def chosen(*criteria: Criterion) -> EvalConfig:
    return EvalConfig(criteria=criteria, source="chosen for this run")


def as_kind(made: Plan, kind: AgentKind) -> Plan:
    """The plan as if its agents were of another kind."""
    cases = (replace(case, target=case.target.model_copy(update={"kind": kind})) for case in made.cases)
    return replace(made, cases=tuple(cases))


def test_functions_are_free_whatever_their_number(project: Project) -> None:
    project.add_set({f"c{number}": [turn("hi")] for number in range(plan_cost.FEW_JOBS + 1)})

    free = estimate_cost(plan(project))
    paid = estimate_cost(as_kind(plan(project), AgentKind.ADK))

    assert (free.jobs, free.model_jobs, free.is_costly) == (11, 0, False)
    assert (paid.jobs, paid.model_jobs, paid.model_turns, paid.is_costly) == (11, 11, 11, True)


def test_repeats_are_always_asked_about(project: Project) -> None:
    project.add_set(TWO)

    repeated = estimate_cost(plan(project, runs=3))

    assert (repeated.cases, repeated.repeats, repeated.jobs, repeated.agent_turns) == (2, 3, 6, 9)
    assert repeated.is_costly


def test_a_case_that_cannot_run_speaks_to_no_agent(project: Project) -> None:
    project.add_set({**TWO, "s": {"conversation": "no list"}})

    made = estimate_cost(as_kind(plan(project), AgentKind.ADK))

    assert (made.jobs, made.model_jobs, made.agent_turns) == (3, 2, 3)


def test_judges_are_asked_for_every_turn_as_often_as_the_criterion_says(
    project: Project,
) -> None:
    turns, whole = "final_response_match_v2", "rubric_based_multi_turn_trajectory_quality_v1"
    project.add_set(TWO)
    options = {"judge_model_options": {"num_samples": 2, "judge_model": "another"}}
    made = plan(project, config=chosen(Criterion(metric=turns, threshold=0.8, options=options)), runs=2)
    prepared = "hallucinations_v1"
    both = chosen(*(Criterion(metric=metric, threshold=0.8) for metric in (turns, whole, prepared)))

    asked = estimate_cost(made)
    usual = estimate_cost(plan(project, config=both))

    assert asked.judge_calls == {turns: 2 * 3 * 2}
    assert [(judge.model, judge.calls) for judge in asked.judges] == [("another", 12)]
    assert usual.judge_calls == {turns: 3 * 5, whole: 2 * 5, prepared: 3 * (1 + 5)}
    assert [(judge.model, judge.calls) for judge in usual.judges] == [("gemini-2.5-flash", 43)]
    assert usual.is_costly


def test_what_judges_take_comes_from_what_they_took_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = judged_folder(tmp_path, good="good", bad="bad")
    with judging(monkeypatch), Workspace.open(folder.root) as workspace:
        made = workspace.plan([SET], RunOptions())
        before = workspace.estimate(made).judges
        list(workspace.start(made).iter_events())
        after = workspace.estimate(made).judges
        replayed = workspace.plan([SET], RunOptions(replay_calls=tmp_path / "calls.jsonl"))

        assert estimate_cost(replayed).judges == ()
    price = Prices().cost("gemini-2.5-flash", Tokens(7, 5))
    assert [(judge.calls, judge.tokens, judge.dollars) for judge in before] == [(4, None, None)]
    (judge,) = after
    assert (judge.calls, judge.tokens) == (4, Estimate(4 * 12, known=2, of=2))
    assert judge.dollars == Estimate(pytest.approx(float(4 * price)), known=2, of=2)  # type: ignore[arg-type]


def test_a_price_that_nobody_knows_is_said_to_be_unknown(tmp_path: Path) -> None:
    folder = judged_folder(tmp_path, model="openai/mine", good="good")
    with Workspace.open(folder.root) as workspace:
        (judge,) = workspace.estimate(workspace.plan([SET], RunOptions())).judges

    assert judge.price_unknown is not None and "the price of openai/mine is not known" in judge.price_unknown


def test_time_and_tokens_come_from_earlier_runs(project: Project) -> None:
    project.add_agent(
        """
        def answer(prompt):
            return {"response": prompt, "predicted_trajectory": [], "usage": {"total_tokens": 7}}
        """
    )
    project.add_set(TWO)
    workspace = project.workspace()
    made = as_kind(workspace.plan([SET], RunOptions(runs=2)), AgentKind.ADK)
    before = workspace.estimate(made)
    project.run(Selection(eval_set="set.evalset.json", cases=("b",)), workspace=workspace)

    after = workspace.estimate(made)

    assert (before.seconds, before.tokens) == (None, None)
    assert after.seconds is not None and after.seconds.amount > 0
    assert (after.seconds.known, after.seconds.of) == (1, 2)
    assert after.tokens == Estimate(4 * 14, known=1, of=2)


def test_an_estimate_leaves_no_history_behind(project: Project) -> None:
    project.add_set(TWO)

    assert isinstance(project.workspace().estimate(plan(project)), PlanCost)
    assert not (project.root / ".workbench").exists()


def test_a_history_that_cannot_be_read_costs_the_estimate_alone(project: Project) -> None:
    project.add_set(TWO)
    workspace = project.workspace()
    project.run(workspace=workspace)
    with sqlite3.connect(project.root / ".workbench" / "history.db") as database:
        database.execute("PRAGMA user_version = 9999")

    made = workspace.estimate(workspace.plan([SET], RunOptions()))

    assert (made.jobs, made.seconds) == (2, None)


def test_results_that_still_count_cost_nothing(project: Project) -> None:
    project.add_set(TWO)
    workspace = project.workspace()
    run = project.run(workspace=workspace)

    made = workspace.estimate(workspace.plan([], RunOptions(resume=run.run_id)))

    assert (made.jobs, made.reused, made.agent_turns, made.seconds) == (0, 2, 0, None)


def test_criteria_given_in_memory_count_before_every_file(project: Project) -> None:
    project.add_set(TWO)

    run = plan(project, config=chosen(Criterion(metric="exact_match", threshold=1.0)))

    assert {case.config.source for case in run.cases} == {"chosen for this run"}
    assert [criterion.metric for criterion in run.cases[0].config.criteria] == ["exact_match"]


def test_unsound_criteria_given_in_memory_are_refused(project: Project) -> None:
    project.add_set(TWO)
    wrong = Criterion(metric="tool_trajectory_avg_score", threshold=1.0, options={"match_type": "EXAKT"})

    with pytest.raises(PlanError, match=r"chosen for this run: criteria.tool_trajectory_avg_score.match_type"):
        plan(project, config=chosen(wrong))


def test_a_run_with_chosen_criteria_is_stored_with_them(project: Project) -> None:
    project.add_set(TWO)
    workspace = project.workspace()
    made = workspace.plan([SET], RunOptions(), config=chosen(Criterion(metric="exact_match", threshold=1.0)))

    list(workspace.start(made).iter_events())

    with workspace.history() as history:
        criteria = history.run("latest").criteria["set.evalset.json"]
    assert criteria == made.cases[0].config


def test_models_that_play_users_are_counted_by_conversation_and_limit(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = {"conversation_scenario": {"starting_prompt": "hi", "conversation_plan": "greet"}}
    project.add_set({**TWO, "s": scenario, "t": scenario})
    single = Criterion(metric="trajectory_single_tool_use", threshold=1.0, options={"tool_name": "x"})
    config = chosen(single).model_copy(
        update={"user_simulator_config": {"model": "gemini-x", "max_allowed_invocations": 5}}
    )
    endless = config.model_copy(update={"user_simulator_config": {"max_allowed_invocations": -1}})

    made = estimate_cost(plan(project, config=config, runs=2))
    unlimited = estimate_cost(plan(project, config=endless))

    assert made.users == (plan_cost.UserCost(model="gemini-x", conversations=4, at_most=16),)
    assert unlimited.users == (plan_cost.UserCost(model="gemini-2.5-flash", conversations=2, at_most=None),)
    assert unlimited.is_costly
