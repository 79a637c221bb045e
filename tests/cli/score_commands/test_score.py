"""`workbench score`: recorded responses and trajectories, judged without an agent."""

from __future__ import annotations

import csv
import json
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.cli.command_line import CommandLine

# The two rows of the documentation, and their scores by its definitions.
ROWS: list[dict[str, Any]] = [
    {
        "reference_trajectory": [{"tool_name": "set_device_info", "tool_input": {"device_id": "device_2"}}],
        "predicted_trajectory": [{"tool_name": "set_device_info", "tool_input": {"device_id": "device_3"}}],
    },
    {
        "reference_trajectory": [
            {"tool_name": "get_user_preferences", "tool_input": {"user_id": "user_y"}},
            {"tool_name": "set_temperature", "tool_input": {"temperature": 23}},
        ],
        "predicted_trajectory": [
            {"tool_name": "get_user_preferences", "tool_input": {"user_id": "user_z"}},
            {"tool_name": "set_temperature", "tool_input": {"temperature": 23}},
        ],
    },
]


@pytest.fixture
def dataset(workbench: CommandLine) -> str:
    workbench.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in ROWS))
    return "rows.jsonl"


def test_the_documented_rows_have_the_documented_scores(workbench: CommandLine, dataset: str) -> None:
    names = ("trajectory_exact_match", "trajectory_precision", "trajectory_recall")

    result = workbench("score", dataset, *(f"--metric={name}=0.5" for name in names), "--format", "json")

    assert result.status == 1
    metrics = result.data["summary"]["metrics"]
    assert [round(metrics[name]["mean"], 4) for name in names] == [0, 0.25, 0.25]
    assert round(metrics["trajectory_precision"]["std"], 4) == 0.3536


def test_a_row_in_quarantine_fails_no_score_and_is_reported(workbench: CommandLine) -> None:
    good = {"eval_id": "good", **ROWS[0], "predicted_trajectory": ROWS[0]["reference_trajectory"]}
    rows = [good, {"eval_id": "bad", **ROWS[0]}]
    workbench.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    entries = {name: {"until": "2999-01-01"} for name in ("bad", "gone")}
    workbench.write("rows.jsonl.workbench.json", {"quarantine": entries})

    result = workbench("score", "rows.jsonl", "--metric", "trajectory_exact_match=1")

    assert result.status == 0
    assert "2 cases: 1 passed, 1 quarantined" in result.out
    assert "quarantined until 2999-01-01" in result.out
    assert "rows.jsonl: the set does not have these cases in quarantine: gone" in result.error
    workbench.write("rows.jsonl.workbench.json", "{")
    damaged = workbench("score", "rows.jsonl", "--metric", "trajectory_exact_match=1")
    assert damaged.status == 2
    assert "none of its cases is in quarantine" in damaged.error


def test_a_quarantine_of_the_expected_set_counts_for_recorded_sessions(
    workbench: CommandLine, make_turn: Callable[..., dict[str, Any]]
) -> None:
    wrong = make_turn("light the hall", room="attic")
    workbench.add_set("recorded.evalset.json", {"off": [wrong]})
    workbench.add_set("home/light.evalset.json", {"off": [make_turn("light the hall", room="hall")]})
    score = ("score", "recorded.evalset.json", "--expected", "home/light.evalset.json", "--metric=trajectory_recall=1")
    assert workbench(*score).status == 1
    workbench("flaky", "quarantine", "home/light.evalset.json:off")

    result = workbench(*score)

    assert result.status == 0
    assert "1 quarantined" in result.out


def test_a_dataset_is_named_once_above_its_rows(workbench: CommandLine, dataset: str) -> None:
    result = workbench("score", dataset, "--metric", "trajectory_exact_match=1")
    report = workbench("report", "latest", "--format", "markdown")

    assert result.out.splitlines()[0].rstrip() == "rows.jsonl · criteria --metrics"
    assert "## rows.jsonl · criteria --metrics\n" in report.out


