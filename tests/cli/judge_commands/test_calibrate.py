"""`workbench calibrate`: compares a judge with labels in a file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command_line import CommandLine, make_project, turn
from tests.llm.servers import Call, HttpResponse, Server, gemini, run_server

METRIC = "final_response_match_v2"
ROWS = [
    {"eval_id": "a", "label": "pass"},
    {"eval_id": "b", "label": "pass"},
    {"eval_id": "c", "label": "fail", "note": "too long"},
    {"eval_id": "d", "label": "fail"},
]


def give_verdict(call: Call) -> HttpResponse:
    """Return the verdict of the judge: a, b and c are valid; friendly is 5 for a and 2 for the others."""
    text = call.body["contents"][0]["parts"][0]["text"]
    if "<agent_answer>" in text:
        answer = text.split("<agent_answer>\ndone: ")[1][0]
        word = "valid" if answer in "abc" else "invalid"
        return gemini(json.dumps({"reasoning": f"it is {word} [/b]", "verdict": word}))
    answer = text.split("<response>\ndone: ")[1][0]
    return gemini(json.dumps({"explanation": "friendly?", "score": 5 if answer == "a" else 2}))


TONE = {"criteria": {"Tone": "t"}, "rating_rubric": {str(number): "r" for number in range(1, 6)}}


@contextmanager
def serve_judge() -> Iterator[Server]:
    """Start a judge server, and set the environment variables of its clients."""
    with run_server(give_verdict) as judge_server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOOGLE_GEMINI_BASE_URL", judge_server.url)
        patch.setenv("GOOGLE_API_KEY", "key")
        yield judge_server


@pytest.fixture
def server() -> Iterator[Server]:
    with serve_judge() as judge_server:
        yield judge_server


@pytest.fixture(scope="module")
def finished_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a project whose judge calls a, b and c valid and d invalid."""
    options = {"judge_model_options": {"num_samples": 2}}
    config = {
        "criteria": {METRIC: {"threshold": 1.0, **options}, "tone": {"threshold": 3, **options}},
        "judge_metrics": {"tone": TONE},
    }
    cases = {name: [turn(f"say {name}", response=f"done: {name}")] for name in ("a", "b", "c", "d")}
    with serve_judge(), pytest.MonkeyPatch.context() as patch:
        project = make_project(tmp_path_factory.mktemp("calibrate"), patch)
        project.write("home/test_config.json", config)
        project.add_set("home/light.evalset.json", cases)
        project("run", "home")
        return project.root


@pytest.fixture
def project(workbench: CommandLine, server: Server, finished_project: Path) -> CommandLine:
    """Return the same project; it runs once for all tests of this module."""
    shutil.copytree(finished_project, workbench.root, dirs_exist_ok=True)
    return workbench


def to_jsonl(rows: list[dict[str, Any]]) -> str:
    return "\n".join(map(json.dumps, rows))


def test_the_report_has_confusion_precision_recall_kappa_and_disagreements(project: CommandLine) -> None:
    project.write("labels.jsonl", to_jsonl(ROWS))

    result = project("calibrate", "labels.jsonl", "--criterion", METRIC)

    assert result.status == 0
    assert f"{METRIC}: 4 labels" in result.out
    words = [line.split() for line in result.out.splitlines()]
    assert ["people", "/", "judge", "fail", "pass"] in words
    assert ["fail", "1", "1"] in words and ["pass", "0", "2"] in words
    assert "agreement  75.0%" in result.out
    assert "kappa      0.50 (Cohen)" in result.out
    assert "pass       precision 0.67  recall 1.00" in result.out
    assert "fail       precision 1.00  recall 0.50" in result.out
    assert "    home/light.evalset.json:c turn 1: label fail, judge pass (1): it is valid [/b]" in result.out


def test_json_has_the_same_numbers(project: CommandLine) -> None:
    project.write("labels.json", [{**row, "criterion": METRIC} for row in ROWS])

    (criterion,) = project("calibrate", "labels.json", "--format", "json").data["criteria"]

    assert criterion["confusion"] == {"fail": {"fail": 1, "pass": 1}, "pass": {"fail": 0, "pass": 2}}
    assert (criterion["agreement"], criterion["kappa"], criterion["kind"]) == (0.75, 0.5, "verdict")
    assert criterion["classes"]["fail"] == {"precision": 1.0, "recall": 0.5}
    (disagreement,) = criterion["disagreements"]
    assert disagreement.items() >= {"eval_id": "c", "turn": 1, "human": "fail", "judge": "pass", "score": 1.0}.items()


