"""Recorded cases: rows and sessions in the form that a run judges."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest

from workbench.model.trace import ToolCall, get_trajectory
from workbench.store.datasets.dataset_files import RecordedCase, make_recorded_cases, read_dataset, read_recorded
from workbench.store.errors import StoreError

DOCUMENTATION = Path(__file__).parents[5] / "shared" / "corpus" / "documentation" / "trajectories.jsonl"


def turn(text: str, answer: str, *tools: str) -> dict[str, Any]:
    return {
        "user_content": {"role": "user", "parts": [{"text": text}]},
        "final_response": {"role": "model", "parts": [{"text": answer}]},
        "intermediate_data": {"tool_uses": [{"name": tool, "args": {}} for tool in tools]},
    }


def case(eval_id: str, *turns: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {"eval_id": eval_id, "conversation": list(turns), **facts}


def write_set(path: Path, *cases: dict[str, Any]) -> Path:
    path.write_text(json.dumps({"eval_set_id": path.name.split(".")[0], "eval_cases": list(cases)}), encoding="utf-8")
    return path


def index_by_id(cases: tuple[RecordedCase, ...]) -> dict[str, RecordedCase]:
    return {item.eval_id: item for item in cases}


def test_a_row_becomes_a_case_of_one_turn(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    columns = {
        "prompt": "p",
        "response": "given",
        "reference": "wanted",
        "predicted_trajectory": ["a"],
        "reference_trajectory": [{"tool_name": "b", "tool_input": {"x": 1}}],
        "latency_in_seconds": 2,
        "other": [1],
    }
    path.write_text(json.dumps(columns))

    recorded = read_recorded(path)
    (row,) = recorded.cases

    assert (recorded.eval_set_id, row.eval_id, row.problem, row.columns) == ("rows", "row_1", None, columns)
    assert row.case is not None
    assert row.case.conversation is not None
    (expected,) = row.case.conversation
    (actual,) = row.execution.turns
    assert expected.user_content.text() == actual.invocation.user_content.text() == "p"
    assert expected.final_response is not None
    assert actual.invocation.final_response is not None
    assert (expected.final_response.text(), actual.invocation.final_response.text()) == ("wanted", "given")
    assert get_trajectory(expected) == [ToolCall("b", {"x": 1})]
    assert get_trajectory(actual.invocation) == [ToolCall("a")]
    assert actual.duration_seconds == 2.0


def test_missing_values_of_a_row_stay_absent(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"response": ""}')

    (row,) = make_recorded_cases(read_dataset(path))

    assert row.case is not None
    assert row.case.conversation is not None
    (expected,) = row.case.conversation
    (actual,) = row.execution.turns
    assert (expected.final_response, expected.intermediate_data, expected.user_content.parts) == (None, None, [])
    assert actual.invocation.final_response is not None
    assert actual.invocation.intermediate_data is None


def test_a_file_without_known_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "answer": "b"}')

    with pytest.raises(StoreError, match="found the columns answer, text, expected at least one of prompt, response"):
        read_recorded(path)

    (row,) = read_recorded(path, columns={"response": "answer"}).cases
    assert row.columns["response"] == "b"


def test_rows_with_the_same_id_have_different_occurrences(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"eval_id": "x", "prompt": "a"}\n' * 2)

    assert [(row.eval_id, row.occurrence) for row in read_recorded(path).cases] == [("x", 0), ("x", 1)]


def test_sessions_pair_with_expectations_by_id_and_turn(tmp_path: Path) -> None:
    actual = write_set(
        tmp_path / "actual.evalset.json",
        case("two", turn("a", "1", "t"), turn("b", "2"), final_session_state={"k": 1}),
        case("one", turn("c", "3")),
    )
    expected = write_set(
        tmp_path / "expected.evalset.json", case("one", turn("c", "4")), case("two", turn("a", "5"), turn("b", "6"))
    )

    recorded = read_recorded(actual, expected=expected)
    cases = index_by_id(recorded.cases)

    assert recorded.eval_set_id == "actual"
    assert list(cases) == ["one", "two"]
    assert all(item.problem is None for item in recorded.cases)
    two = cases["two"]
    assert two.execution.final_state == {"k": 1}
    assert [
        item.invocation.final_response.text() for item in two.execution.turns if item.invocation.final_response
    ] == [
        "1",
        "2",
    ]
    assert two.case is not None
    assert [item.final_response.text() for item in two.case.conversation or () if item.final_response] == ["5", "6"]


def test_sessions_without_an_expected_set_have_no_case(tmp_path: Path) -> None:
    actual = write_set(tmp_path / "actual.test.json", case("a", turn("x", "y")))

    (session,) = read_recorded(actual).cases

    assert session.case is None
    assert len(session.execution.turns) == 1


def test_sessions_can_be_in_a_file_with_any_json_name(tmp_path: Path) -> None:
    actual = write_set(tmp_path / "actual.json", case("a", turn("x", "y")))
    expected = write_set(tmp_path / "expected.json", case("a", turn("x", "z")))

    (session,) = read_recorded(actual, expected=expected).cases

    assert session.problem is None
    assert session.case is not None


def test_an_unpaired_case_is_a_problem_of_that_case_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scenario = {"eval_id": "scenario", "conversation_scenario": {"starting_prompt": "a", "conversation_plan": "b"}}
    actual = write_set(
        Path("actual.evalset.json"),
        case("good", turn("a", "b")),
        case("short", turn("a", "b")),
        case("extra", turn("a", "b")),
        case("twice", turn("a", "b")),
        case("twice", turn("a", "b")),
        scenario,
        {"eval_id": "broken", "conversation": 7},
    )
    expected = write_set(
        Path("expected.evalset.json"),
        case("good", turn("a", "b")),
        case("short", turn("a", "b"), turn("c", "d")),
        case("missing", turn("a", "b")),
        case("twice", turn("a", "b")),
        scenario,
        case("broken", turn("a", "b")),
    )

    problems = {item.eval_id: item.problem for item in read_recorded(actual, expected=expected).cases}

    assert problems.pop("good") is None
    assert "conversation: found" in (problems.pop("broken") or "")
    assert problems == {
        "short": "'short': found 1 turn, expected 2",
        "extra": "expected.evalset.json: there is no case 'extra'",
        "missing": "actual.evalset.json: no session of 'missing' is recorded",
        "twice": "actual.evalset.json: duplicate eval_id 'twice' (2 times); make it unique",
        "scenario": "'scenario' is a scenario, expected a recorded conversation",
    }


def test_a_session_can_be_paired_with_a_scenario(tmp_path: Path) -> None:
    scenario = {"eval_id": "s", "conversation_scenario": {"starting_prompt": "a", "conversation_plan": "b"}}
    actual = write_set(tmp_path / "a.evalset.json", case("s", turn("a", "b"), turn("c", "d")))
    expected = write_set(tmp_path / "b.evalset.json", scenario)

    (session,) = read_recorded(actual, expected=expected).cases

    assert session.problem is None
    assert session.case is not None
    assert session.case.conversation is None
    assert len(session.execution.turns) == 2


def test_rows_cannot_be_paired_with_an_eval_set(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("{}")

    with pytest.raises(StoreError, match=r"rows\.jsonl: is not an eval set"):
        read_recorded(tmp_path / "rows.jsonl", expected=tmp_path / "b.evalset.json")


def test_the_garbage_collector_stays_enabled(tmp_path: Path) -> None:
    assert gc.isenabled()
    with pytest.raises(StoreError):
        read_recorded(tmp_path / "missing.jsonl")

    assert gc.isenabled()


@pytest.mark.skipif(not DOCUMENTATION.exists(), reason="the shared corpus is not beside the repository")
def test_the_documented_trajectories_are_read() -> None:
    first, second = read_recorded(DOCUMENTATION).cases

    (turn_result,) = first.execution.turns
    assert get_trajectory(turn_result.invocation) == [
        ToolCall("set_device_info", {"device_id": "device_3", "updates": {"status": "OFF"}})
    ]
    assert second.case is not None
    assert [call.name for call in get_trajectory((second.case.conversation or [])[0])] == [
        "get_user_preferences",
        "set_temperature",
    ]
