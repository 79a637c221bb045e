"""Datasets in every format: the same rows, and errors with their position."""

from __future__ import annotations

import csv
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.agents.worker.adapters.base import MOST_STEPS
from workbench.model.trace import ToolCall
from workbench.store.datasets.dataset_files import read_dataset
from workbench.store.datasets.dataset_rows import Row
from workbench.store.errors import StoreError

CALLS: list[dict[str, Any]] = [{"tool_name": "set", "tool_input": {"device": "d2", "updates": {"status": "OFF"}}}]
ROWS: list[dict[str, Any]] = [
    {
        "prompt": 'Turn off,\n"it" 关掉 🎲',
        "response": "done",
        "reference": "",
        "predicted_trajectory": CALLS,
        "reference_trajectory": [],
        "note": "[sic]",
    },
    {
        "prompt": None,
        "response": "[a]",
        "reference": None,
        "predicted_trajectory": None,
        "reference_trajectory": ["x", "y"],
        "note": {"k": [1, None]},
    },
]


def format_csv(rows: list[dict[str, Any]]) -> str:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(rows[0])
    for row in rows:
        writer.writerow(
            ["" if value is None else value if isinstance(value, str) else json.dumps(value) for value in row.values()]
        )
    return stream.getvalue()


def read_rows(tmp_path: Path, name: str, text: str | bytes) -> list[Row]:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return list(read_dataset(path).rows)


@pytest.mark.parametrize("name", ["d.jsonl", "d.json"])
def test_a_duplicate_key_with_different_values_is_an_error_of_its_row(tmp_path: Path, name: str) -> None:
    lines = [
        '{"prompt": "a", "response": "x", "response": "x"}',
        '{"prompt": "a", "response": "x", "response": "y"}',
        '{"prompt": "a", "predicted_trajectory": [{"tool_name": "f", "tool_input": {"a": 1, "a": 2}}]}',
    ]
    text = "\n".join(lines) if name == "d.jsonl" else f"[{lines[0]},\n{lines[1]},\n{lines[2]}]"

    same, differing, nested = read_rows(tmp_path, name, text)

    assert (same.response, same.problems) == ("x", ())
    assert differing.response is None
    assert "the key 'response' twice, with different values" in str(differing.problems[0])
    assert (differing.problems[0].line, nested.problems[0].line) == (2, 3)
    assert nested.predicted_trajectory is None
    assert "predicted_trajectory[0].tool_input.a" in str(nested.problems[0])


@pytest.mark.parametrize(
    "text", ['{"prompt": ["a"], "prompt": ["b"]}', '{"messages": [{"role": "user", "content": "a", "content": "b"}]}']
)
def test_a_duplicate_key_in_columns_or_messages_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(StoreError, match="twice, with different values"):
        read_rows(tmp_path, "d.json", text)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("name", ["d.jsonl", "d.json", "columns.json", "pandas.json", "d.csv"])
def test_every_format_gives_the_same_rows(tmp_path: Path, name: str, line_end: str, mark: str) -> None:
    rows = [{**row, "reference": row["reference"] or None} for row in ROWS]  # in CSV empty means missing
    columns = {key: [row[key] for row in rows] for key in rows[0]}
    text = {
        "d.jsonl": line_end.join([*map(json.dumps, rows), "", ""]),
        "d.json": json.dumps(rows, indent=2, ensure_ascii=False).replace("\n", line_end),
        "columns.json": json.dumps(columns),
        "pandas.json": json.dumps({key: {"0": a, "1": b} for key, (a, b) in columns.items()}),
        "d.csv": format_csv(rows),
    }[name]

    first, second = read_rows(tmp_path, name, mark + text)

    assert first[3:-2] == (
        ROWS[0]["prompt"],
        "done",
        None,
        [ToolCall("set", {"device": "d2", "updates": {"status": "OFF"}})],
        [],
    )
    assert second[3:-2] == (None, "[a]", None, None, [ToolCall("x"), ToolCall("y")])
    assert (first.number, first.eval_id, second.number, second.eval_id) == (1, "row_1", 2, "row_2")
    assert [first.columns, second.columns] == rows