def test_the_kappa_of_ratings_weighs_their_differences(project: CommandLine) -> None:
    project.write("labels.csv", "eval_id,turn,criterion,label\na,1,tone,5\nb,1,tone,3\nc,1,tone,2\nd,,tone,1\n")

    (criterion,) = project("calibrate", "labels.csv", "--format", "json").data["criteria"]

    assert criterion["kind"] == "rating"
    assert criterion["agreement"] == 0.5
    assert criterion["off_by"] == 0.5
    assert criterion["weighted_kappa"] == pytest.approx(1 - (2 / 4) / (62 / 16))
    assert [disagreement["eval_id"] for disagreement in criterion["disagreements"]] == ["b", "d"]


def test_a_judge_without_a_score_leaves_its_label_unjudged(
    project: CommandLine, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = lambda _: gemini("I would rather not say.")
    project("run", "home", "--no-cache")
    project.write("labels.jsonl", to_jsonl(ROWS))

    (criterion,) = project("calibrate", "labels.jsonl", "--criterion", METRIC, "--format", "json").data["criteria"]

    assert (criterion["labels"], len(criterion["unjudged"]), criterion["agreement"]) == (0, 4, None)
    assert criterion["reason"] == "the judge has no score for any label"


def test_verdicts_with_missing_samples_are_marked(project: CommandLine, server: Server) -> None:
    one_verdict = iter([gemini(json.dumps({"verdict": "valid"}))])
    silent = gemini("I would rather not say.")
    server.answer = lambda call: next(one_verdict, silent) if "<agent_answer>" in json.dumps(call.body) else silent
    project("judge", "--case", "d", "--no-cache")
    project.write("labels.jsonl", to_jsonl([{"eval_id": "d", "label": "fail"}]))

    calibration = project("calibrate", "labels.jsonl", "--criterion", METRIC)
    (criterion,) = project("calibrate", "labels.jsonl", "--criterion", METRIC, "--format", "json").data["criteria"]
    judgement = project("judge", "--case", "d")

    assert "label fail, judge pass (1, judged by 1 of 2 samples)" in calibration.out
    for result in (calibration, judgement):
        assert "  samples    1 verdict judged by fewer samples than asked" in result.out
    assert criterion["disagreements"][0]["judged_by"] == {"read": 1, "asked": 2}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"eval_id": "a", "label": "pass"}, {"eval_id": "aa", "label": "pass"}],
         "labels.jsonl:2:13: eval_id: found 'aa', which run"),
        ([{"eval_id": "a", "label": "perhaps"}],
         "labels.jsonl:1:27: label: found 'perhaps', expected a number, or one of"),
        ([{"eval_id": "a", "label": "pass"}, {"eval_id": "b", "label": 3}],
         f"labels.jsonl:2:27: label: found 3, expected pass or fail (also 1 or 0), as {METRIC} gives them"),
        ([{"eval_id": "a", "label": 3}], f"found 3, expected pass or fail (also 1 or 0), as {METRIC} gives them"),
        ([{"eval_id": "a", "label": 0.5}, {"eval_id": "b", "label": 3}], "found 3, expected a rating from 0 to 1"),
        ([{"id": "a", "label": "pass"}], "id: found the unknown column 'id', expected 'eval_id' (did you mean that?)"),
        ([{"eval_id": "a", "verdict": "pass"}], "found the unknown column 'verdict', expected 'label' (did you mean"),
        ([{"eval_id": "a", "said": 1}], "label: found only 'eval_id', 'said', expected 'label'"),
        ([{"eval_id": "a", "label": 1, "criterion": "tone"}],
         f"criterion: found 'tone', expected '{METRIC}', as given by --criterion, or nothing"),
        ([{"eval_id": "a", "label": None}], "label: found nothing, expected a verdict or a rating"),
        ([{"label": "pass"}], "eval_id: found nothing, expected the id of a case"),
        ([{"eval_id": "a", "label": "pass", "turn": 2}], "turn: found 2, expected a number from 1 to 1"),
        ([{"eval_id": "a", "label": "pass", "turn": 0}], "turn: found 0, expected a whole number from 1 on"),
        ([{"eval_id": "a", "label": "pass", "repeat": 2}], "repeat: found 2, expected a number from 1 to 1"),
        ([{"eval_id": "a", "label": "pass", "rubric": "r"}], "rubric: found 'r', expected no rubric"),
        ([{"eval_id": "a", "label": "pass", "eval_set": "x"}], "found 'x', expected one of home/light.evalset.json"),
        ([{"eval_id": "a", "label": "pass", "criterion": "ton"}],
         f"criterion: found 'ton', expected '{METRIC}'"),
        ([{"eval_id": "a", "lable": "pass"}], "found the unknown column 'lable', expected 'label'"),
        ([{"eval_id": "a", "label": 1}, {"eval_id": "a", "label": 0, "turn": 1}],
         "label: found a duplicate of the label in row 1"),
        ([], "labels.jsonl: found no rows, expected rows with eval_id and label"),
    ],
)  # fmt: skip
def test_wrong_labels_are_reported_with_row_found_and_expected_value(
    project: CommandLine, rows: list[dict[str, Any]], message: str
) -> None:
    project.write("labels.jsonl", to_jsonl(rows))

    result = project("calibrate", "labels.jsonl", "--criterion", METRIC)

    assert result.status == 2
    assert message in result.error


