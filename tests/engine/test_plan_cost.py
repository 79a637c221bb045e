"""The estimated cost of a plan before it runs."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.engine.judged import make_judged_folder, serve_judge
from tests.engine.project import Project, turn
from workbench.engine import plan_cost
from workbench.engine.plan import Plan, PlanError, PlannedCase, RunOptions, Selection
from workbench.engine.plan_cost import (
    EarlierJobs,
    Estimate,
    PlanCost,
    calculate_agent_cost,
    estimate_cost,
    is_costly,
)
from workbench.engine.workspace import Workspace
from workbench.llm.prompt_templates import OwnPrice, Prices, Tokens
from workbench.model.criteria import Criterion, EvalConfig
from workbench.model.evalset import Content, Invocation, Part
from workbench.model.identity import CaseKey, JobKey
from workbench.model.results import CaseStatus, Execution, TokenUsage, TurnResult
from workbench.model.target import AgentKind, ModelMode
from workbench.model.trace import Span, SpanKind
from workbench.store.history.history_queries import StoredJob

SET = Selection(eval_set="set.evalset.json")
TWO = {"a": [turn("hello")], "b": [turn("bye"), turn("again")]}


def make_plan(project: Project, *, config: EvalConfig | None = None, **options: Any) -> Plan:
    return project.open_workspace().plan([SET], RunOptions(**options), config=config)


def make_config(*criteria: Criterion) -> EvalConfig:
    return EvalConfig(criteria=criteria, source="chosen for this run")


def change_kind(plan: Plan, kind: AgentKind) -> Plan:
    """Return the plan with agents of another kind."""
    cases = (replace(case, target=case.target.model_copy(update={"kind": kind})) for case in plan.cases)
    return replace(plan, cases=tuple(cases))


def test_function_agents_are_free_whatever_their_number(project: Project) -> None:
    project.add_set({f"c{number}": [turn("hi")] for number in range(plan_cost.FEW_JOBS + 1)})

    free_plan = make_plan(project)
    paid_plan = change_kind(make_plan(project), AgentKind.ADK)
    free, paid = estimate_cost(free_plan), estimate_cost(paid_plan)

    assert (free.jobs, free.model_jobs, is_costly(free_plan)) == (11, 0, False)
    assert (paid.jobs, paid.model_jobs, paid.model_turns, is_costly(paid_plan)) == (11, 11, 11, True)


def test_whether_a_plan_is_costly_is_known_without_reading_its_cases(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.add_set(TWO)
    plan = make_plan(project)
    monkeypatch.setattr(PlannedCase, "turns", property(lambda _: pytest.fail("a case was read")))

    assert not is_costly(plan)


def test_repeats_are_always_costly(project: Project) -> None:
    project.add_set(TWO)

    plan = make_plan(project, runs=3)
    repeated = estimate_cost(plan)

    assert (repeated.cases, repeated.repeats, repeated.jobs, repeated.agent_turns) == (2, 3, 6, 9)
    assert is_costly(plan)


def test_a_case_that_cannot_run_needs_no_agent_turns(project: Project) -> None:
    project.add_set({**TWO, "s": {"conversation": "no list"}})

    cost = estimate_cost(change_kind(make_plan(project), AgentKind.ADK))

    assert (cost.jobs, cost.model_jobs, cost.agent_turns) == (3, 2, 3)


def test_judge_calls_are_counted_per_turn_and_sample(
    project: Project,
) -> None:
    turns, whole_case = "final_response_match_v2", "rubric_based_multi_turn_trajectory_quality_v1"
    project.add_set(TWO)
    options = {"judge_model_options": {"num_samples": 2, "judge_model": "another"}}
    plan = make_plan(project, config=make_config(Criterion(metric=turns, threshold=0.8, options=options)), runs=2)
    prepared = "hallucinations_v1"
    default_config = make_config(*(Criterion(metric=metric, threshold=0.8) for metric in (turns, whole_case, prepared)))

    custom_cost = estimate_cost(plan)
    default_plan = make_plan(project, config=default_config)
    default_cost = estimate_cost(default_plan)

    assert custom_cost.judge_calls == {turns: 2 * 3 * 2}
    assert [(judge.model, judge.calls) for judge in custom_cost.judges] == [("another", 12)]
    assert default_cost.judge_calls == {turns: 3 * 5, whole_case: 2 * 5, prepared: 3 * (1 + 5)}
    assert [(judge.model, judge.calls) for judge in default_cost.judges] == [("gemini-2.5-flash", 43)]
    assert is_costly(default_plan)


def test_tokens_and_cost_of_judges_are_estimated_from_earlier_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_judged_folder(tmp_path, good="good", bad="bad")
    with serve_judge(monkeypatch), Workspace.open(folder.root) as workspace:
        plan = workspace.plan([SET], RunOptions())
        before = workspace.estimate(plan).judges
        list(workspace.start(plan).iter_events())
        after = workspace.estimate(plan).judges
        replayed = workspace.plan([SET], RunOptions(replay_calls=tmp_path / "calls.jsonl"))

        assert estimate_cost(replayed).judges == ()
    price = Prices().cost("gemini-2.5-flash", Tokens(7, 5))
    assert [(judge.calls, judge.tokens, judge.dollars) for judge in before] == [(4, None, None)]
    (judge,) = after
    assert (judge.calls, judge.tokens) == (4, Estimate(4 * 12, known=2, of=2))
    assert judge.dollars == Estimate(pytest.approx(float(4 * price)), known=2, of=2)  # type: ignore[arg-type]


def test_an_unknown_price_is_reported_as_unknown(tmp_path: Path) -> None:
    folder = make_judged_folder(tmp_path, model="openai/mine", good="good")
    with Workspace.open(folder.root) as workspace:
        (judge,) = workspace.estimate(workspace.plan([SET], RunOptions())).judges

    assert judge.price_unknown is not None and "the price of openai/mine is unknown" in judge.price_unknown


def test_time_and_tokens_come_from_earlier_runs(project: Project) -> None:
    project.add_agent(
        """
        def answer(prompt):
            return {"response": prompt, "predicted_trajectory": [], "usage": {"total_tokens": 7}}
        """
    )
    project.add_set(TWO)
    workspace = project.open_workspace()
    plan = change_kind(workspace.plan([SET], RunOptions(runs=2)), AgentKind.ADK)
    before = workspace.estimate(plan)
    project.run(Selection(eval_set="set.evalset.json", cases=("b",)), workspace=workspace)

    after = workspace.estimate(plan)

    assert (before.seconds, before.tokens) == (None, None)
    assert after.seconds is not None and after.seconds.amount > 0
    assert (after.seconds.known, after.seconds.of) == (1, 2)
    assert after.tokens == Estimate(4 * 14, known=1, of=2)


def make_job(case: CaseKey, seconds: float) -> StoredJob:
    return StoredJob("r", JobKey(case, 0), CaseStatus.PASSED, seconds, seconds, None, datetime.now(UTC), "", "")


def test_a_live_run_is_estimated_from_live_runs_and_a_replayed_one_from_replayed_ones(project: Project) -> None:
    project.add_set(TWO)
    plans = {mode: make_plan(project, models=mode) for mode in ModelMode}
    a, b = (case.key for case in plans[ModelMode.LIVE].cases)
    earlier = EarlierJobs(
        live={a: [make_job(a, 10.0)], b: [make_job(b, 20.0)]}, replayed={a: [make_job(a, 1.0)], b: [make_job(b, 2.0)]}
    )
    recorded = {JobKey(a, 0), JobKey(a, 1)}

    live = estimate_cost(plans[ModelMode.LIVE], earlier=earlier)
    auto, strict = (
        estimate_cost(plans[mode], earlier=earlier, recorded=recorded) for mode in (ModelMode.AUTO, ModelMode.REPLAY)
    )

    assert (live.seconds, live.replays, live.replayed_seconds) == (Estimate(20.0, known=2, of=2), None, None)
    assert (auto.seconds, auto.live_jobs) == (Estimate(20.0, known=1, of=1), 1)
    assert auto.replayed_seconds == strict.replayed_seconds == Estimate(1.0, known=1, of=1)
    assert str(auto.replays) == (
        "1 of 2 cases has a recording: models are asked live only where a request differs or is not recorded"
    )
    assert (strict.seconds, strict.live_jobs) == (None, 0)
    only_live = estimate_cost(plans[ModelMode.AUTO], earlier=EarlierJobs(live=earlier.live), recorded=recorded)
    assert only_live.replayed_seconds is None


def test_tokens_are_those_of_the_last_live_run(project: Project) -> None:
    project.add_set(TWO)
    plan = change_kind(make_plan(project), AgentKind.ADK)
    a, b = (case.key for case in plan.cases)
    live, replayed = make_job(a, 1.0), make_job(b, 1.0)
    asked: list[StoredJob] = []

    cost = estimate_cost(
        plan, earlier=EarlierJobs(live={a: [live]}, replayed={b: [replayed]}), read_result=asked.append
    )

    assert asked == [live]
    assert cost.tokens is None, "the result is no longer stored"


def test_an_estimate_creates_no_history(project: Project) -> None:
    project.add_set(TWO)

    assert isinstance(project.open_workspace().estimate(make_plan(project)), PlanCost)
    assert not (project.root / ".workbench").exists()


def test_an_unreadable_history_affects_only_the_estimate(project: Project) -> None:
    project.add_set(TWO)
    workspace = project.open_workspace()
    project.run(workspace=workspace)
    with sqlite3.connect(project.root / ".workbench" / "history.db") as database:
        database.execute("PRAGMA user_version = 9999")

    cost = workspace.estimate(workspace.plan([SET], RunOptions()))

    assert (cost.jobs, cost.seconds) == (2, None)


def test_reused_results_cost_nothing(project: Project) -> None:
    project.add_set(TWO)
    workspace = project.open_workspace()
    run = project.run(workspace=workspace)

    cost = workspace.estimate(workspace.plan([], RunOptions(resume=run.run_id)))

    assert (cost.jobs, cost.reused, cost.agent_turns, cost.seconds) == (0, 2, 0, None)


def test_criteria_given_in_memory_override_every_file(project: Project) -> None:
    project.add_set(TWO)

    plan = make_plan(project, config=make_config(Criterion(metric="exact_match", threshold=1.0)))

    assert {case.config.source for case in plan.cases} == {"chosen for this run"}
    assert [criterion.metric for criterion in plan.cases[0].config.criteria] == ["exact_match"]


def test_wrong_criteria_given_in_memory_are_refused(project: Project) -> None:
    project.add_set(TWO)
    wrong_criterion = Criterion(metric="tool_trajectory_avg_score", threshold=1.0, options={"match_type": "EXAKT"})

    with pytest.raises(PlanError, match=r"chosen for this run: criteria.tool_trajectory_avg_score.match_type"):
        make_plan(project, config=make_config(wrong_criterion))


def test_a_run_is_stored_with_the_criteria_given_in_memory(project: Project) -> None:
    project.add_set(TWO)
    workspace = project.open_workspace()
    plan = workspace.plan([SET], RunOptions(), config=make_config(Criterion(metric="exact_match", threshold=1.0)))

    list(workspace.start(plan).iter_events())

    with workspace.history() as history:
        criteria = history.run("latest").criteria["set.evalset.json"]
    assert criteria == plan.cases[0].config


def test_models_that_play_users_are_counted_by_conversation_and_limit(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = {"conversation_scenario": {"starting_prompt": "hi", "conversation_plan": "greet"}}
    project.add_set({**TWO, "s": scenario, "t": scenario})
    single = Criterion(metric="trajectory_single_tool_use", threshold=1.0, options={"tool_name": "x"})
    config = make_config(single).model_copy(
        update={"user_simulator_config": {"model": "gemini-x", "max_allowed_invocations": 5}}
    )
    endless = config.model_copy(update={"user_simulator_config": {"max_allowed_invocations": -1}})

    limited_cost = estimate_cost(make_plan(project, config=config, runs=2))
    unlimited_plan = make_plan(project, config=endless)
    unlimited_cost = estimate_cost(unlimited_plan)

    assert limited_cost.users == (plan_cost.UserCost(model="gemini-x", conversations=4, at_most=16),)
    assert unlimited_cost.users == (plan_cost.UserCost(model="gemini-2.5-flash", conversations=2, at_most=None),)
    assert is_costly(unlimited_plan)


def make_call(name: str, usage: dict[str, int] | None, **more: Any) -> Span:
    attributes = {} if usage is None else {"usage": usage}
    return Span(id=name, kind=SpanKind.MODEL, name=name, attributes=attributes, **more)


def make_execution(usage: TokenUsage, *spans: Span) -> Execution:
    invocation = Invocation(user_content=Content(parts=[Part(text="hi")]))
    return Execution(turns=(TurnResult(invocation=invocation, duration_seconds=1.0, usage=usage),), spans=spans)


PRICES = Prices({"cheap": OwnPrice(1.0, 2.0), "dear": OwnPrice(10.0, 20.0)})
IN_ALL = TokenUsage(prompt=4000, candidates=500, thoughts=100, total=4600)
DEAR = {"prompt": 1000, "candidates": 200, "total": 1200}


def test_the_cost_of_an_agent_is_that_of_all_its_model_calls() -> None:
    reply = {"usage_metadata": {"prompt_token_count": 3000, "candidates_token_count": 300, "thoughts_token_count": 100}}
    cheap = Span(id="x", kind=SpanKind.MODEL, name="model", request={"model": "cheap"}, response=reply)

    cost = calculate_agent_cost(make_execution(IN_ALL, cheap, make_call("dear", DEAR)), PRICES)

    assert cost == (Decimal(3000) + 400 * 2 + 1000 * 10 + 200 * 20) / 1_000_000


def test_a_model_call_inside_another_is_counted_once() -> None:
    usage = TokenUsage(prompt=1000, candidates=200, total=1200)
    inner = make_call("client", DEAR, parent_id="dear")

    assert calculate_agent_cost(make_execution(usage, make_call("dear", DEAR), inner), PRICES) == Decimal("0.014")


@pytest.mark.parametrize(
    "spans",
    [
        (),
        (make_call("dear", None),),
        (make_call("dear", DEAR),),  # not all tokens of the turn
        (make_call("dear", DEAR), make_call("no price", {"prompt": 3000, "candidates": 400, "total": 3400})),
    ],
)
def test_the_cost_of_an_agent_is_unknown_if_a_part_of_it_is(spans: tuple[Span, ...]) -> None:
    assert calculate_agent_cost(make_execution(IN_ALL, *spans), PRICES) is None
