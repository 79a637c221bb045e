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
    from tests.cli.conftest import CommandLine

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

    done = workbench("score", dataset, *(f"--metric={name}=0.5" for name in names), "--format", "json")

    assert done.status == 1
    metrics = done.data["summary"]["metrics"]
    assert [round(metrics[name]["mean"], 4) for name in names] == [0, 0.25, 0.25]
    assert round(metrics["trajectory_precision"]["std"], 4) == 0.3536


def test_a_dataset_is_named_once_above_its_rows(workbench: CommandLine, dataset: str) -> None:
    done = workbench("score", dataset, "--metric", "trajectory_exact_match=1")
    report = workbench("report", "latest", "--format", "markdown")

    assert done.out.splitlines()[0].rstrip() == "rows.jsonl"
    assert "## rows.jsonl\n" in report.out


def test_a_report_of_rows_that_are_gone_tells_what_they_expected(workbench: CommandLine, dataset: str) -> None:
    workbench("score", dataset, "--metric", "trajectory_exact_match=1")
    workbench.write(dataset, "")

    report = workbench("report", "latest", "--format", "markdown")

    assert r'user\_id: expected "user\_y", got "user\_z"' in report.out


def test_metrics_without_thresholds_are_reported_and_judge_nothing(workbench: CommandLine, dataset: str) -> None:
    done = workbench("score", dataset, "--metric", "trajectory_recall")

    assert done.status == 1
    assert "trajectory_recall  mean 0.25  std 0.3536  (2 of 2 scored)" in done.out
    assert "none has a threshold" in done.out


def test_nobody_knows_how_long_a_row_took_that_does_not_say(workbench: CommandLine) -> None:
    rows = [{"prompt": "a", "response": "b"}, {"prompt": "a", "response": "b", "latency_in_seconds": 0.25}]
    workbench.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    done = workbench("score", "rows.jsonl", "--metrics", "invocation_duration_v1=1", "--format", "json")

    metrics = [case["metrics"][0] for case in done.data["cases"]]
    assert [(metric["score"], metric["status"]) for metric in metrics] == [(None, "UNDEFINED"), (0.25, "PASSED")]


def test_nobody_took_the_time_of_rows_that_are_judged_as_they_stand(workbench: CommandLine, dataset: str) -> None:
    done = workbench("score", dataset, "--metric", "trajectory_exact_match=1")
    report = workbench("report", "latest", "--format", "markdown")

    rows = [line for line in done.out.splitlines() if "FAILED" in line]
    assert len(rows) == 2
    assert all(line.endswith("  -") for line in rows)
    assert [line.rsplit("|", 2)[1].strip() for line in report.out.splitlines() if "FAILED" in line] == ["-", "-"]


def test_nobody_knows_which_calls_a_row_had_that_tells_none(workbench: CommandLine) -> None:
    rows: list[dict[str, Any]] = [
        {"prompt": "a", "response": "x", "reference": "x"},
        {"prompt": "a", "response": "x", "reference": "x", "predicted_trajectory": []},
        {},
    ]
    workbench.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    metrics = "rouge_1=1,trajectory_exact_match,tool_trajectory_avg_score,tool_call_count_v1"

    done = workbench("score", "rows.jsonl", "--metrics", metrics, "--format", "json")
    table = csv.DictReader(workbench("report", "latest", "--format", "csv").out.splitlines())

    cases = done.data["cases"]
    assert [case["turns"][0]["trajectory"] for case in cases] == [None, [], None]
    assert [row["trajectories"] for row in table] == ["[null]", "[[]]", "[null]"]
    assert {metric["status"] for metric in cases[2]["metrics"]} == {"UNDEFINED"}
    assert cases[2]["status"] == "NOT_EVALUATED"


def test_several_metrics_in_one_option(workbench: CommandLine, dataset: str) -> None:
    done = workbench("score", dataset, "--metrics", "trajectory_recall=0.2, trajectory_precision", "--format", "json")

    assert done.status == 1  # the first row shares no call with its reference
    thresholds = {metric["name"]: metric["threshold"] for metric in done.data["cases"][0]["metrics"]}
    assert (thresholds["trajectory_recall"], thresholds["trajectory_precision"]) == (0.2, None)


def test_criteria_may_come_from_a_file(workbench: CommandLine, dataset: str) -> None:
    workbench.write("criteria.json", {"criteria": {"trajectory_recall": 0.0}})

    assert workbench("score", dataset, "--config", "criteria.json").status == 0


def test_recorded_sessions_are_held_against_an_eval_set(workbench: CommandLine) -> None:
    done = workbench(
        "score", "home/light.evalset.json", "--expected", "home/light.evalset.json",
        "--metric", "tool_trajectory_avg_score=1", "--format", "json",
    )  # fmt: skip

    assert done.status == 0
    assert done.data["summary"]["passed"] == 2


