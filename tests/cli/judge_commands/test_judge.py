"""`workbench judge`: judges stored answers again and reports the agreement."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cli.conftest import CommandLine
from tests.llm.servers import Call, HttpResponse, Server, gemini, gemini_error, run_server

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
        said = text.split("<agent_answer>\n")[1].split("\n</agent_answer>", maxsplit=1)[0]
        verdict = "invalid" if said.removeprefix("done: ") in self.invalid else "valid"
        return gemini(json.dumps({"reasoning": f"because {verdict}", "verdict": verdict}))


@pytest.fixture
def opinions() -> Opinions:
    return Opinions()


@pytest.fixture
def server(opinions: Opinions, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with run_server(opinions) as started:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", started.url)
        monkeypatch.setenv("GOOGLE_API_KEY", "key")
        yield started


@pytest.fixture
def ran(workbench: CommandLine, server: Server, make_turn: Any) -> CommandLine:
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


def test_a_judgement_that_differs_is_told_with_agreement_kappa_and_flips(
    ran: CommandLine, server: Server, opinions: Opinions
) -> None:
    ran.write("home/agent.py", "raise SystemExit('the agent must not run')")
    asked = len(server.calls)
    opinions.invalid = {"b"}

    done = ran("judge")

    assert done.status == 1
    assert len(server.calls) == asked + 8
    assert f"{METRIC}\n  agreement  75.0% of 4 verdicts\n  kappa      0.00 (Cohen)" in done.out
    assert "flips      1 case\n    home/light.evalset.json:b: PASSED, FAILED" in done.out


def test_judgements_that_agree_end_with_success_and_no_kappa(ran: CommandLine) -> None:
    done = ran("judge", "--repeat", "2", "--format", "json")

    assert done.status == 0
    assert len(done.data["judgements"]) == 3
    (criterion,) = done.data["criteria"]
    assert (criterion["agreement"], criterion["kappa"], criterion["kappa_of"]) == (1.0, None, "fleiss")
    assert criterion["reason"] == "all verdicts are equal, so kappa is undefined"
    assert criterion["flips"] == []


def test_every_judgement_asks_anew_once_and_again_only_where_that_is_wanted(ran: CommandLine, server: Server) -> None:
    first = ran("history", "--format", "json").data["runs"][0]["run_id"]
    asked = len(server.calls)

    ran("judge", first, "--repeat", "2")
    assert len(server.calls) == asked + 16
    ran("judge", first, "--repeat", "2")  # the same opinions, from the cache
    assert len(server.calls) == asked + 16
    ran("judge", first, "--no-cache")
    assert len(server.calls) == asked + 24
    ran("judge", "latest")  # which was the first judgement after the original one: this is the second
    assert len(server.calls) == asked + 24
    ran("judge", "latest")
    assert len(server.calls) == asked + 32


def test_only_the_cases_that_are_named_are_judged_by_the_criteria_that_are_named(
    ran: CommandLine, server: Server
) -> None:
    config = ran.write(
        "strict.json", {"criteria": {METRIC: {"threshold": 1.0, "judge_model_options": {"num_samples": 1}}}}
    )
    asked = len(server.calls)

    done = ran("judge", "--case", "a", "--config", str(config), "--format", "json")

    assert done.status == 0
    assert len(server.calls) == asked + 1
    assert done.data["criteria"][0]["compared"] == 1


def test_a_judge_that_is_out_leaves_verdicts_unjudged_and_ends_with_3(ran: CommandLine, opinions: Opinions) -> None:
    opinions.answer = lambda _: gemini_error(503, "overloaded")

    done = ran("judge", "--format", "json")

    assert done.status == 3
    (criterion,) = done.data["criteria"]
    assert (criterion["compared"], criterion["unjudged"], criterion["agreement"]) == (0, 4, None)
    assert criterion["reason"] == "no verdict was made in every judgement"
    assert criterion["flips"] == []  # an outage is no verdict


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nobody",), "there is no run 'nobody'"),
        (("latest", "--case", "aa"), "has no case 'aa'; did you mean 'a'?"),
        (("latest", "--repeat", "0"), "0 is not in the range"),
    ],
)
def test_what_cannot_be_judged_again_is_said(ran: CommandLine, arguments: tuple[str, ...], message: str) -> None:
    done = ran("judge", *arguments)

    assert done.status == 2
    assert message in done.error


def test_without_runs_or_without_a_judge_there_is_nothing_to_judge(workbench: CommandLine) -> None:
    assert "there are no runs yet" in workbench("judge").error
    workbench("run", "home")

    done = workbench("judge")

    assert done.status == 2
    assert "none of the criteria asks a judge model" in done.error


def test_the_rows_of_a_dataset_are_judged_again_without_the_dataset(
    ran: CommandLine, server: Server, opinions: Opinions
) -> None:
    rows = [{"prompt": name, "response": f"done: {name}", "reference": f"Done: {name}"} for name in ("a", "b")]
    ran.write("rows.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert ran("score", "rows.jsonl", "--config", "home/test_config.json").status == 0
    (ran.root / "rows.jsonl").unlink()
    asked = len(server.calls)
    opinions.invalid = {"b"}

    done = ran("judge", "--format", "json")

    assert done.status == 1, done
    assert len(server.calls) == asked + 4
    (flip,) = done.data["criteria"][0]["flips"]
    assert flip["eval_set"] == "rows.jsonl"
    again = ran("judge", done.data["judgements"][0], "--config", "home/test_config.json")
    assert again.status == 1


def test_a_judge_that_needs_another_column_of_a_dataset_is_refused(ran: CommandLine) -> None:
    own = {"criteria": {"own": 1.0}, "judge_metrics": {"own": {"metric_prompt_template": "{response} in {city}?"}}}
    ran.write("own.json", own)
    ran.write("rows.jsonl", '{"response": "x", "city": "Rome"}\n')
    ran("score", "rows.jsonl", "--config", "own.json")

    done = ran("judge")

    assert done.status == 2
    assert "the unknown variable 'city'" in done.error


def test_a_damaged_set_ends_with_2_though_the_judgements_agree(ran: CommandLine) -> None:
    path = ran.root / "home/light.evalset.json"
    path.write_text(path.read_text().replace('"light",', '"light"', 1))

    done = ran("judge")

    assert done.status == 2
    assert "light.evalset.json:3:3: error" in done.error
    assert "agreement  100.0% of 4 verdicts" in done.out
