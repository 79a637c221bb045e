"""Shrinking of failing cases: what is left out, what counts as the same failure, and what does not change."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.project import Project, turn
from tests.engine.varied import LIGHTS, light, make_conversation, shrink, small_talk
from workbench.engine.case_variants import CaseExecutor
from workbench.engine.plan import PlanError, RunOptions, Selection
from workbench.engine.set_files import keep_case
from workbench.engine.shrinking import (
    CandidateOutcome,
    CasePart,
    FailureTest,
    Shrinker,
    ShrinkStep,
    explain_untried,
    find_failure,
    make_predicate_config,
    measure_case,
    minimise,
    split_sentences,
)
from workbench.model.evalset import EvalCase, Invocation
from workbench.store.evalsets.evalset_document import EvalSetDocument


def test_of_12_turns_exactly_the_two_that_the_failure_needs_are_found(project: Project) -> None:
    project.add_agent(LIGHTS)
    project.add_set({"evening": make_conversation()})

    found = shrink(project)

    assert (found.outcome, found.turns, found.untried) == (CandidateOutcome.SAME, [2, 8], [])
    assert [each["user_content"]["parts"][0]["text"] for each in found.data["conversation"]] == [
        "We are away.",
        "Switch on the light.",
    ]
    assert found.executions <= 60
    assert (project.root / "sessions.txt").read_text() == "x" * found.executions
    assert len({json.dumps(step.data) for step in found.steps}) == len(found.steps) == found.executions


def test_a_search_continues_with_a_larger_budget_and_names_what_each_candidate_lacks(project: Project) -> None:
    project.add_agent(LIGHTS)
    project.add_set({"evening": make_conversation()})
    whole = shrink(project)

    with CaseExecutor(project.open_workspace(), [Selection(eval_set="set.evalset.json")], RunOptions()) as executor:
        shrinker = Shrinker(executor=executor, test=FailureTest(), budget=5)
        early = shrinker.shrink()
        executor.cancel()
        shrinker.budget = 100
        stopped = shrinker.shrink()
        executor.reopen()
        (agent,) = project.root.glob("*.py")
        agent.write_text(f"{agent.read_text()}\n# saved\n")
        found = shrinker.shrink()

    assert (early.executions, len(early.steps), early.untried[0]) == (5, 5, CasePart.TURNS)
    assert (stopped.executions, len(stopped.steps), stopped.is_interrupted) == (6, 5, True)
    assert (found.data, found.turns, found.untried) == (whole.data, [2, 8], [])
    assert (list(stopped.changed_files), list(found.changed_files)) == ([], [agent.name])
    assert len({json.dumps(step.data) for step in found.steps}) == len(found.steps) == found.executions - 1 <= 60
    assert [str(step) for step in whole.steps[:3]] == ["the case itself", "without turns 10-12", "without turns 5-9"]
    assert 'without "We are away."' not in {str(step) for step in whole.steps if step.is_smallest}


def test_turns_and_keys_are_tried_again_after_other_parts_became_smaller(project: Project) -> None:
    project.add_agent(
        """
        def answer(prompt, session):
            if "sticky" in prompt and not session.state.get("safe"):
                raise ValueError("kaboom")
            if "sticky" in prompt:
                session.state["sticky"] = True
            is_wrong = "redo" in prompt and ("polite" not in prompt or session.state.get("sticky"))
            room = "hall" if is_wrong else "attic"
            return {"response": "ok", "predicted_trajectory": [{"tool_name": "set", "tool_input": {"room": room}}]}
        """
    )
    call = {"name": "set", "args": {"room": "attic"}}
    prompts = ["Hello.", "sticky", "Hello again.", "Be polite. Now redo."]
    turns = [turn(prompt, response="ok", calls=[call]) for prompt in prompts]
    state = {"safe": True, "name": "Eve"}
    project.add_set({"a": {"conversation": turns, "session_input": {"app_name": "x", "user_id": "y", "state": state}}})

    found = shrink(project)

    assert (found.turns, found.untried) == ([3], [])
    assert measure_case(found.data) == {CasePart.TURNS: 1, CasePart.SENTENCES: 1, CasePart.STATE: 0, CasePart.CALLS: 1}
    assert len({json.dumps(step.data) for step in found.steps}) == len(found.steps) == found.executions
    early = shrink(project, budget=found.executions - 1)
    assert (early.turns, early.untried) == ([3], [CasePart.CALLS])


def test_sentences_state_and_calls_that_do_not_matter_are_left_out(project: Project) -> None:
    project.add_criteria(tool_trajectory_avg_score={"threshold": 1.0, "match_type": "IN_ORDER"})
    project.add_agent(LIGHTS)
    asked = light("Good evening! It is dark.\nSwitch on the light, please. Thanks.", "hall")
    extra = {"name": "set_light", "args": {"room": "hall"}}
    asked["intermediate_data"]["tool_uses"].append(extra)
    state = {"away": True, "name": "Eve", "floor": 1}
    project.add_set(
        {"a": {"conversation": [asked], "session_input": {"app_name": "x", "user_id": "y", "state": state}}}
    )

    found = shrink(project, criteria=["tool_trajectory_avg_score"])

    assert found.data["conversation"][0]["user_content"]["parts"] == [{"text": "Switch on the light, please."}]
    assert found.data["session_input"] == {"app_name": "x", "user_id": "y", "state": {"away": True}}
    assert measure_case(found.data) == {CasePart.TURNS: 1, CasePart.SENTENCES: 1, CasePart.STATE: 1, CasePart.CALLS: 2}


def test_expected_calls_that_the_criterion_does_not_need_are_left_out_with_their_responses(project: Project) -> None:
    project.add_criteria(tool_trajectory_avg_score={"threshold": 1.0, "match_type": "IN_ORDER"})
    project.add_agent(
        "def answer(prompt): return {'response': prompt, 'predicted_trajectory': "
        "[{'tool_name': name, 'tool_input': {}} for name in ('find', 'open', 'close')]}"
    )

    def part(kind: str, name: str, **more: Any) -> dict[str, Any]:
        return {kind: {"name": name, **more}}

    parts = [
        part("functionCall", "find", id="1", args={}),
        part("functionResponse", "find", id="1", response={"a": 1}),
        part("functionCall", "lock", id="2", args={}),
        part("functionResponse", "lock", id="2", response={"b": 1}),
    ]
    events = [{"author": "a", "content": {"parts": [each]}} for each in parts]
    case = {"user_content": {"parts": [{"text": "go"}]}, "intermediateData": {"invocationEvents": events}}
    project.add_set({"a": [case]})

    found = shrink(project)

    assert found.data["conversation"][0]["intermediateData"] == {"invocationEvents": events[2:]}


def test_a_criterion_that_the_case_passes_does_not_fail_in_the_smallest_case(project: Project) -> None:
    project.add_criteria(tool_trajectory_avg_score=1.0, response_match_score=0.8)
    project.add_agent(LIGHTS)
    asked = light("It is dark. Switch on the light.", "hall")
    asked["final_response"]["parts"][0]["text"] = "the lamp has a fault"
    project.add_set({"a": [small_talk(1), asked]})

    found = shrink(project)

    assert {symptom.criterion for symptom in found.failure.symptoms} == {"response_match_score"}
    assert measure_case(found.data) == {CasePart.TURNS: 1, CasePart.SENTENCES: 1, CasePart.STATE: 0, CasePart.CALLS: 1}
    assert found.data["conversation"][0]["user_content"]["parts"] == [{"text": "Switch on the light."}]


def test_a_criterion_that_passes_because_of_other_turns_may_fail_without_them(project: Project) -> None:
    project.add_criteria(tool_trajectory_avg_score=0.5, response_match_score=1.0)
    project.add_agent(LIGHTS)
    failing = light("The light in the attic.", "attic")
    failing["final_response"]["parts"][0]["text"] = "done"
    project.add_set({"a": [light("The light.", "hall"), light("The light again.", "hall"), failing]})

    found = shrink(project)

    assert {symptom.criterion for symptom in found.failure.symptoms} == {"response_match_score"}
    assert found.turns == [2]


@pytest.mark.parametrize("criteria", [(), ("response_match_score",)], ids=["all criteria", "another criterion"])
def test_expected_calls_that_the_agent_makes_or_should_make_stay(project: Project, criteria: tuple[str, ...]) -> None:
    project.add_criteria(tool_trajectory_avg_score=1.0, response_match_score=0.8)
    project.add_agent(
        "def answer(prompt): return {'response': 'no', 'predicted_trajectory': "
        "[{'tool_name': 'find', 'tool_input': {'n': n}} for n in (1, 2, 3)]}"
    )
    calls = [{"name": "find", "args": {"n": n}} for n in (1, 2)]
    missed = [{"name": "open", "args": {}}] if criteria else []
    project.add_set({"a": [turn("go", response="yes", calls=[*calls, *missed])]})

    found = shrink(project, criteria=criteria)

    assert (found.outcome, found.untried) == (CandidateOutcome.SAME, [])
    assert measure_case(found.data)[CasePart.CALLS] == len(calls) + len(missed)


def test_another_expectation_of_the_same_tool_is_another_failure(project: Project) -> None:
    project.add_agent(LIGHTS)
    turns = make_conversation()
    turns[5] = light("The light again.", "attic")  # without the 3rd turn it would fail alone
    project.add_set({"evening": turns})

    found = shrink(project)

    assert found.turns == [2, 8]
    assert CandidateOutcome.OTHER in {step.outcome for step in found.steps}


def test_a_candidate_that_ends_in_error_does_not_fail_the_same_way(project: Project) -> None:
    project.add_agent(
        LIGHTS.replace(
            '"away" in prompt', '"safe" in prompt:\n        session.state["safe"] = True\n    if "away" in prompt'
        )
    )
    turns = [turn("safe", response="ok"), small_talk(1), turn("crash away", response="ok"), light("light", "hall")]
    project.add_set({"a": turns})

    found = shrink(project)

    assert found.turns == [0, 2, 3]
    assert CandidateOutcome.ERROR in {step.outcome for step in found.steps}


def test_the_search_stops_if_the_agent_breaks_and_continues_when_it_is_mended(project: Project) -> None:
    project.add_agent(LIGHTS)
    project.add_set({"a": make_conversation()})
    whole = shrink(project)

    def report(step: ShrinkStep) -> None:
        if step.executions == 3:
            project.add_agent("def answer(prompt:")

    selection = Selection(eval_set="set.evalset.json")
    with CaseExecutor(project.open_workspace(), [selection], RunOptions()) as executor:
        shrinker = Shrinker(executor=executor, test=FailureTest(), budget=100, report=report)
        early = shrinker.shrink()
        project.add_agent(LIGHTS)
        found = shrinker.shrink()

    assert early.executions == 3 + 3 + 1
    assert "agent.py" in early.error
    assert early.untried[0] is CasePart.TURNS
    assert "not tried to the end (the smallest case ends in ERROR now, too): turns" in explain_untried(early)
    assert (found.data, found.untried, found.error) == (whole.data, [], "")


def test_a_case_that_passes_or_ends_in_error_is_executed_once(project: Project) -> None:
    project.add_agent(LIGHTS)
    project.add_set({"good": [light("light", "hall")]}, name="good")
    project.add_set({"bad": [turn("crash")]}, name="bad")

    passed, error = shrink(project, name="good.evalset.json"), shrink(project, name="bad.evalset.json")

    assert (passed.outcome, passed.executions, passed.is_smaller) == (CandidateOutcome.PASSED, 1, False)
    assert (error.outcome, error.executions, error.is_smaller) == (CandidateOutcome.ERROR, 1, False)


def test_repeats_find_a_case_that_fails_only_sometimes(project: Project) -> None:
    project.add_agent(
        """
        from pathlib import Path
        FILE = Path(__file__).with_name("count.txt")

        def answer(prompt):
            FILE.write_text((FILE.read_text() if FILE.exists() else "") + "x")
            return {"response": "", "predicted_trajectory": [{"tool_name": "a", "tool_input": {}}]
                    if len(FILE.read_text()) % 2 else []}
        """
    )
    project.add_set({"a": [turn("x")]})

    found = shrink(project, repeats=3)

    assert (found.outcome, found.executions, found.is_smaller) == (CandidateOutcome.MIXED, 3, False)


def test_the_budget_limits_executions_and_names_the_parts_left(project: Project) -> None:
    project.add_agent(LIGHTS)
    project.add_set({"evening": make_conversation()})

    found = shrink(project, budget=4)

    assert (found.executions, found.outcome) == (4, CandidateOutcome.SAME)
    assert found.untried == [CasePart.TURNS, CasePart.CALLS]  # messages of one sentence, no state
    assert 2 in found.turns
    assert 8 in found.turns
    assert len(found.turns) < 12


def test_a_predicate_decides_instead_of_the_criteria(project: Project) -> None:
    project.add_agent(LIGHTS)
    (project.root / "checks.py").write_text("def is_remark(instance):\n    return 'remark 4.' in instance['prompt']\n")
    project.add_set({"evening": make_conversation()})

    found = shrink(project, predicate="checks:is_remark")

    assert (found.outcome, found.turns) == (CandidateOutcome.SAME, [3])


@pytest.mark.parametrize(
    ("value", "outcome", "turns"),
    [
        ("1.0 if 'remark 4.' in instance['prompt'] else -1.0", CandidateOutcome.SAME, [3]),
        ("0.5 if 'remark 4.' in instance['prompt'] else None", CandidateOutcome.SAME, [3]),
        ("-1.0", CandidateOutcome.PASSED, range(12)),
        ("0", CandidateOutcome.PASSED, range(12)),
    ],
)
def test_a_predicate_counts_each_turn_with_a_number_above_0(
    project: Project, value: str, outcome: CandidateOutcome, turns: Sequence[int]
) -> None:
    project.add_agent(LIGHTS)
    (project.root / "checks.py").write_text(f"def check(instance):\n    return {value}\n")
    project.add_set({"evening": make_conversation()})

    found = shrink(project, predicate="checks:check")

    assert (found.outcome, found.turns) == (outcome, turns)


def test_a_measure_below_its_upper_limit_has_not_failed(project: Project) -> None:
    project.add_criteria(latency=60.0, exact_match=1.0)
    project.add_agent("def answer(prompt): return 'nothing'")
    project.add_set({"a": [turn("x")]})

    [result] = project.run().results()
    failure = find_failure(EvalCase(eval_id="a", conversation=[Invocation.model_validate(turn("x"))]), result)

    assert (failure.criteria, failure.tolerated) == (("exact_match",), frozenset())


def test_a_predicate_that_cannot_run_is_an_error(project: Project) -> None:
    project.add_set({"a": [turn("x")]})

    found = shrink(project, predicate="checks:missing")

    assert (found.outcome, found.executions) == (CandidateOutcome.ERROR, 1)
    with pytest.raises(PlanError, match="--predicate: found 'checks', expected module:function"):
        make_predicate_config("checks")


def test_cases_without_a_conversation_of_their_own_are_refused(project: Project) -> None:
    scenario = {"conversation_scenario": {"starting_prompt": "Hi.", "conversation_plan": "Say hi."}}
    project.add_criteria(safety_v1=0.8)
    project.add_set({"s": scenario}, name="scenario")
    project.add_set({"a": [turn("x")], "b": [turn("y")]}, name="two")
    (project.root / "old.evalset.json").write_text(json.dumps([{"name": "old", "data": [{"query": "x"}]}]))

    with pytest.raises(PlanError, match="s: it is a scenario, whose user says something else each time"):
        shrink(project, name="scenario.evalset.json")
    with pytest.raises(PlanError, match="2 cases selected, expected one"):
        shrink(project, name="two.evalset.json")
    two = project.root / "two.evalset.json"
    two.write_text(two.read_text().replace('"b"', '"a"'))
    with pytest.raises(PlanError, match=r"duplicate eval_id 'a' \(2 times\)"):
        shrink(project, name="two.evalset.json")
    with pytest.raises(PlanError, match="it has an old format; migrate it first"):
        shrink(project, name="old.evalset.json")


def test_an_unknown_criterion_is_refused(project: Project) -> None:
    project.add_agent(LIGHTS)
    project.add_set({"a": [light("light", "cellar")]})

    with pytest.raises(PlanError, match=r"--criterion: found 'tool', expected one of tool_trajectory_avg_score$"):
        shrink(project, criteria=["tool"])


def test_a_kept_case_is_the_next_one_and_the_other_bytes_stay(project: Project) -> None:
    project.add_agent(LIGHTS)
    turns = make_conversation()
    for each in turns:
        each["app_details"] = {"note": 1}
    path = project.root / project.add_set({"evening": {"conversation": turns, "tag": "x"}, "other": [turn("y")]})
    before = path.read_text()
    workspace = project.open_workspace()
    selection = Selection(eval_set=path.name, cases=("evening",))
    with CaseExecutor(workspace, [selection], RunOptions()) as executor:
        found = Shrinker(executor=executor, test=FailureTest(), budget=60).shrink()

    first = keep_case(EvalSetDocument.open(path), found.data, after=found.case)
    second = keep_case(EvalSetDocument.open(path), found.data, after=found.case)

    assert (first, second) == ("evening-small", "evening-small-2")
    document = EvalSetDocument.open(path)
    assert [entry.eval_id for entry in document.entries] == ["evening", "evening-small-2", "evening-small", "other"]
    kept = document.raw_case(1)
    assert kept["tag"] == "x"
    assert kept["conversation"] == [turns[2], turns[8]]
    document.remove_cases([1, 2])
    assert document.content().decode() == before


@given(st.sets(st.integers(0, 29)), st.integers(1, 30), st.booleans())
def test_minimise_finds_exactly_the_needed_items(needed: set[int], count: int, may_be_empty: bool) -> None:
    items = range(count)
    wanted = needed & set(items)
    tested: list[tuple[int, ...]] = []

    def still_fails(kept: Sequence[int]) -> bool:
        tested.append(tuple(kept))
        return wanted <= set(kept)

    found = minimise(items, still_fails, may_be_empty=may_be_empty)

    if wanted or may_be_empty:
        assert found == sorted(wanted)
    else:
        assert len(found) == 1
    assert all(list(kept) == sorted(kept) for kept in tested)


@pytest.mark.parametrize(
    "still_fails",
    [
        lambda kept: len(kept) % 2 == 0 and 3 in kept,
        lambda kept: sum(kept) > 40,
        lambda kept: len(set(kept) & {1, 4, 7}) > 1,
    ],
    ids=["not monotone", "sum", "two of three"],
)
def test_minimise_leaves_no_item_that_is_not_needed(still_fails: Callable[[Sequence[int]], bool]) -> None:
    found = minimise(range(12), still_fails, may_be_empty=False)

    assert still_fails(found)
    assert not any(still_fails([each for each in found if each != left_out]) for left_out in found)


@given(st.text(alphabet="ab .!?。\n\"'…", max_size=40))
def test_sentences_joined_are_the_message(text: str) -> None:
    assert "".join(split_sentences(text)) == text


@pytest.mark.parametrize("text", ["." * 30_000 + "x", " " * 30_000], ids=["marks", "blanks"])
def test_long_runs_of_marks_and_blanks_are_split_in_time(text: str) -> None:
    began = time.process_time()

    assert split_sentences(text) == [text]
    assert time.process_time() - began < 1


def test_sentences_end_at_marks_and_lines() -> None:
    assert split_sentences('It is 3.5 m. "Really?" Yes!\nNext line\n') == [
        "It is 3.5 m. ",
        '"Really?" ',
        "Yes!\n",
        "Next line\n",
    ]
    assert split_sentences("好。再见。") == ["好。", "再见。"]