def test_a_row_that_cannot_be_read_is_an_error_and_the_others_are_judged(workbench: CommandLine) -> None:
    good = json.dumps(ROWS[0])
    workbench.write("rows.jsonl", f'{good}\n{{"predicted_trajectory": 7}}\n{{"prompt"\n{good}\n')

    done = workbench("score", "rows.jsonl", "--metric", "trajectory_recall=0", "--format", "json")

    assert done.status == 2  # a file is wrong
    assert [case["status"] for case in done.data["cases"]] == ["PASSED", "ERROR", "ERROR", "PASSED"]
    assert [case["error"]["message"] for case in done.data["cases"][1:3]] == [
        "rows.jsonl:2:26: predicted_trajectory: found a number, expected a list of tool calls",
        "rows.jsonl:3:10: is not JSON: Expecting ':' delimiter",
    ]
    assert done.data["summary"]["metrics"]["trajectory_recall"]["scored"] == 2


@pytest.mark.needs_fsspec
def test_what_gives_access_to_an_address_is_kept_nowhere(workbench: CommandLine) -> None:
    folder = workbench.write("web/rows.jsonl", json.dumps(ROWS[0])).parent
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/rows.jsonl?token=hush"

        done = workbench("score", address, "--metric", "trajectory_recall=0", "--format", "json")

        server.shutdown()
    assert done.status == 0
    assert done.data["cases"][0]["target"] == address.partition("?")[0]
    assert "hush" not in done.out
    kept = [file for file in (workbench.root / ".workbench").iterdir() if file.is_file()]
    assert kept and not any(b"hush" in file.read_bytes() for file in kept)


def test_datasets_of_the_same_file_name_are_told_apart(workbench: CommandLine) -> None:
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
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            asked.append(self.path)

    folder = workbench.write("elsewhere/rows.csv", "response,reference\nyes,yes\nyes,no\n").parent
    workbench.write("near.json", {"response": ["yes"], "reference": ["yes"]})
    workbench.write("criteria.json", {"criteria": {"rouge_1": 1}})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/rows.csv"
        eval_sets = json.dumps(["near.json", f"{address}?token=hush"])
        settings = f'[targets.stored]\nkind = "recorded"\nconfig = "criteria.json"\neval_sets = {eval_sets}\n'
        workbench.write("workbench.toml", settings)

        looked = workbench("doctor")
        offline = [
            workbench(*command)
            for command in (
                ("run", "--dry-run"),
                ("run", "--dry-run", "--case", "row_1"),
                ("run", "--dry-run", f"{address}:row_2"),
                ("explain",),
            )
        ]
        assert asked == []
        assert [each.status for each in offline] == [0] * 4
        assert all(f"{address}: not fetched for this; its rows are not listed" in each.error for each in offline)
        done = workbench("run", "stored", "--format", "json")
        named = workbench("run", f"{address}:row_2", "--format", "json")

        server.shutdown()
    assert address in looked.out
    assert "dataset" not in looked.out
    ended = [(case["eval_set_id"], case["eval_id"], case["status"]) for case in done.data["cases"]]
    assert ended == [("near", "row_1", "PASSED"), ("rows", "row_1", "PASSED"), ("rows", "row_2", "FAILED")]
    assert [case["eval_id"] for case in named.data["cases"]] == ["row_2"]
    assert "hush" not in done.out + looked.out


@pytest.mark.needs_fsspec
def test_addresses_that_differ_in_their_query_are_datasets_of_their_own(workbench: CommandLine) -> None:
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
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/rows.csv"
        eval_sets = json.dumps([f"{address}?table=hush_a", f"{address}?table=hush_b"])
        settings = f'[targets.stored]\nkind = "recorded"\nconfig = "criteria.json"\neval_sets = {eval_sets}\n'
        workbench.write("workbench.toml", settings)

        done = workbench("run", "--format", "json")
        one = workbench("run", f"{address} (2):row_1", "--format", "json")
        failed = workbench("run", "--failed", "--format", "json")

        server.shutdown()
    assert done.status == 1
    ended = [(case["eval_set"], case["status"]) for case in done.data["cases"]]
    assert ended == [(address, "PASSED"), (f"{address} (2)", "FAILED")]
    for again in (one, failed):
        assert [case["eval_set"] for case in again.data["cases"]] == [f"{address} (2)"]
    assert "hush" not in done.out + done.error + one.out + one.error
    kept = [file for file in (workbench.root / ".workbench").iterdir() if file.is_file()]
    assert kept and not any(b"hush" in file.read_bytes() for file in kept)