def test_blanks_around_a_line_are_no_problem_and_other_text_is(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(' {"prompt": "a"} \n{"prompt": "b"}\t\n{"prompt": "c"} x\nx\n', encoding="utf-8")

    rows = read_dataset(path).rows

    assert [row.prompt for row in rows] == ["a", "b", None, None]
    assert [str(problem) for row in rows for problem in row.problems] == [
        f"{path}:3:17: is not JSON: Extra data",
        f"{path}:4:1: is not JSON: Expecting value",
    ]


def test_rows_have_the_line_numbers_of_the_file(tmp_path: Path) -> None:
    assert [row.line for row in read_rows(tmp_path, "d.jsonl", '{"prompt": "a"}\n\n{"prompt": "b"}')] == [1, 3]
    assert [row.line for row in read_rows(tmp_path, "d.csv", 'prompt\n"a\nb"\n\nc\n')] == [2, 5]
    assert [row.line for row in read_rows(tmp_path, "d.json", '[{"prompt": "a"}]')] == [None]


def test_rows_may_have_ids(tmp_path: Path) -> None:
    rows = read_rows(
        tmp_path, "d.jsonl", '{"prompt": "a", "eval_id": "x"}\n{"prompt": "b", "eval_id": 7}\n{"prompt": "c"}'
    )

    assert [row.eval_id for row in rows] == ["x", "7", "row_3"]


def test_a_trajectory_can_be_json_text_inside_json(tmp_path: Path) -> None:
    calls = [{**CALLS[0], "id": "1"}]

    (row,) = read_rows(tmp_path, "d.jsonl", json.dumps({"predicted_trajectory": json.dumps(calls)}))

    assert row.predicted_trajectory == [ToolCall("set", CALLS[0]["tool_input"])]
    assert row.columns["predicted_trajectory"] == calls


def test_measures_are_numbers_in_csv_too(tmp_path: Path) -> None:
    first, second = read_rows(tmp_path, "d.csv", "prompt,latency_in_seconds,failure\n1,2.5,0\n2,inf,\n")

    assert first.columns == {"prompt": "1", "latency_in_seconds": 2.5, "failure": 0}
    assert second.columns == {"prompt": "2", "latency_in_seconds": "inf", "failure": None}
    assert not second.problems


def test_nan_written_by_pandas_is_a_missing_value(tmp_path: Path) -> None:
    (row,) = read_rows(tmp_path, "d.json", '{"prompt": [NaN], "predicted_trajectory": [NaN]}')

    assert (row.prompt, row.predicted_trajectory) == (None, None)


def test_comments_and_trailing_commas_are_allowed_in_json(tmp_path: Path) -> None:
    (row,) = read_rows(tmp_path, "d.json", '[ // rows\n{"prompt": "a",},]')

    assert row.prompt == "a"


def test_a_dataset_may_be_empty(tmp_path: Path) -> None:
    assert (
        read_rows(tmp_path, "d.jsonl", "")
        == read_rows(tmp_path, "d.json", "[]")
        == read_rows(tmp_path, "d.json", "{}")
        == []
    )


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("d.json", '"text"', ":1:1: found text, expected a list of rows, or an object of columns"),
        ("d.json", '{"prompt": "a"}', ":1:12: prompt: found text, expected a list with a value for each row"),
        (
            "d.json",
            '{"prompt": ["a"],\n"response": []}',
            ":2:13: response: found 0 rows, expected 1 row, as in prompt",
        ),
        ("d.json", '[{"prompt": "a"]', ":1:16: "),
        ("d.csv", "", ":1:1: found nothing, expected a header"),
        ("d.csv", "a,prompt,a\n", ":1:1: found the column 'a' twice, expected columns of different names"),
        ("d.csv", b"\xff\xfea\x00", ": found UTF-16 text, expected UTF-8 text"),
        ("d.txt", "", ": is not a dataset: expected a name that ends in .jsonl, .csv, .json or .parquet"),
        ("d.jsonl", '\n{"prompt": \n{', ":2:12: is not JSON: Expecting value"),  # no readable row: names the first
    ],
)
def test_a_file_without_readable_rows_is_one_error(tmp_path: Path, name: str, text: str | bytes, place: str) -> None:
    with pytest.raises(StoreError) as raised:
        read_rows(tmp_path, name, text)

    assert str(raised.value).startswith(f"{tmp_path / name}{place}")


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("d.jsonl", '{"prompt": "a"}\n{"prompt": }', ":2:12: is not JSON: Expecting value"),
        ("d.jsonl", '{"prompt": "a"}\n[1]', ":2:1: found a list, expected an object, the columns of a row"),
        ("d.jsonl", '{"prompt": "a"}\n' + '{"prompt": 5}', ":2:12: prompt: found a number, expected text"),
        ("d.jsonl", '{"prompt": "a"}\n{"eval_id": {}}', ":2:13: eval_id: found an object, expected text or a number"),
        (
            "d.jsonl",
            '{"prompt": "a"}\n{"predicted_trajectory": [{"tool_name": "a"}, {"tool_name": "b", "tool_input": "{1"}]}',
            ":2:80: predicted_trajectory[1].tool_input: found text, expected an object",
        ),
        (
            "d.jsonl",
            '{"prompt": "a"}\n{"predicted_trajectory": [{"name": "b", "args": [1]}]}',
            ":2:49: predicted_trajectory[0].args: found a list, expected an object",
        ),
        (
            "d.jsonl",
            '{"prompt": "a"}\n{"reference_trajectory": {"a": 1}}',
            ":2:26: reference_trajectory: found an object, expected a list",
        ),
        ("d.jsonl", '{"prompt": "a"}\n' + "[" * 100_000, ":2:1: is nested too deeply"),
        ("d.jsonl", '{"prompt": "a"}\n{"prompt": ' + "1" * 5000, ":2:1: is not JSON: Exceeds the limit"),
        ("d.jsonl", b'{"prompt": "a"}\n{"prompt": "\xff"}', ":2:13: found the byte 0xff, expected UTF-8 text"),
        (
            "d.jsonl",
            '{"prompt": "a"}\n' + json.dumps({"predicted_trajectory": "[" * 100_000}),
            ":2:26: predicted_trajectory: found text, expected a list of tool calls",
        ),
        ("d.json", '[{"prompt": "a"},\n 7]', ":2:2: [1]: found a number, expected an object"),
        ("d.json", '[{"prompt": "a"},\n {"response": []}]', ":2:15: [1].response: found a list, expected text"),
        ("d.json", '{"prompt": {"0": "a", "1": 3}}', ':1:28: prompt["1"]: found a number, expected text'),
        ("d.json", '{"reference_trajectory": [[], [3]]}', ":1:32: reference_trajectory[1][0]: found a number"),
        ("d.csv", "prompt,response\na,b\nc\n", ":3:1: found 1 cell, expected 2 as in the header"),
        ("d.csv", "prompt,response\na,b,c\nc,d\n", ":2:1: found 3 cells, expected 2 as in the header"),
        ("d.csv", 'prompt\na\n"b\n', ":3:1: is not CSV: unexpected end of data"),
        ("d.csv", 'prompt\na\n"b"c\nd', ":3:1: is not CSV: ',' expected after"),
        ("d.csv", b"prompt\na\n\xff\n", ":3:1: prompt: found the byte 0xff, expected UTF-8 text"),
        (
            "d.csv",
            'prompt,predicted_trajectory\n"x\ny",no\nz,[]',
            ":2:1: predicted_trajectory: found text that is not JSON",
        ),
        (
            "d.csv",
            'predicted_trajectory\n[]\n"[{""name"": 3}]"',
            ":3:1: predicted_trajectory[0]: found an object, expected an obj",
        ),
    ],
)
def test_an_invalid_row_is_reported_with_its_position_and_others_are_read(
    tmp_path: Path, name: str, text: str | bytes, place: str
) -> None:
    rows = read_rows(tmp_path, name, text)

    (problem,) = [problem for row in rows for problem in row.problems]
    assert str(problem).startswith(f"{tmp_path / name}{place}")
    assert sum(not row.problems for row in rows) == (2 if name == "d.csv" and '"c\n' in str(text) else 1)


