"""`workbench calibrate`: compares a judge with labels in a file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import CommandLine, make_project, turn
from tests.llm.servers import Call, HttpResponse, Server, gemini, run_server

METRIC = "final_response_match_v2"
ROWS = [
    {"eval_id": "a", "label": "pass"},
    {"eval_id": "b", "label": "pass"},
    {"eval_id": "c", "label": "fail", "note": "too long"},
    {"eval_id": "d", "label": "fail"},
]


def verdict(call: Call) -> HttpResponse:
    """Return the verdict of the judge: a, b and c are valid; friendly is 5 for a and 2 for the others."""
    text = call.body["contents"][0]["parts"][0]["text"]
    if "<agent_answer>" in text:
        said = text.split("<agent_answer>\ndone: ")[1][0]
        word = "valid" if said in "abc" else "invalid"
        return gemini(json.dumps({"reasoning": f"it is {word} [/b]", "verdict": word}))
    said = text.split("<response>\ndone: ")[1][0]
    return gemini(json.dumps({"explanation": "friendly?", "score": 5 if said == "a" else 2}))


TONE = {"criteria": {"Tone": "t"}, "rating_rubric": {str(number): "r" for number in range(1, 6)}}


@contextmanager
def judging() -> Iterator[Server]:
    """Start a judge server, and set the environment variables of its clients."""
    with run_server(verdict) as started, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GOOGLE_GEMINI_BASE_URL", started.url)
        patch.setenv("GOOGLE_API_KEY", "key")
        yield started


@pytest.fixture
def server() -> Iterator[Server]:
    with judging() as started:
        yield started


@pytest.fixture(scope="module")
def project_that_ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a project whose judge calls a, b and c valid and d invalid."""
    options = {"judge_model_options": {"num_samples": 2}}
    config = {
        "criteria": {METRIC: {"threshold": 1.0, **options}, "tone": {"threshold": 3, **options}},
        "judge_metrics": {"tone": TONE},
    }
    cases = {name: [turn(f"say {name}", response=f"done: {name}")] for name in ("a", "b", "c", "d")}
    with judging(), pytest.MonkeyPatch.context() as patch:
        made = make_project(tmp_path_factory.mktemp("calibrate"), patch)
        made.write("home/test_config.json", config)
        made.add_set("home/light.evalset.json", cases)
        made("run", "home")
        return made.root


@pytest.fixture
def ran(workbench: CommandLine, server: Server, project_that_ran: Path) -> CommandLine:
    """Return the same project; it runs once for all tests of this module."""
    shutil.copytree(project_that_ran, workbench.root, dirs_exist_ok=True)
    return workbench


def as_lines(rows: list[dict[str, Any]]) -> str:
    return "\n".join(map(json.dumps, rows))


def test_confusion_precision_recall_kappa_and_disagreements_are_told(ran: CommandLine) -> None:
    ran.write("labels.jsonl", as_lines(ROWS))

    done = ran("calibrate", "labels.jsonl", "--criterion", METRIC)

    assert done.status == 0
    assert f"{METRIC}: 4 labels" in done.out
    words = [line.split() for line in done.out.splitlines()]
    assert ["people", "/", "judge", "fail", "pass"] in words
    assert ["fail", "1", "1"] in words and ["pass", "0", "2"] in words
    assert "agreement  75.0%" in done.out
    assert "kappa      0.50 (Cohen)" in done.out
    assert "pass       precision 0.67  recall 1.00" in done.out
    assert "fail       precision 1.00  recall 0.50" in done.out
    assert "    home/light.evalset.json:c turn 1: people say fail, the judge pass (1): it is valid [/b]" in done.out


def test_json_has_the_same_numbers(ran: CommandLine) -> None:
    ran.write("labels.json", [{**row, "criterion": METRIC} for row in ROWS])

    (criterion,) = ran("calibrate", "labels.json", "--format", "json").data["criteria"]

    assert criterion["confusion"] == {"fail": {"fail": 1, "pass": 1}, "pass": {"fail": 0, "pass": 2}}
    assert (criterion["agreement"], criterion["kappa"], criterion["kind"]) == (0.75, 0.5, "verdict")
    assert criterion["classes"]["fail"] == {"precision": 1.0, "recall": 0.5}
    (differing,) = criterion["disagreements"]
    assert differing.items() >= {"eval_id": "c", "turn": 1, "human": "fail", "judge": "pass", "score": 1.0}.items()


def test_ratings_are_compared_as_ratings_and_differences_weigh(ran: CommandLine) -> None:
    ran.write("labels.csv", "eval_id,turn,criterion,label\na,1,tone,5\nb,1,tone,3\nc,1,tone,2\nd,,tone,1\n")

    (criterion,) = ran("calibrate", "labels.csv", "--format", "json").data["criteria"]

    assert criterion["kind"] == "rating"
    assert criterion["agreement"] == 0.5
    assert criterion["off_by"] == 0.5
    assert criterion["weighted_kappa"] == pytest.approx(1 - (2 / 4) / (62 / 16))
    assert [each["eval_id"] for each in criterion["disagreements"]] == ["b", "d"]