def test_a_report_shows_the_expectations_of_deleted_rows(workbench: CommandLine, dataset: str) -> None:
    workbench("score", dataset, "--metric", "trajectory_exact_match=1")
    workbench.write(dataset, "")

    report = workbench("report", "latest", "--format", "markdown")

    assert r'user\_id: expected "user\_y", got "user\_z"' in report.out


def test_metrics_without_thresholds_are_reported_but_give_no_verdict(workbench: CommandLine, dataset: str) -> None:
    result = workbench("score", dataset, "--metric", "trajectory_recall")

    assert result.status == 1
    assert "trajectory_recall  mean 0.25  std 0.3536  (2 of 2 scored)" in result.out
    assert "no criterion has a threshold" in result.out


def test_the_duration_of_a_row_without_latency_is_unknown(workbench: CommandLine) -> None:
    rows = [{"prompt": "a", "response": "b"}, {"prompt": "a", "response": "b", "latency_in_seconds": 0.25}]
    workbench.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    result = workbench("score", "rows.jsonl", "--metrics", "invocation_duration_v1=1", "--format", "json")

    metrics = [case["metrics"][0] for case in result.data["cases"]]
    assert [(metric["score"], metric["status"]) for metric in metrics] == [(None, "UNDEFINED"), (0.25, "PASSED")]


def test_rows_scored_without_an_agent_show_no_duration(workbench: CommandLine, dataset: str) -> None:
    result = workbench("score", dataset, "--metric", "trajectory_exact_match=1")
    report = workbench("report", "latest", "--format", "markdown")

    rows = [line for line in result.out.splitlines() if "FAILED" in line]
    assert len(rows) == 2
    assert all(line.endswith("  -") for line in rows)
    assert [line.rsplit("|", 2)[1].strip() for line in report.out.splitlines() if "FAILED" in line] == ["-", "-"]


def test_the_calls_of_a_row_without_a_trajectory_are_unknown(workbench: CommandLine) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt": "a", "response": "x", "reference": "x"},
        {"prompt": "a", "response": "x", "reference": "x", "predicted_trajectory": []},
        {},
    ]
    workbench.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    metrics = "rouge_1=1,trajectory_exact_match,tool_trajectory_avg_score,tool_call_count_v1"

    result = workbench("score", "rows.jsonl", "--metrics", metrics, "--format", "json")
    table = csv.DictReader(workbench("report", "latest", "--format", "csv").out.splitlines())

    cases = result.data["cases"]
    assert [case["turns"][0]["trajectory"] for case in cases] == [None, [], None]
    assert [row["trajectories"] for row in table] == ["[null]", "[[]]", "[null]"]
    assert {metric["status"] for metric in cases[2]["metrics"]} == {"UNDEFINED"}
    assert cases[2]["status"] == "NOT_EVALUATED"


def test_one_option_may_name_several_metrics(workbench: CommandLine, dataset: str) -> None:
    result = workbench("score", dataset, "--metrics", "trajectory_recall=0.2, trajectory_precision", "--format", "json")

    assert result.status == 1  # the first row shares no call with its reference
    thresholds = {metric["name"]: metric["threshold"] for metric in result.data["cases"][0]["metrics"]}
    assert (thresholds["trajectory_recall"], thresholds["trajectory_precision"]) == (0.2, None)


def test_criteria_may_come_from_a_file(workbench: CommandLine, dataset: str) -> None:
    workbench.write("criteria.json", {"criteria": {"trajectory_recall": 0.0}})

    assert workbench("score", dataset, "--config", "criteria.json").status == 0


def test_recorded_sessions_are_compared_with_an_eval_set(workbench: CommandLine) -> None:
    result = workbench(
        "score", "home/light.evalset.json", "--expected", "home/light.evalset.json",
        "--metric", "tool_trajectory_avg_score=1", "--format", "json",
    )  # fmt: skip

    assert result.status == 0
    assert result.data["summary"]["passed"] == 2


