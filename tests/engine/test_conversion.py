"""Conversion of datasets, eval sets and messages: everything comes back, or its loss is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.engine.conversion import Converted, Form, Side, convert, guess_form
from workbench.engine.plan import PlanError
from workbench.model.trace import ToolCall
from workbench.store.datasets.dataset_files import dataset_from_rows, read_dataset
from workbench.store.datasets.dataset_rows import Row
from workbench.store.errors import StoreError
from workbench.store.evalsets.validation import validate

quick_settings = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
CALL = st.builds(
    lambda name, args: {"tool_name": name} | ({} if args is None else {"tool_input": args}),
    TEXT,
    st.none() | st.dictionaries(TEXT, JSON, max_size=2),
)
CALLS = st.none() | st.lists(CALL, max_size=3)
ROW = st.fixed_dictionaries(
    {
        "prompt": TEXT,
        "response": st.none() | TEXT,
        "reference": st.none() | TEXT,
        "predicted_trajectory": CALLS,
        "reference_trajectory": CALLS,
    }
)
ROWS = st.lists(ROW, min_size=1, max_size=4)


def write_rows(folder: Path, rows: list[dict[str, Any]], name: str = "rows.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def convert_file(source: Path, to: Path, form: Form | None = None, side: Side | None = None) -> Converted:
    result = convert(source, to, form=form or guess_form(to), side=side)
    to.write_bytes(result.content)
    return result


def get_facts(rows: tuple[Row, ...]) -> list[tuple[Any, ...]]:
    return [row[3:8] for row in rows]


@quick_settings
@given(rows=st.lists(st.tuples(ROW, JSON).map(lambda pair: {**pair[0], "note": pair[1]}), min_size=1, max_size=4))
@pytest.mark.parametrize("name", ["b.csv", "b.json", "b.jsonl"])
def test_rows_come_back_from_every_format_except_for_reported_losses(
    tmp_path: Path, name: str, rows: list[dict[str, Any]]
) -> None:
    result = convert_file(write_rows(tmp_path, rows), tmp_path / name)

    rows_read = read_dataset(tmp_path / name).rows
    assert get_facts(rows_read) == get_facts(dataset_from_rows(rows).rows)
    if not result.losses:
        assert [dict(row.columns) for row in rows_read] == rows


@pytest.mark.needs_pandas
@quick_settings
@given(rows=ROWS)
def test_rows_come_back_from_parquet(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    result = convert_file(write_rows(tmp_path, rows), tmp_path / "b.parquet")

    assert result.losses == ()
    assert get_facts(read_dataset(tmp_path / "b.parquet").rows) == get_facts(dataset_from_rows(rows).rows)


@quick_settings
@given(rows=ROWS, side=st.sampled_from(["reference", "response"]))
def test_either_side_of_rows_comes_back_from_an_eval_set(
    tmp_path: Path, rows: list[dict[str, Any]], side: Side
) -> None:
    target, result_path = tmp_path / "b.evalset.json", tmp_path / "c.jsonl"
    convert_file(write_rows(tmp_path, rows), target, side=side)
    convert_file(target, result_path, side=side)

    names = (
        "prompt",
        *(("reference", "reference_trajectory") if side == "reference" else ("response", "predicted_trajectory")),
    )
    expected = dataset_from_rows([{name: row[name] for name in names} for row in rows]).rows
    assert get_facts(read_dataset(result_path).rows) == get_facts(expected)
    assert [str(problem) for problem in validate([target]) if problem.severity == "error"] == []


@quick_settings
@given(rows=ROWS)
@pytest.mark.parametrize("form", ["openai", "langchain"])
def test_answers_come_back_from_messages(tmp_path: Path, form: Form, rows: list[dict[str, Any]]) -> None:
    target = tmp_path / "b.jsonl"
    result = convert_file(write_rows(tmp_path, rows), target, form, "response")

    for row, row_read in zip(rows, read_dataset(target).rows, strict=True):
        calls = dataset_from_rows([row]).rows[0].predicted_trajectory
        assert (row_read.prompt, row_read.response) == (row["prompt"], row["response"])
        expected_calls = [ToolCall(call.name, call.args or {}) for call in calls or ()]
        has_answer = bool(expected_calls or row["response"] is not None)
        assert row_read.predicted_trajectory == (expected_calls if has_answer else None)
        assert (row_read.reference, row_read.reference_trajectory) == dataset_from_rows([row]).rows[0][5:8:2]
        if calls is None and has_answer:
            assert any("unknown tool calls" in line for line in result.losses)
        if calls == [] and not has_answer:
            assert any("no tool was called" in line for line in result.losses)


TURN = st.fixed_dictionaries(
    {
        "user_content": TEXT.map(lambda text: {"role": "user", "parts": [{"text": text}]}),
        "final_response": TEXT.map(lambda text: {"role": "model", "parts": [{"text": text}]}),
        "intermediate_data": st.lists(
            st.fixed_dictionaries({"name": TEXT, "args": st.dictionaries(TEXT, JSON, max_size=2)}), max_size=2
        ).map(
            lambda calls: {
                "tool_uses": calls,
                "tool_responses": [{"name": call["name"], "response": {"ok": True}} for call in calls],
                "intermediate_responses": [],
            }
        ),
    }
)


@quick_settings
@given(conversation=st.lists(TURN, min_size=1, max_size=3))
@pytest.mark.parametrize("form", ["openai", "langchain"])
def test_sessions_of_several_turns_come_back_from_messages(
    tmp_path: Path, form: Form, conversation: list[dict[str, Any]]
) -> None:
    source, target, result_path = tmp_path / "a.evalset.json", tmp_path / "b.jsonl", tmp_path / "c.evalset.json"
    case = {
        "eval_id": "x",
        "conversation": [{"invocation_id": f"x_{n}", **turn} for n, turn in enumerate(conversation, 1)],
    }
    source.write_text(json.dumps({"eval_set_id": "a", "eval_cases": [case]}))

    first = convert_file(source, target, form)
    second = convert_file(target, result_path)

    assert (first.losses, second.losses) == ((), ())
    assert json.loads(result_path.read_text())["eval_cases"] == [case]


def test_losses_from_an_eval_set_to_rows_are_reported(tmp_path: Path) -> None:
    turn: dict[str, Any] = {
        "user_content": {"role": "user", "parts": [{"text": "hi"}, {"inline_data": {"mime_type": "image/png"}}]},
        "final_response": {"parts": [{"text": "I think", "thought": True}, {"text": "hello"}]},
        "intermediate_data": {
            "tool_uses": [{"name": "f"}],
            "tool_responses": [{"name": "f", "response": {}}],
            "intermediate_responses": [["helper", [{"text": "wait"}]]],
        },
        "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "kind"}}],
    }
    rich_case = {
        "eval_id": "rich",
        "conversation": [turn, turn],
        "session_input": {"app_name": "a", "user_id": "u", "state": {"k": 1}},
        "final_session_state": {"k": 2},
    }
    scenario = {"eval_id": "s", "conversation_scenario": {"starting_prompt": "a", "conversation_plan": "b"}}
    broken = {"eval_id": "b", "conversation": 7}
    empty = {"eval_id": "e", "conversation": []}
    source = tmp_path / "a.evalset.json"
    source.write_text(json.dumps({"eval_set_id": "a", "eval_cases": [rich_case, scenario, broken, empty]}))

    result = convert_file(source, tmp_path / "b.jsonl")

    first, second = read_dataset(tmp_path / "b.jsonl").rows
    assert (first.eval_id, second.eval_id, first.reference) == ("rich_turn_1", "rich_turn_2", "hello")
    assert first.reference_trajectory == [ToolCall("f")]
    assert sorted(line for line in result.losses if "broken" not in line and "cannot be read" not in line) == [
        "a case without turns is left out (1 case: e)",
        "a conversation scenario is left out: it has no conversation yet (1 case: s)",
        "intermediate responses (1 case: rich)",
        "parts other than text: inline_data (1 case: rich)",
        "rubrics (1 case: rich)",
        "the expected final state (final_session_state) (1 case: rich)",
        "the initial session (session_input) (1 case: rich)",
        "the link between turns: each becomes a separate row (1 case: rich)",
        "thoughts (1 case: rich)",
        "tool results (1 case: rich)",
    ]
    assert sum("a case that cannot be read is left out" in line for line in result.losses) == 1


def test_losses_from_rows_to_an_eval_set_are_reported(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"eval_id": "x", "prompt": "a", "reference": "b", "response": "c", "cost": 2},
        {"eval_id": "x", "prompt": "d", "reference": "e", "response": "f"},
        {"prompt": 7},
    ]

    result = convert_file(write_rows(tmp_path, rows), tmp_path / "b.evalset.json")

    cases = json.loads((tmp_path / "b.evalset.json").read_text())["eval_cases"]
    assert [case["eval_id"] for case in cases] == ["x", "x_2"]
    assert result.number == 2
    assert list(result.losses) == [
        "the column response (2 cases, the first: x)",
        "the column cost (1 case: x)",
        "a duplicate id: it gets a number (1 case: x#2)",
        f"a row that cannot be read is left out: {tmp_path / 'rows.jsonl'}:3:12: prompt: found a number, expected text "
        "(1 case: row_3)",
    ]


def test_only_columns_of_the_file_are_lost_and_not_what_was_derived_from_messages(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    contents = [{"role": "user", "parts": [{"text": "a"}]}, {"role": "model", "parts": [{"text": "b"}]}]
    source = write_rows(
        tmp_path,
        [
            {"eval_id": "x", "reference": "c", "messages": messages},
            {"eval_id": "y", "reference": "c", "contents": contents},
            {"eval_id": "z", "reference": "c", "messages": messages, "response": "differs"},
        ],
    )

    expected = convert(source, tmp_path / "b.evalset.json", form="evalset")
    actual = convert(source, tmp_path / "c.evalset.json", form="evalset", side="response")

    assert sorted(expected.losses) == [
        "the column contents (1 case: y)",
        "the column messages (2 cases, the first: x)",
        "the column response (1 case: z)",
    ]
    assert sorted(actual.losses) == ["the column messages (1 case: z)", "the column reference (3 cases, the first: x)"]


def test_a_row_without_a_prompt_is_reported(tmp_path: Path) -> None:
    result = convert_file(write_rows(tmp_path, [{"prompt": "a"}, {"reference": "b"}]), tmp_path / "b.evalset.json")

    assert list(result.losses) == ["a prompt, because the row has none (1 case: row_2)"]


def test_mapped_columns_are_not_lost_and_a_dataset_without_known_columns_is_refused(tmp_path: Path) -> None:
    rows = write_rows(tmp_path, [{"input": "a", "target": "b", "cost": 2}])
    to = tmp_path / "b.evalset.json"

    mapped = convert(rows, to, form="evalset", columns={"prompt": "input", "reference": "target"})

    assert mapped.losses == ("the column cost (1 case: row_1)",)
    with pytest.raises(StoreError, match="found the columns cost, input, target, expected at least one of prompt"):
        convert(rows, to, form="evalset")


def test_each_row_with_a_loss_counts_even_if_its_id_is_a_duplicate(tmp_path: Path) -> None:
    rows = [{"eval_id": name, "prompt": "a", "reference": "b", "cost": 2} for name in ("x", "x", "x#2", "x")]

    result = convert_file(write_rows(tmp_path, rows), tmp_path / "b.evalset.json")

    assert "the column cost (4 cases, the first: x)" in result.losses


def test_losses_between_formats_of_rows_are_reported(tmp_path: Path) -> None:
    rows = [
        {"prompt": "", "cost": 1.5, "note": "[1]", "context": [1], "eval_id": "row_1", "latency_in_seconds": 2},
        {"prompt": "a", "cost": 2.5, "note": "[b]", "context": None},
    ]
    source = write_rows(tmp_path, rows)

    assert convert_file(source, tmp_path / "b.csv").losses == (
        "empty text becomes a missing value: prompt (1 case: row_1)",
        "numbers and booleans become text: cost (2 cases, the first: row_1)",
        "text that is JSON becomes a JSON value: note (1 case: row_1)",
    )
    messages = write_rows(tmp_path, [{"messages": [["human", "a"], ["ai", "b"], ["human", "c"]]}], "m.jsonl")
    assert convert_file(messages, tmp_path / "c.json").losses == (
        "everything in messages except prompt, calls and answer (1 case: row_1)",
    )


@pytest.mark.parametrize(
    "name", ["b.jsonl", "b.csv", "b.json", "b.evalset.json", pytest.param("b.parquet", marks=pytest.mark.needs_pandas)]
)
def test_losses_to_json_and_utf8_are_reported(tmp_path: Path, name: str) -> None:
    call = {"tool_name": "heat", "tool_input": {"degrees": float("inf")}}
    source = write_rows(tmp_path, [{"prompt": "a", "reference": "\ud83d", "reference_trajectory": [call]}])

    result = convert_file(source, tmp_path / name)

    assert [line.partition(":")[0].partition(" (1 case")[0] for line in sorted(result.losses)] == [
        "NaN and Infinity become null",
        "halves of surrogate pairs become question marks",
    ]
    if "evalset" in name:
        convert_file(tmp_path / name, tmp_path / "c.jsonl")
        name = "c.jsonl"
    (row,) = read_dataset(tmp_path / name).rows
    assert (row.reference, row.reference_trajectory) == ("?", [ToolCall("heat", {"degrees": None})])


@pytest.mark.needs_pandas
def test_turns_of_messages_come_back_from_parquet(tmp_path: Path) -> None:
    messages = [{"role": role, "content": text} for role in ("user", "assistant") for text in ("hi", "bye")]
    messages = [messages[place] for place in (0, 2, 1, 3)]
    source = write_rows(tmp_path, [{"eval_id": "x", "messages": messages}])

    convert_file(source, tmp_path / "b.parquet", "openai")
    convert_file(tmp_path / "b.parquet", tmp_path / "c.jsonl", "openai")

    assert json.loads((tmp_path / "c.jsonl").read_text()) == {"eval_id": "x", "messages": messages}


@pytest.mark.needs_pandas
def test_losses_to_parquet_are_reported_or_refused(tmp_path: Path) -> None:
    result = convert_file(write_rows(tmp_path, [{"prompt": "a", "context": [1]}]), tmp_path / "b.parquet")

    assert result.losses == ("lists and objects become text: context (1 case: row_1)",)
    with pytest.raises(StoreError, match=r"b\.parquet: cost: found values of several kinds, expected one kind"):
        convert(write_rows(tmp_path, [{"prompt": "a", "cost": 1}, {"cost": "b"}]), tmp_path / "b.parquet", form="rows")


def test_conversions_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    rows = write_rows(tmp_path, [{"prompt": "a"}])
    eval_set = tmp_path / "a.evalset.json"
    convert_file(rows, eval_set)

    with pytest.raises(PlanError, match="is already an eval set"):
        convert(eval_set, tmp_path / "b.evalset.json", form="evalset")
    with pytest.raises(
        StoreError, match=r"b\.jsonl: is not the name of an eval set: expected one that ends in \.evalset"
    ):
        convert(rows, tmp_path / "b.jsonl", form="evalset")
    with pytest.raises(PlanError, match="rows keep both sides"):
        convert(rows, tmp_path / "b.csv", form="rows", side="response")
    with pytest.raises(StoreError, match=r"is not a dataset: expected a name that ends in \.jsonl, \.csv"):
        convert(rows, tmp_path / "b.txt", form="rows")