def test_the_readable_values_of_a_broken_row_are_kept(tmp_path: Path) -> None:
    _, row = read_rows(
        tmp_path, "d.jsonl", '{"prompt": "a"}\n{"eval_id": "x", "prompt": "b", "response": [], "reference": []}'
    )

    assert (row.eval_id, row.prompt, row.response) == ("x", "b", None)
    assert [problem.place for problem in row.problems] == ["response", "reference"]


def test_an_unclosed_quote_is_an_error_of_its_row_only(tmp_path: Path) -> None:
    rows = read_rows(tmp_path, "d.csv", 'prompt,response\na,b\n"c,d\ne,f\n')

    assert [(row.line, row.prompt, len(row.problems)) for row in rows] == [(2, "a", 0), (3, None, 1), (4, "e", 0)]


def test_reading_continues_after_the_line_of_an_unclosed_quote(tmp_path: Path) -> None:
    rows = read_rows(tmp_path, "d.csv", 'prompt,response\n"a,b\n"c","d"\ne,f\n')

    assert [(row.line, row.prompt, len(row.problems)) for row in rows] == [(2, None, 1), (3, "c", 0), (4, "e", 0)]


def test_a_python_repr_in_a_custom_column_stays_text(tmp_path: Path) -> None:
    (row,) = read_rows(tmp_path, "d.csv", "prompt,tags\na,\"['x', 'y']\"\n")

    assert row.problems == ()
    assert row.columns["tags"] == "['x', 'y']"