def test_an_unreadable_row_is_an_error_and_the_others_are_judged(workbench: CommandLine) -> None:
    good = json.dumps(ROWS[0])
    workbench.write("rows.jsonl", f'{good}\n{{"predicted_trajectory": 7}}\n{{"prompt"\n{good}\n')

    result = workbench("score", "rows.jsonl", "--metric", "trajectory_recall=0", "--format", "json")

    assert result.status == 2  # a file is wrong
    assert [case["status"] for case in result.data["cases"]] == ["PASSED", "ERROR", "ERROR", "PASSED"]
    assert [case["error"]["message"] for case in result.data["cases"][1:3]] == [
        "rows.jsonl:2:26: predicted_trajectory: found a number, expected a list of tool calls",
        "rows.jsonl:3:10: is not JSON: Expecting ':' delimiter",
    ]
    assert result.data["summary"]["metrics"]["trajectory_recall"]["scored"] == 2


@pytest.mark.needs_fsspec
def test_credentials_in_an_address_are_never_stored(workbench: CommandLine) -> None:
    folder = workbench.write("web/rows.jsonl", json.dumps(ROWS[0])).parent
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/rows.jsonl?token=hush"

        result = workbench("score", address, "--metric", "trajectory_recall=0", "--format", "json")

        server.shutdown()
    assert result.status == 0
    assert result.data["cases"][0]["target"] == address.partition("?")[0]
    assert "hush" not in result.out
    stored_files = [file for file in (workbench.root / ".workbench").iterdir() if file.is_file()]
    assert stored_files and not any(b"hush" in file.read_bytes() for file in stored_files)


def test_datasets_with_the_same_file_name_get_distinct_names(workbench: CommandLine) -> None:
    for folder in ("old", "new"):
        workbench.write(f"{folder}/rows.jsonl", json.dumps(ROWS[0]))

    targets = [
        workbench("score", f"{folder}/rows.jsonl", "--metric", "trajectory_recall=0", "--format", "json").data["cases"][
            0
        ]["target"]
        for folder in ("old", "new")
    ]

    assert targets == ["old/rows.jsonl", "new/rows.jsonl"]


@pytest.mark.needs_fsspec
def test_a_recorded_target_may_name_addresses_and_json_files(workbench: CommandLine) -> None:
    (workbench.root / "home" / "light.evalset.json").unlink()
    requested_paths: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            requested_paths.append(self.path)

    folder = workbench.write("elsewhere/rows.csv", "response,reference\nyes,yes\nyes,no\n").parent
    workbench.write("near.json", {"response": ["yes"], "reference": ["yes"]})
    workbench.write("criteria.json", {"criteria": {"rouge_1": 1}})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/rows.csv"
        eval_sets = json.dumps(["near.json", f"{address}?token=hush"])
        settings = f'[targets.stored]\nkind = "recorded"\nconfig = "criteria.json"\neval_sets = {eval_sets}\n'
        workbench.write("workbench.toml", settings)

        doctor = workbench("doctor")
        offline = [
            workbench(*command)
            for command in (
                ("run", "--dry-run"),
                ("run", "--dry-run", "--case", "row_1"),
                ("run", "--dry-run", f"{address}:row_2"),
                ("explain",),
            )
        ]
        assert requested_paths == []
        assert [command_result.status for command_result in offline] == [0] * 4
        assert all(
            f"{address}: not fetched; its rows are not listed" in command_result.error for command_result in offline
        )
        result = workbench("run", "stored", "--format", "json")
        single_row = workbench("run", f"{address}:row_2", "--format", "json")

        server.shutdown()
    assert address in doctor.out
    assert "dataset" not in doctor.out
    outcomes = [(case["eval_set_id"], case["eval_id"], case["status"]) for case in result.data["cases"]]
    assert outcomes == [("near", "row_1", "PASSED"), ("rows", "row_1", "PASSED"), ("rows", "row_2", "FAILED")]
    assert [case["eval_id"] for case in single_row.data["cases"]] == ["row_2"]
    assert "hush" not in result.out + doctor.out


