"""Judge models on the command line: reported cost, budgets, and answers from files."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator

import pytest

from tests.cli.command_line import CommandLine
from tests.engine.judged import METRIC, SAMPLES, list_agent_prompts, make_judged_folder, serve_judge, verdict
from tests.llm.servers import Answer, HttpResponse, Server, gemini_error
from tests.watch.watched import Folder


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve_judge(monkeypatch) as judge_server:
        yield judge_server


@pytest.fixture
def folder(workbench: CommandLine) -> Folder:
    for path in workbench.root.rglob("*.json"):
        path.unlink()
    return make_judged_folder(workbench.root, good="good", bad="bad")


def test_the_cost_of_judges_is_reported_as_text_and_json(
    workbench: CommandLine, folder: Folder, server: Server
) -> None:
    first = workbench("run")
    models = workbench("run", "--format", "json").data["summary"]["models"]

    assert "model gemini-2.5-flash: 4 calls, 48 tokens, $0.0000" in first.out
    assert models == [
        {
            "model": "gemini-2.5-flash",
            "calls": 0,
            "cached": 4,
            "replayed": 0,
            "failed": 0,
            "input_tokens": 0,
            "output_tokens": 0,
            "calls_without_usage": 0,
            "cost": 0.0,
            "cost_unknown": None,
        }
    ]
    stored_models = workbench("report", "latest", "--format", "json").data["summary"]["models"]
    assert stored_models == models
    assert "model gemini-2.5-flash: 0 calls; 4 answers cached" in workbench("report", "--format", "markdown").out


def make_failing_judge(number: int) -> Answer:
    """Return a judge that answers this many requests and then fails."""
    numbers = itertools.count()
    return lambda call: (
        verdict(call) if next(numbers) < number else HttpResponse({"error": {"message": "down"}}, status=503)
    )


@pytest.mark.usefixtures("folder")
def test_missing_samples_are_reported_and_can_change_the_exit_status(workbench: CommandLine, server: Server) -> None:
    make_judged_folder(workbench.root, good="good")  # two samples; one of them is a quorum
    server.answer = make_failing_judge(1)

    first = workbench("run")
    server.answer = make_failing_judge(1)
    second = workbench("run", "--require-all-samples", "--no-cache")

    assert (first.status, second.status) == (0, 3)
    for result in (first, second, workbench("history", "latest")):
        assert f"samples missing: good: {METRIC}: judged by 1 of 2 samples" in result.out
        assert "1 passed, 1 judged by fewer samples than asked" in result.out
    assert workbench("report", "--format", "json").data["summary"]["partly_judged"] == 1
    assert "1 judged by fewer samples than asked" in workbench("history").out
    assert re.search(r"last verdict: PASSED, .*, judged by fewer samples than asked\n", workbench("explain").out)
    (case,) = workbench("compare", "--format", "json").data["cases"]
    assert [case[side]["partly_judged"] for side in ("before", "after")] == [True, True]
    help_result = workbench("eval", "--help")
    assert "--require-all-samples" in help_result.out


@pytest.mark.usefixtures("folder")
def test_a_run_passes_the_setting_for_all_samples_unless_one_is_missing(workbench: CommandLine, server: Server) -> None:
    make_judged_folder(workbench.root, settings="require_all_samples = true\n", good="good")

    assert workbench("run").status == 0
    server.answer = make_failing_judge(1)
    assert workbench("run", "--no-cache").status == 3


@pytest.mark.usefixtures("folder")
def test_too_few_samples_give_no_verdict(workbench: CommandLine, server: Server) -> None:
    make_judged_folder(workbench.root, settings="quorum = 1.0\n", good="good")
    server.answer = make_failing_judge(1)

    result = workbench("run")

    assert result.status == 3
    assert "not judged: 1 of 2 samples could be read, needs 2" in result.out


def test_a_dry_run_estimates_the_calls_and_cost_of_judges(
    workbench: CommandLine, folder: Folder, server: Server
) -> None:
    before = workbench("run", "--dry-run").out
    workbench("run")
    after = workbench("run", "--dry-run", "--max-model-calls", "3", "--max-model-cost", "0.5").out

    at_most = "judge gemini-2.5-flash: about 4 calls (cached answers cost nothing)"
    assert f"{at_most}, tokens unknown: no earlier run\n" in before
    assert f"{at_most}, about 48 tokens, from earlier runs of 2 of 2 cases, about $0.0000" in after
    assert "at most 3 model calls in total" in after
    assert "at most $0.5 for models" in after


def test_an_unknown_price_is_never_reported_as_zero(workbench: CommandLine, server: Server) -> None:
    make_judged_folder(workbench.root, model="gemini-nobody-knows", good="good")

    result = workbench("run", "set.evalset.json")

    assert result.status == 0
    assert "24 tokens, cost unknown (the price of gemini-nobody-knows is unknown" in result.out


def test_the_settings_can_define_prices(workbench: CommandLine, server: Server) -> None:
    price = '[judge.prices."gemini-nobody-knows"]\ninput = 0.0\noutput = 100_000\n'
    make_judged_folder(workbench.root, model="gemini-nobody-knows", settings=price, good="good")

    assert "2 calls, 24 tokens, $1.00" in workbench("run", "set.evalset.json").out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("outputs = 1", "judge.prices.m.outputs: unknown key, expected one of input, output; did you mean 'output'?"),
        ('output = "free"', "judge.prices.m.output: found 'free', expected a number"),
        ("", "judge.prices.m.output: found nothing, expected a number"),
    ],
)
def test_an_invalid_price_is_refused_with_its_place(
    workbench: CommandLine, server: Server, line: str, message: str
) -> None:
    output = "output = 1\n" if line.startswith("outputs") else ""
    make_judged_folder(workbench.root, settings=f"[judge.prices.m]\ninput = 1\n{output}{line}\n", good="good")

    result = workbench("run", "set.evalset.json")

    assert result.status == 2
    assert message in result.error


def test_an_exhausted_budget_is_an_error_with_its_reason(
    workbench: CommandLine, folder: Folder, server: Server
) -> None:
    result = workbench("run", "--max-model-calls", "3", "--concurrency", "1")

    assert result.status == 3
    assert len(server.calls) == 3
    assert "the budget of 3 model calls is used up" in result.error
    assert "the budget of 3 model calls is used up" in result.out


def test_cases_beyond_the_budget_are_judged_later_without_the_agent(
    workbench: CommandLine, folder: Folder, server: Server
) -> None:
    workbench("run", "--max-model-calls", "0")

    result = workbench("run", "--affected")

    assert (result.status, len(server.calls)) == (1, 2 * SAMPLES)
    assert list_agent_prompts(folder) == ["bad", "good"]


def test_a_replayed_run_calls_no_model_and_gives_the_same_verdicts(
    workbench: CommandLine, folder: Folder, server: Server
) -> None:
    workbench("run")
    recording = workbench("run", "--record-calls", "calls.jsonl", "--format", "json").data
    server.calls.clear()
    (folder.root / ".workbench" / "replies.db").unlink()

    replay = workbench("run", "--replay-calls", "calls.jsonl", "--format", "json").data

    assert server.calls == []
    assert _get_verdicts(replay) == _get_verdicts(recording)
    assert [replay["summary"]["models"][0][key] for key in ("calls", "cached", "replayed")] == [0, 0, 2 * SAMPLES]
    assert (
        f"model gemini-2.5-flash: 0 calls; {2 * SAMPLES} answers replayed"
        in workbench("report", "--format", "markdown").out
    )


def test_a_replay_needs_no_key(
    workbench: CommandLine, folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench("run", "--record-calls", "calls.jsonl")
    monkeypatch.delenv("GOOGLE_API_KEY")

    assert workbench("run", "--replay-calls", "calls.jsonl").status == 1


def test_an_unrecorded_call_is_an_error_that_says_what_to_do(
    workbench: CommandLine, folder: Folder, server: Server
) -> None:
    workbench("run", "--record-calls", "calls.jsonl", "set.evalset.json:good")
    server.calls.clear()

    result = workbench("run", "--replay-calls", "calls.jsonl")

    assert (result.status, server.calls) == (3, [])
    assert "calls.jsonl has no answer of gemini-2.5-flash to this request" in result.out
    assert "record it again (--record calls.jsonl; in pytest --workbench-record)" in result.out


@pytest.mark.parametrize("option", ["--record", "--replay", "--record-calls", "--replay-calls", "--replay-tools"])
def test_a_file_without_recorded_calls_is_refused_before_the_run(
    workbench: CommandLine, folder: Folder, server: Server, option: str
) -> None:
    result = workbench("run", option, "test_config.json")

    assert result.status == 2
    assert "test_config.json:1:1: found another content, expected recorded calls" in result.error
    assert list_agent_prompts(folder) == []


@pytest.mark.parametrize(
    ("record", "replay"),
    [("--record", "--replay"), ("--record-calls", "--replay-calls"), ("--record-calls", "--replay")],
)
def test_recording_and_replaying_exclude_each_other(
    workbench: CommandLine, folder: Folder, server: Server, record: str, replay: str
) -> None:
    (folder.root / "calls.jsonl").touch()

    result = workbench("run", record, "a.jsonl", replay, "calls.jsonl")

    assert result.status == 2
    assert "a replay asks no model" in result.error


def test_one_file_holds_the_calls_of_judges_and_of_tools_by_case(
    workbench: CommandLine, folder: Folder, server: Server
) -> None:
    folder.write(
        "agent.py", "def shout(text):\n    return text.upper()\n\ndef answer(prompt):\n    return shout(prompt)\n"
    )
    settings = (folder.root / "workbench.toml").read_text()
    folder.write("workbench.toml", settings.replace("[targets.sample]", '[targets.sample]\ntools = ["agent:shout"]'))
    everything = ("--record", "all.jsonl", "--record-tools", "all.jsonl")
    recording = workbench("run", *everything, "--format", "json").data
    first = (folder.root / "all.jsonl").read_text()
    heads = [json.loads(line) for line in first.splitlines() if line.startswith('{"format"')]
    server.calls.clear()
    (folder.root / ".workbench" / "replies.db").unlink()
    folder.write(
        "agent.py", "def shout(text):\n    raise SystemExit\n\ndef answer(prompt):\n    return shout(prompt)\n"
    )

    replay = workbench("run", "--replay", "all.jsonl", "--replay-tools", "all.jsonl", "--format", "json").data

    assert server.calls == []
    assert _get_verdicts(replay) == _get_verdicts(recording)
    cases = sorted({head["eval_id"] for head in heads})
    assert [(head["eval_id"], head["part"]) for head in heads] == [
        (name, part) for name in cases for part in ("judges", "tools")
    ]


def test_scoring_can_replay_recorded_judge_calls(workbench: CommandLine, server: Server) -> None:
    workbench.write("rows.jsonl", json.dumps({"prompt": "p", "response": "GOOD", "reference": "good"}) + "\n")
    arguments = ("score", "rows.jsonl", "--metric", "final_response_match_v2=1")
    workbench(*arguments, "--record-calls", "calls.jsonl")
    server.calls.clear()

    result = workbench(*arguments, "--replay-calls", "calls.jsonl")

    assert (result.status, server.calls) == (0, [])


def test_a_refused_key_stops_the_judge_calls_and_resume_judges_the_rest(
    workbench: CommandLine, folder: Folder, server: Server
) -> None:
    folder.cases(**{f"case{number}": f"good {number}" for number in range(9)})
    server.answer = lambda _: gemini_error(403, "no permission")
    first_run = workbench("run")

    assert first_run.status == 3
    assert len(server.calls) <= 8
    assert first_run.error.count("the key was not accepted (403") == 1
    assert "; this run no longer calls gemini-2.5-flash" in first_run.error
    assert "9 cases not judged; continue with `workbench run --resume`" in first_run.error
    assert "final_response_match_v2: could not be computed: gemini-2.5-flash was not called: the key" in first_run.out

    server.answer = verdict
    second_run = workbench("run", "--resume")

    assert second_run.status == 0
    assert "9 cases: 9 passed" in second_run.out
    assert len(list_agent_prompts(folder)) == 9  # no agent runs again
    assert "nothing to resume" in workbench("run", "--resume").error


def test_rows_that_were_not_judged_name_the_command_that_judges_them(workbench: CommandLine, server: Server) -> None:
    workbench.write("rows.jsonl", json.dumps({"prompt": "p", "response": "GOOD", "reference": "good"}) + "\n")
    server.answer = lambda _: gemini_error(403, "no permission")

    result = workbench("score", "rows.jsonl", "--metric", "final_response_match_v2=1")

    expected = (
        "1 case not judged; run `workbench score rows.jsonl --metric final_response_match_v2=1` again to judge them"
    )
    assert expected in result.error


def test_a_missing_key_gets_one_message(
    workbench: CommandLine, folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY")

    result = workbench("run")

    assert result.status == 3
    assert result.error.count("set GOOGLE_API_KEY or GEMINI_API_KEY in the environment or in the agent's .env") == 1
    assert "2 cases not judged" in result.error
    assert "GOOGLE_API_KEY" not in result.out
    assert result.out.count("gemini-2.5-flash was not called: no key") == 2


def test_a_wait_for_the_quota_is_reported(workbench: CommandLine, folder: Folder, server: Server) -> None:
    answers = iter([gemini_error(429, "busy", retry_delay="1.5s")])
    server.answer = lambda call: next(answers, None) or verdict(call)

    result = workbench("run", "set.evalset.json:good")

    assert result.status == 0
    assert "gemini-2.5-flash: waiting 2 s for quota" in result.error


def _get_verdicts(run: dict[str, object]) -> list[object]:
    cases = run["cases"]
    assert isinstance(cases, list)
    return [(case["eval_id"], case["status"], case["metrics"][0]["score"]) for case in cases]