def test_columns_that_fit_none_of_the_metrics_are_named_with_those_that_would(workbench: CommandLine) -> None:
    workbench.write("rows.jsonl", '{"prompt": "Hi", "answer": "yes", "gold": "yes"}\n')

    done = workbench("score", "rows.jsonl", "--metrics", "rouge_1=1,exact_match,trajectory_recall")

    assert done.status == 2
    assert done.error.splitlines() == [
        "workbench: rows.jsonl: found the columns answer, gold, prompt, expected response and reference for rouge_1, "
        "exact_match; predicted_trajectory and reference_trajectory for trajectory_recall (map columns with other "
        "names by `--columns reference=NAME`)"
    ]
    workbench.write("criteria.json", {"criteria": {"rouge_1": 1}})
    run = workbench("run", "rows.jsonl", "--config", "criteria.json")  # which has no such option
    assert run.status == 2
    assert run.error.strip().endswith(
        "expected response and reference for rouge_1 (map columns with other names by "
        '`columns = {reference = "NAME"}` of a recorded target in workbench.toml)'
    )
    named = workbench("score", "rows.jsonl", "--metrics", "rouge_1=1", "--columns", "response=answer,reference=gold")
    assert named.status == 0


def test_a_judge_needs_no_key_for_rows_that_lack_what_it_looks_at(
    workbench: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    rows = [{"prompt": "Hi", "reference": "yes"}, {"prompt": "Hi", "response": "yes"}]
    workbench.write("rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    workbench.write("prompts.jsonl", '{"prompt": "Hi"}\n')

    judged = workbench("score", "rows.jsonl", "--metrics", "final_response_match_v2=0.5", "--format", "json")
    refused = workbench("score", "prompts.jsonl", "--metrics", "safety_v1=0.5")

    reasons = [case["metrics"][0]["reason"] for case in judged.data["cases"]]
    assert reasons == ["the row has no response", "the row has no reference"]
    assert refused.status == 2
    assert "found the columns prompt, expected response for safety_v1" in refused.error


def test_a_metric_that_some_row_has_the_columns_for_is_judged(workbench: CommandLine) -> None:
    rows = [{"response": "yes"}, {"response": "yes", "reference": "yes"}]
    workbench.write("rows.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))

    done = workbench("score", "rows.jsonl", "--metrics", "rouge_1=1,trajectory_recall", "--format", "json")

    assert [case["status"] for case in done.data["cases"]] == ["NOT_EVALUATED", "PASSED"]


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
    ("arguments", "said"),
    [
        (["rows.jsonl", "--columns", "respons=a"], "did you mean 'response'"),
        (["rows.jsonl", "--columns", "response"], "expected COLUMN=NAME, such as response=answer"),
        (["rows.jsonl", "--columns", "response=a,response=b"], "expected response once"),
        (["rows.jsonl", "--columns", "response=a"], "expected 'a', which was named for response"),
        (["home/light.evalset.json", "--columns", "response=a"], "is an eval set"),
        (["bq://table"], "expected bq://PROJECT.DATASET.TABLE"),
        (["missing.jsonl"], "missing.jsonl"),
        (["rows.jsonl", "--metric", "trajectory_recal"], "trajectory_recall"),
        (["rows.jsonl", "--metric", "trajectory_recall=high"], "expected a number"),
        (["rows.jsonl", "--metric", "bleu", "--config", "rows.jsonl"], "exclude each other"),
        (["broken.jsonl"], "broken.jsonl:1:"),
        (["workbench.toml"], "no dataset"),
    ],
)
def test_what_cannot_be_meant_is_one_message(
    workbench: CommandLine, dataset: str, arguments: list[str], said: str
) -> None:
    workbench.write("broken.jsonl", '{"prompt": \n')

    done = workbench("score", *arguments)

    assert done.status == 2
    assert said in done.error
    assert "Traceback" not in done.error


def test_inputs_and_answers_that_are_no_objects_and_no_text_are_compared_all_the_same(workbench: CommandLine) -> None:
    def call(given: Any) -> list[dict[str, Any]]:
        return [{"tool_name": "f", "tool_input": given}]

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

    done = workbench("score", "rows.jsonl", "--metrics", "trajectory_exact_match=0,exact_match=0", "--format", "json")

    cases = json.loads(done.out)["cases"]
    found = [{metric["name"]: metric["score"] for metric in case["metrics"]} for case in cases]
    assert [each["trajectory_exact_match"] for each in found] == [1.0, 0.0, 1.0, 0.0, 1.0, 0.0]
    assert [each["exact_match"] for each in found] == [1.0, 0.0, 1.0, 1.0, 1.0, 0.0]