@pytest.mark.needs_fsspec
def test_addresses_that_differ_in_their_query_are_separate_datasets(workbench: CommandLine) -> None:
    (workbench.root / "home" / "light.evalset.json").unlink()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            answer = "yes" if self.path == "/rows.csv?table=hush_a" else "no"
            self.wfile.write(f"response,reference\n{answer},yes\n".encode())

        def log_message(self, *_: Any) -> None:
            pass

    workbench.write("criteria.json", {"criteria": {"rouge_1": 1}})
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/rows.csv"
        eval_sets = json.dumps([f"{address}?table=hush_a", f"{address}?table=hush_b"])
        settings = f'[targets.stored]\nkind = "recorded"\nconfig = "criteria.json"\neval_sets = {eval_sets}\n'
        workbench.write("workbench.toml", settings)

        result = workbench("run", "--format", "json")
        one = workbench("run", f"{address} (2):row_1", "--format", "json")
        failed = workbench("run", "--failed", "--format", "json")

        server.shutdown()
    assert result.status == 1
    outcomes = [(case["eval_set"], case["status"]) for case in result.data["cases"]]
    assert outcomes == [(address, "PASSED"), (f"{address} (2)", "FAILED")]
    for selection in (one, failed):
        assert [case["eval_set"] for case in selection.data["cases"]] == [f"{address} (2)"]
    assert "hush" not in result.out + result.error + one.out + one.error
    stored_files = [file for file in (workbench.root / ".workbench").iterdir() if file.is_file()]
    assert stored_files and not any(b"hush" in file.read_bytes() for file in stored_files)