def test_a_judge_without_a_score_leaves_its_label_unjudged(
    ran: CommandLine, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = lambda _: gemini("I would rather not say.")
    ran("run", "home", "--no-cache")
    ran.write("labels.jsonl", as_lines(ROWS))

    (criterion,) = ran("calibrate", "labels.jsonl", "--criterion", METRIC, "--format", "json").data["criteria"]

    assert (criterion["labels"], len(criterion["unjudged"]), criterion["agreement"]) == (0, 4, None)
    assert criterion["reason"] == "the judge has no score of any label"


def test_verdicts_that_lack_samples_are_marked(ran: CommandLine, server: Server) -> None:
    once = iter([gemini(json.dumps({"verdict": "valid"}))])
    silent = gemini("I would rather not say.")
    server.answer = lambda call: next(once, silent) if "<agent_answer>" in json.dumps(call.body) else silent
    ran("judge", "--case", "d", "--no-cache")
    ran.write("labels.jsonl", as_lines([{"eval_id": "d", "label": "fail"}]))

    told = ran("calibrate", "labels.jsonl", "--criterion", METRIC)
    (criterion,) = ran("calibrate", "labels.jsonl", "--criterion", METRIC, "--format", "json").data["criteria"]
    judged = ran("judge", "--case", "d")

    assert "people say fail, the judge pass (1, judged by 1 of 2 samples)" in told.out
    for done in (told, judged):
        assert "  samples    1 verdict judged by fewer samples than asked" in done.out
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
         f"criterion: found 'tone', expected '{METRIC}', which --criterion says, or none"),
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
def test_what_is_wrong_with_labels_is_told_with_row_found_and_expected(
    ran: CommandLine, rows: list[dict[str, Any]], message: str
) -> None:
    ran.write("labels.jsonl", as_lines(rows))

    done = ran("calibrate", "labels.jsonl", "--criterion", METRIC)

    assert done.status == 2
    assert message in done.error


def test_every_row_that_is_wrong_is_told_and_of_many_how_many_more(ran: CommandLine) -> None:
    rows = [{"eval_id": name, "label": "pass"} for name in ("a", "x", "b", "y")]
    ran.write("labels.jsonl", as_lines([*rows, {"eval_id": "c", "label": "perhaps"}]))

    told = ran("calibrate", "labels.jsonl", "--criterion", METRIC).error.splitlines()

    assert [line.split(":")[:3] for line in told if "labels.jsonl" in line][1:] == [
        ["labels.jsonl", "4", "13"], ["labels.jsonl", "5", "27"],
    ]  # fmt: skip
    assert "workbench: labels.jsonl:2:13: eval_id: found 'x'" in told[0]

    ran.write("labels.csv", "id,label\n" + "a,pass\n" * 3)
    (told_once,) = ran("calibrate", "labels.csv", "--criterion", METRIC).error.splitlines()
    assert "found the unknown column 'id', expected 'eval_id'" in told_once

    ran.write("labels.csv", "eval_id,label\n" + "a,\n" * 12)
    told = ran("calibrate", "labels.csv", "--criterion", METRIC).error.splitlines()
    assert (len(told), told[-1]) == (11, "and 2 more")


def test_a_rating_that_the_judge_cannot_give_is_refused(ran: CommandLine) -> None:
    ran.write("labels.csv", "eval_id,label\na,5\nb,7\n")

    done = ran("calibrate", "labels.csv", "--criterion", "tone")

    assert done.status == 2
    assert "labels.csv:3:1: label: found 7, expected a rating from 1 to 5, as tone gives them" in done.error


def test_a_criterion_that_no_model_judged_by_is_told_with_those_that_one_did(ran: CommandLine) -> None:
    ran.write("labels.jsonl", as_lines([{"eval_id": "a", "label": "pass", "criterion": "ton"}]))

    done = ran("calibrate", "labels.jsonl")

    assert "criterion: found 'ton', by which no model judged in run" in done.error
    assert "did you mean 'tone'?" in done.error


def test_of_several_criteria_one_must_be_named(ran: CommandLine) -> None:
    ran.write("labels.jsonl", as_lines(ROWS))

    done = ran("calibrate", "labels.jsonl")

    assert done.status == 2
    assert f"criterion: found nothing, expected one of {METRIC}, tone" in done.error


def test_a_run_without_judges_cannot_be_calibrated(workbench: CommandLine) -> None:
    workbench.write("labels.jsonl", '{"eval_id": "on", "label": 1}')
    assert "there are no runs yet" in workbench("calibrate", "labels.jsonl").error
    workbench("run", "home")

    assert "expected run" in workbench("calibrate", "labels.jsonl").error