def test_wrong_rows_are_listed_and_beyond_ten_only_counted(project: CommandLine) -> None:
    rows = [{"eval_id": name, "label": "pass"} for name in ("a", "x", "b", "y")]
    project.write("labels.jsonl", to_jsonl([*rows, {"eval_id": "c", "label": "perhaps"}]))

    errors = project("calibrate", "labels.jsonl", "--criterion", METRIC).error.splitlines()

    assert [line.split(":")[:3] for line in errors if "labels.jsonl" in line][1:] == [
        ["labels.jsonl", "4", "13"], ["labels.jsonl", "5", "27"],
    ]  # fmt: skip
    assert "workbench: labels.jsonl:2:13: eval_id: found 'x'" in errors[0]

    project.write("labels.csv", "id,label\n" + "a,pass\n" * 3)
    (column_error,) = project("calibrate", "labels.csv", "--criterion", METRIC).error.splitlines()
    assert "found the unknown column 'id', expected 'eval_id'" in column_error

    project.write("labels.csv", "eval_id,label\n" + "a,\n" * 12)
    errors = project("calibrate", "labels.csv", "--criterion", METRIC).error.splitlines()
    assert (len(errors), errors[-1]) == (11, "and 2 more")


def test_a_rating_that_the_judge_cannot_give_is_refused(project: CommandLine) -> None:
    project.write("labels.csv", "eval_id,label\na,5\nb,7\n")

    result = project("calibrate", "labels.csv", "--criterion", "tone")

    assert result.status == 2
    assert "labels.csv:3:1: label: found 7, expected a rating from 1 to 5, the scale of tone" in result.error


def test_a_criterion_that_no_model_judged_is_refused_with_a_suggestion(project: CommandLine) -> None:
    project.write("labels.jsonl", to_jsonl([{"eval_id": "a", "label": "pass", "criterion": "ton"}]))

    result = project("calibrate", "labels.jsonl")

    assert "criterion: found 'ton', which no model judged in run" in result.error
    assert "did you mean 'tone'?" in result.error


def test_one_of_several_criteria_must_be_selected(project: CommandLine) -> None:
    project.write("labels.jsonl", to_jsonl(ROWS))

    result = project("calibrate", "labels.jsonl")

    assert result.status == 2
    assert f"criterion: found nothing, expected one of {METRIC}, tone" in result.error


def test_a_run_without_judges_cannot_be_calibrated(workbench: CommandLine) -> None:
    workbench.write("labels.jsonl", '{"eval_id": "on", "label": 1}')
    assert "there are no runs yet" in workbench("calibrate", "labels.jsonl").error
    workbench("run", "home")

    assert "expected a run with judge models" in workbench("calibrate", "labels.jsonl").error