def test_columns_that_fit_no_metric_are_reported_with_the_expected_ones(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", '{"prompt": "Hi", "answer": "yes", "gold": "yes"}\n')

    result = workbench("score", "rows.jsonl", "--metrics", "rouge_1=1,exact_match,trajectory_recall")

    assert result.status == 2
    assert result.error.splitlines() == [
        "workbench: rows.jsonl: found the columns answer, gold, prompt, expected response and reference for rouge_1, "
        "exact_match; predicted_trajectory and reference_trajectory for trajectory_recall (map columns with other "
        "names with `--columns reference=NAME`)"
    ]
    workbench.write("criteria.json", {"criteria": {"rouge_1": 1}})
    run = workbench("run", "rows.jsonl", "--config", "criteria.json")  # `run` has no option for columns
    assert run.status == 2
    assert run.error.strip().endswith(
        "expected response and reference for rouge_1 (map columns with other names with "
        '`columns = {reference = "NAME"}` of a recorded target in workbench.toml)'
    )
    mapped = workbench("score", "rows.jsonl", "--metrics", "rouge_1=1", "--columns", "response=answer,reference=gold")
    assert mapped.status == 0


def test_a_judge_needs_no_key_for_rows_without_its_columns(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    rows = [{"prompt": "Hi", "reference": "yes"}, {"prompt": "Hi", "response": "yes"}]
    workbench.write("rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    workbench.write("prompts.jsonl", '{"prompt": "Hi"}\n')

    judged = workbench("score", "rows.jsonl", "--metrics", "final_response_match_v2=0.5", "--format", "json")
    without_responses = workbench("score", "prompts.jsonl", "--metrics", "safety_v1=0.5")

    reasons = [case["metrics"][0]["reason"] for case in judged.data["cases"]]
    assert reasons == ["the row has no response", "the row has no reference"]
    assert without_responses.status == 2
    assert "found the columns prompt, expected response for safety_v1" in without_responses.error


def test_a_metric_is_scored_if_any_row_has_its_columns(workbench: CommandLine) -> None:
    rows = [{"response": "yes"}, {"response": "yes", "reference": "yes"}]
    workbench.write("rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))

    result = workbench("score", "rows.jsonl", "--metrics", "rouge_1=1,trajectory_recall", "--format", "json")

    assert [case["status"] for case in result.data["cases"]] == ["NOT_EVALUATED", "PASSED"]


def test_columns_may_have_other_names(workbench: CommandLine) -> None:
    workbench.write("rows.csv", "question,answer,truth\nq,[a] b,[a] b\n")
    workbench.write(
        "workbench.toml",
        """[targets.stored]\nkind = "recorded"\neval_sets = ["*.csv"]\nconfig = "criteria.json"
columns = {prompt = "question", response = "answer", reference = "truth"}""",
    )
    workbench.write("criteria.json", {"criteria": {"rouge_1": 1.0}})

    columns = "--columns", "response=answer, reference=truth", "--columns=prompt=question"

    assert workbench("score", "rows.csv", "--config", "criteria.json", *columns).status == 0
    assert workbench("run", "stored").status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rows.jsonl", "--columns", "respons=a"], "did you mean 'response'"),
        (["rows.jsonl", "--columns", "response"], "expected COLUMN=NAME, such as response=answer"),
        (["rows.jsonl", "--columns", "response=a,response=b"], "expected response once"),
        (["rows.jsonl", "--columns", "response=a"], "expected 'a', which is mapped to response"),
        (["home/light.evalset.json", "--columns", "response=a"], "is an eval set"),
        (["bq://table"], "expected bq://PROJECT.DATASET.TABLE"),
        (["missing.jsonl"], "missing.jsonl"),
        (["rows.jsonl", "--metric", "trajectory_recal"], "trajectory_recall"),
        (["rows.jsonl", "--metric", "trajectory_recall=high"], "expected a number"),
        (["rows.jsonl", "--metric", "bleu", "--config", "rows.jsonl"], "exclude each other"),
        (["broken.jsonl"], "broken.jsonl:1:"),
        (["workbench.toml"], "not a dataset"),
    ],
)
def test_invalid_arguments_get_one_message(
    workbench: CommandLine, dataset: str, arguments: list[str], message: str
) -> None:
    workbench.write("broken.jsonl", '{"prompt": \n')

    result = workbench("score", *arguments)

    assert result.status == 2
    assert message in result.error
    assert "Traceback" not in result.error


def test_arguments_and_answers_of_every_json_type_are_compared(workbench: CommandLine) -> None:
    def call(tool_input: Any) -> list[dict[str, Any]]:
        return [{"tool_name": "f", "tool_input": tool_input}]

    def openai(arguments: str) -> list[dict[str, Any]]:
        return [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": arguments}}]

    pairs = [
        (call([1, 2]), call([1, 2]), 5, "5"),
        (call([1, 2]), call([2, 1]), 5, "6"),
        (call("a b"), call("a b"), {"x": 1}, {"x": 1}),
        (call(0), call({}), True, "true"),
        (openai('{"x": 1}'), call({"x": 1}), "a", "a"),
        (openai('{"x": 1}'), call({"x": 2}), "a", "b"),
    ]
    names = ("predicted_trajectory", "reference_trajectory", "response", "reference")
    rows = [dict(zip(names, pair, strict=True)) for pair in pairs]
    workbench.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    result = workbench("score", "rows.jsonl", "--metrics", "trajectory_exact_match=0,exact_match=0", "--format", "json")

    cases = json.loads(result.out)["cases"]
    scores = [{metric["name"]: metric["score"] for metric in case["metrics"]} for case in cases]
    assert [row_scores["trajectory_exact_match"] for row_scores in scores] == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    assert [row_scores["exact_match"] for row_scores in scores] == [1.0, 0.0, 1.0, 1.0, 1.0, 0.0]


def test_the_tour_needs_a_terminal_and_makes_no_copy_without_one(
    workbench: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    result = workbench("tour")

    assert result.status == 2
    assert "the tour needs a terminal" in result.error
    assert "workbench demo" in result.error
    assert not (tmp_path / "cache").exists()


def test_the_tour_keeps_its_copy_and_step_until_it_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workbench.cli.score_commands import _tour_folder
    from workbench.store.toml_files import Layouts

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    folder = _tour_folder(restart=False)
    layout = Layouts().load(folder)
    assert layout.tour == "move"
    assert ("hello_world", "") in layout.folded
    (folder / "mine.txt").write_text("kept")
    Layouts().save(folder, layout.model_copy(update={"tour": "watch", "watching": True}))

    assert _tour_folder(restart=False) == folder
    assert (folder / "mine.txt").exists()
    assert Layouts().load(folder).tour == "watch"

    assert _tour_folder(restart=True) == folder
    assert not (folder / "mine.txt").exists()
    assert Layouts().load(folder) == layout
