"""`workbench judge`: judges stored answers again and reports the agreement."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.llm.servers import Call, HttpResponse, Server, gemini, gemini_error, run_server
from workbench.engine.workspace import Workspace

METRIC = "final_response_match_v2"


class Opinions:
    """A judge with verdicts that a test may change; it counts the prompts."""

    def __init__(self) -> None:
        self.invalid: set[str] = set()
        self.answer: Callable[[Call], HttpResponse] | None = None

    def __call__(self, call: Call) -> HttpResponse:
        if self.answer is not None:
            return self.answer(call)
        text = call.body["contents"][0]["parts"][0]["text"]
        answer_text = text.split("<agent_answer>\n")[1].split("\n</agent_answer>", maxsplit=1)[0]
        verdict = "invalid" if answer_text.removeprefix("done: ") in self.invalid else "valid"
        return gemini(json.dumps({"reasoning": f"because {verdict}", "verdict": verdict}))


@pytest.fixture
def opinions() -> Opinions:
    return Opinions()


@pytest.fixture
def server(opinions: Opinions, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with run_server(opinions) as judge_server:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", judge_server.url)
        monkeypatch.setenv("GOOGLE_API_KEY", "key")
        yield judge_server


@pytest.fixture
def judged_project(workbench: CommandLine, server: Server, make_turn: Any) -> CommandLine:
    """Create a project with four cases, judged once as valid."""
    workbench.write(
        "workbench.toml", '[targets.home]\nkind = "function"\ntarget = "home.agent:answer"\n[judge]\ntries = 1\n'
    )
    criterion = {"threshold": 1.0, "judge_model_options": {"num_samples": 2}}
    workbench.write("home/test_config.json", {"criteria": {METRIC: criterion}})
    workbench.add_set(
        "home/light.evalset.json", {name: [make_turn(f"say {name}", f"done: {name}")] for name in ("a", "b", "c", "d")}
    )
    assert workbench("run", "home").status == 0
    return workbench


def test_a_different_verdict_is_reported_with_agreement_kappa_and_flips(
    judged_project: CommandLine, server: Server, opinions: Opinions
) -> None:
    judged_project.write("home/agent.py", "raise SystemExit('the agent must not run')")
    call_count = len(server.calls)
    opinions.invalid = {"b"}

    result = judged_project("judge")

    assert result.status == 1
    assert len(server.calls) == call_count + 8
    assert f"{METRIC}\n  agreement  75.0% of 4 verdicts\n  kappa      0.00 (Cohen)" in result.out
    assert "flips      1 case\n    home/light.evalset.json:b: PASSED, FAILED" in result.out


def test_equal_judgements_give_exit_status_0_and_no_kappa(judged_project: CommandLine) -> None:
    result = judged_project("judge", "--repeat", "2", "--format", "json")

    assert result.status == 0
    assert len(result.data["judgements"]) == 3
    (criterion,) = result.data["criteria"]
    assert (criterion["agreement"], criterion["kappa"], criterion["kappa_of"]) == (1.0, None, "fleiss")
    assert criterion["reason"] == "all verdicts are equal, so kappa is undefined"
    assert criterion["flips"] == []


def test_each_judgement_calls_the_model_once_unless_the_cache_is_off(
    judged_project: CommandLine, server: Server
) -> None:
    run_id = judged_project("history", "--format", "json").data["runs"][0]["run_id"]
    call_count = len(server.calls)

    judged_project("judge", run_id, "--repeat", "2")
    assert len(server.calls) == call_count + 16
    judged_project("judge", run_id, "--repeat", "2")  # the same opinions, from the cache
    assert len(server.calls) == call_count + 16
    judged_project("judge", run_id, "--no-cache")
    assert len(server.calls) == call_count + 24
    judged_project("judge", "latest")  # latest is the first repeat; the second one is in the cache
    assert len(server.calls) == call_count + 24
    judged_project("judge", "latest")
    assert len(server.calls) == call_count + 32


def test_ctrl_c_while_a_judgement_starts_stops_it(judged_project: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    start = Workspace.start

    def start_interrupted(*args: Any, **kwargs: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return start(*args, **kwargs)

    monkeypatch.setattr(Workspace, "start", start_interrupted)

    result = judged_project("judge", "--repeat", "2")

    assert result.status == 130
    assert "interrupted: stopping; finished results are kept" in result.error
    assert "judgement 2 of 2" not in result.error


def test_only_the_selected_cases_are_judged_by_the_selected_criteria(
    judged_project: CommandLine, server: Server
) -> None:
    config = judged_project.write(
        "strict.json", {"criteria": {METRIC: {"threshold": 1.0, "judge_model_options": {"num_samples": 1}}}}
    )
    call_count = len(server.calls)

    result = judged_project("judge", "--case", "a", "--config", str(config), "--format", "json")

    assert result.status == 0
    assert len(server.calls) == call_count + 1
    assert result.data["criteria"][0]["compared"] == 1


def test_a_judge_outage_leaves_verdicts_unjudged_with_exit_status_3(
    judged_project: CommandLine, opinions: Opinions
) -> None:
    opinions.answer = lambda _: gemini_error(503, "overloaded")

    result = judged_project("judge", "--format", "json")

    assert result.status == 3
    (criterion,) = result.data["criteria"]
    assert (criterion["compared"], criterion["unjudged"], criterion["agreement"]) == (0, 4, None)
    assert criterion["reason"] == "no verdict is in every judgement"
    assert criterion["flips"] == []  # an outage is no verdict


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody",), "there is no run 'nobody'"),
        (("latest", "--case", "aa"), "has no case 'aa'; did you mean 'a'?"),
        (("latest", "--repeat", "0"), "--repeat: found '0', expected a whole number of at least 1"),
    ],
)
def test_an_impossible_selection_gets_one_message(
    judged_project: CommandLine, arguments: tuple[str, ...], message: str
) -> None:
    result = judged_project("judge", *arguments)

    assert result.status == 2
    assert message in result.error


def test_without_runs_or_without_a_judge_there_is_nothing_to_judge(workbench: CommandLine) -> None:
    assert "there are no runs yet" in workbench("judge").error
    workbench("run", "home")

    result = workbench("judge")

    assert result.status == 2
    assert "none of the criteria uses a judge model" in result.error


def test_the_rows_of_a_dataset_are_judged_again_without_the_dataset(
    judged_project: CommandLine, server: Server, opinions: Opinions
) -> None:
    rows = [{"prompt": name, "response": f"done: {name}", "reference": f"Done: {name}"} for name in ("a", "b")]
    judged_project.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert judged_project("score", "rows.jsonl", "--config", "home/test_config.json").status == 0
    (judged_project.root / "rows.jsonl").unlink()
    call_count = len(server.calls)
    opinions.invalid = {"b"}

    result = judged_project("judge", "--format", "json")

    assert result.status == 1, result
    assert len(server.calls) == call_count + 4
    (flip,) = result.data["criteria"][0]["flips"]
    assert flip["eval_set"] == "rows.jsonl"
    second_result = judged_project("judge", result.data["judgements"][0], "--config", "home/test_config.json")
    assert second_result.status == 1


def test_a_judge_that_needs_another_column_of_a_dataset_is_refused(judged_project: CommandLine) -> None:
    own = {"criteria": {"own": 1.0}, "judge_metrics": {"own": {"metric_prompt_template": "{response} in {city}?"}}}
    judged_project.write("own.json", own)
    judged_project.write("rows.jsonl", '{"response": "x", "city": "Rome"}\n')
    judged_project("score", "rows.jsonl", "--config", "own.json")

    result = judged_project("judge")

    assert result.status == 2
    assert "the unknown variable 'city'" in result.error


def test_a_damaged_set_gives_exit_status_2_even_if_judgements_agree(judged_project: CommandLine) -> None:
    path = judged_project.root / "home/light.evalset.json"
    path.write_text(path.read_text().replace('"light",', '"light"', 1))

    result = judged_project("judge")

    assert result.status == 2
    assert "light.evalset.json:3:3: error" in result.error
    assert "agreement  100.0% of 4 verdicts" in result.out