@pytest.mark.parametrize("column", ["predicted_trajectory", "reference_trajectory"])
def test_cells_with_a_python_repr_are_reported_for_each_row(tmp_path: Path, column: str) -> None:
    first, *others = read_rows(tmp_path, "d.csv", f'prompt,{column}\na,[]\nb,"{CALLS!r}"\nc,"{CALLS!r}"\n')

    assert first.problems == ()
    assert [str(problem) for row in others for problem in row.problems] == [
        f"{tmp_path / 'd.csv'}:{line}:1: {column}: found the repr of a Python value, expected JSON: write the cells "
        "with json.dumps (pandas.DataFrame.to_csv does not), or the dataset as .jsonl"
        for line in (3, 4)
    ]
    assert [row.prompt for row in others] == ["b", "c"]


def test_thousands_of_broken_rows_are_reported_in_linear_time(tmp_path: Path) -> None:
    text = json.dumps([{"prompt": "a"}, *({"prompt": number} for number in range(20_000))], indent=1)
    started = time.process_time()

    rows = read_rows(tmp_path, "d.json", text)

    assert time.process_time() - started < 5  # seconds; a search from the start for each takes minutes
    assert rows[-1].problems[0].line == text.count("\n") - 1


@pytest.mark.parametrize(("name", "before", "after"), [("d.csv", "prompt\n", ""), ("d.jsonl", '{"prompt": "', '"}')])
def test_large_cells_are_read(tmp_path: Path, name: str, before: str, after: str) -> None:
    (row,) = read_rows(tmp_path, name, before + "x" * 10_000_000 + after)

    assert len(row.prompt or "") == 10_000_000


def test_a_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no such file"):
        read_dataset(tmp_path / "none.jsonl")


