"""The judge of graph trajectories."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.engine.judged import serve_judge
from tests.llm.servers import gemini, gemini_error
from workbench.testing import EvaluationError, create_graph_trajectory_llm_as_judge

TAKEN = {
    "inputs": [{"__start__": {"messages": ["how cold?"]}}, "__resuming__"],
    "outputs": {
        "results": [{}, {"messages": [{"role": "assistant", "content": "3 degrees"}]}],
        "steps": [["__start__", "agent", "tools", "__interrupt__"], ["agent"]],
    },
}
REFERENCE: dict[str, Any] = {"inputs": None, "results": [{}], "steps": [["__start__", "shortcut"]]}


@pytest.mark.parametrize(("grade", "score"), [(1, True), (0, False)])
def test_a_judge_sees_the_way_and_its_reason_is_the_comment(
    monkeypatch: pytest.MonkeyPatch, grade: int, score: bool
) -> None:
    reply = gemini(json.dumps({"explanation": "it is direct", "score": grade}))

    with serve_judge(monkeypatch, lambda _call: reply) as server:
        result = create_graph_trajectory_llm_as_judge(sampling_count=1)(outputs=TAKEN)

    assert result == {"key": "graph_trajectory_accuracy", "score": score, "comment": "it is direct", "metadata": None}
    (call,) = server.calls
    prompt = call.body["contents"][0]["parts"][0]["text"]
    for text in (
        '{"__start__": {"messages": ["how cold?"]}}',
        "__start__ -> agent -> tools -> __interrupt__",
        "Input: __resuming__",
        '"3 degrees"',
        "stopped and waited for an answer of the user",
    ):
        assert text in prompt
    assert "Equivalence" not in prompt


def test_a_reference_is_part_of_the_question(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve_judge(monkeypatch, lambda _call: gemini('{"explanation": "x", "score": 1}')) as server:
        judge = create_graph_trajectory_llm_as_judge(feedback_key="way", sampling_count=1)
        result = judge(inputs=["a", "b"], outputs=TAKEN["outputs"], reference_outputs=REFERENCE)

    assert (result["key"], result["score"]) == ("way", True)
    prompt = server.calls[0].body["contents"][0]["parts"][0]["text"]
    assert "__start__ -> shortcut" in prompt
    assert "Equivalence" in prompt
    assert "Input: a" in prompt


def test_a_judge_without_a_verdict_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        serve_judge(monkeypatch, lambda _call: gemini_error(401, "no such key")),
        pytest.warns(UserWarning),
        pytest.raises(EvaluationError, match="no such key"),
    ):
        create_graph_trajectory_llm_as_judge(sampling_count=1)(outputs=TAKEN)


@pytest.mark.parametrize("outputs", [None, {"steps": ["a"]}])
def test_a_value_without_steps_is_refused(outputs: Any) -> None:
    with pytest.raises(ValueError, match="outputs: found"):
        create_graph_trajectory_llm_as_judge()(outputs=outputs)


def test_inputs_must_fit_the_steps() -> None:
    with pytest.raises(ValueError, match="outputs: found 1 inputs, 2 results and 2 lists of steps"):
        create_graph_trajectory_llm_as_judge()(outputs=TAKEN["outputs"], inputs=["a"])