NAMES = st.text(max_size=5)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | NAMES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.none() | st.dictionaries(NAMES, JSON, max_size=3)
DIALECTS = (
    lambda call: {"name": call.name, "args": call.args},
    lambda call: {"tool_name": call.name, "tool_input": call.args},
    lambda call: {"tool_name": call.name, "tool_input": json.dumps(call.args)},
    lambda call: call.name if call.args is None else {"name": call.name, "args": call.args},
    lambda call: {"name": call.name} if call.args is None else {"tool_name": call.name, "args": call.args, "id": "1"},
)
TRAJECTORIES = st.lists(st.tuples(st.builds(ToolCall, NAMES, ARGUMENTS), st.sampled_from(DIALECTS)), max_size=4)


INPUTS = [{}, {"x": 1}, [1, {"x": 2}], [], 5, 0, 2.5, True, False, "Paris", "", "[draft] hello", None]


@pytest.mark.parametrize("given", INPUTS)
def test_a_tool_input_can_be_any_json_value_or_its_text(tmp_path: Path, given: Any) -> None:
    normalised = given if isinstance(given, dict) else None if given in (None, "") else {"__arg1": given}
    text = json.dumps(given) if given != "" else ""
    calls = [
        {"tool_name": "a", "tool_input": given},
        {"tool_name": "a", "tool_input": text},
        {"type": "function", "id": "1", "function": {"name": "a", "arguments": text}},  # OpenAI
        {"type": "function_call", "call_id": "1", "name": "a", "arguments": text},
        {"type": "tool_use", "id": "1", "name": "a", "input": given},  # Anthropic
    ]

    (row,) = read_rows(tmp_path, "d.jsonl", json.dumps({"predicted_trajectory": calls}))

    assert row.problems == ()
    assert [type(call.args) for call in row.predicted_trajectory] == [type(normalised)] * 5
    assert row.predicted_trajectory == [ToolCall("a", normalised)] * 5


@pytest.mark.parametrize(
    ("given", "text"),
    [(5, "5"), (0, "0"), (2.5, "2.5"), (True, "true"), ({"ä": [1]}, '{"ä": [1]}'), ("as it is", "as it is")],
)
def test_a_response_that_is_not_text_is_read_as_its_json(tmp_path: Path, given: Any, text: str) -> None:
    (row,) = read_rows(tmp_path, "d.jsonl", json.dumps({"response": given, "reference": given}))

    assert (row.response, row.reference, row.problems) == (text, text, ())
    assert row.columns["response"] == given


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(TRAJECTORIES, min_size=1, max_size=3), st.sampled_from(["d.jsonl", "d.json", "d.csv"]), st.booleans())
def test_every_dialect_of_trajectories_gives_the_same_calls(
    tmp_path: Path, trajectories: list[list[tuple[ToolCall, Any]]], name: str, as_text: bool
) -> None:
    written = [[dialect(call) for call, dialect in trajectory] for trajectory in trajectories]
    rows = [{"predicted_trajectory": json.dumps(calls) if as_text else calls, "prompt": "p"} for calls in written]
    text = {"d.jsonl": "\n".join(map(json.dumps, rows)), "d.json": json.dumps(rows), "d.csv": format_csv(rows)}[name]

    assert [row.predicted_trajectory for row in read_rows(tmp_path, name, text)] == [
        [call for call, _ in trajectory] for trajectory in trajectories
    ]


@pytest.mark.parametrize("column", ["predicted_trajectory", "reference_trajectory"])
@pytest.mark.parametrize("as_text", [False, True])
def test_more_calls_than_the_maximum_are_a_problem_of_the_row(tmp_path: Path, column: str, as_text: bool) -> None:
    max_calls = [{"tool_name": "look", "tool_input": {"at": at}} for at in range(10_000)]
    path = tmp_path / "rows.jsonl"
    rows = [{"prompt": "p", column: calls} for calls in (max_calls, [*max_calls, "one more"])]
    rows = [{**row, column: json.dumps(row[column])} if as_text else row for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    fine, broken = read_dataset(path).rows

    assert len(getattr(fine, column)) == MOST_STEPS
    (problem,) = broken.problems
    assert f"rows.jsonl:2:41: {column}: found 10,001 calls, expected at most 10,000" in str(problem)
    assert broken.columns[column] is None
