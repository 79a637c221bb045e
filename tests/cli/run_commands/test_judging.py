"""Judge models on the command line: reported cost, budgets, and answers from files."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator

import pytest

from tests.cli.conftest import CommandLine
from tests.engine.judged import METRIC, SAMPLES, list_agent_prompts, make_judged_folder, serve_judge, verdict
from tests.llm.servers import Answer, HttpResponse, Server, gemini_error
from tests.watch.watched import Folder


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with serve_judge(monkeypatch) as started:
        yield started


@pytest.fixture
def folder(workbench: CommandLine) -> Folder:
    for each in workbench.root.rglob("*.json"):
        each.unlink()
    return make_judged_folder(workbench.root, good="good", bad="bad")


def test_what_judges_took_is_said_and_told_as_json(workbench: CommandLine, folder: Folder, server: Server) -> None:
    first = workbench("run")
    again = workbench("run", "--format", "json").data["summary"]["models"]

    assert "model gemini-2.5-flash: 4 calls, 48 tokens, $0.0000" in first.out
    assert again == [
        {
            "model": "gemini-2.5-flash",
            "calls": 0,
            "cached": 4,
            "failed": 0,
            "input_tokens": 0,
            "output_tokens": 0,
            "calls_without_usage": 0,
            "cost": 0.0,
            "cost_unknown": None,
        }
    ]
    stored = workbench("report", "latest", "--format", "json").data["summary"]["models"]
    assert stored == again
    assert "model gemini-2.5-flash: 0 calls, 4 known from before" in workbench("report", "--format", "markdown").out


def fail_after(number: int) -> Answer:
    """Return a judge that answers this many requests and then fails."""
    numbers = itertools.count()
    return lambda call: (
        verdict(call) if next(numbers) < number else HttpResponse({"error": {"message": "down"}}, status=503)
    )


@pytest.mark.usefixtures("folder")
def test_missing_samples_are_said_and_may_end_in_another_status(workbench: CommandLine, server: Server) -> None:
    make_judged_folder(workbench.root, good="good")  # two samples; one of them is a quorum
    server.answer = fail_after(1)

    first = workbench("run")
    server.answer = fail_after(1)
    second = workbench("run", "--require-all-samples", "--no-cache")

    assert (first.status, second.status) == (0, 3)
    for done in (first, second, workbench("history", "latest")):
        assert f"samples missing: good: {METRIC}: judged by 1 of 2 samples" in done.out
        assert "1 passed, 1 judged by fewer samples than asked" in done.out
    assert workbench("report", "--format", "json").data["summary"]["partly_judged"] == 1
    assert "1 judged by fewer samples than asked" in workbench("history").out
    assert re.search(r"last verdict: PASSED, .*, judged by fewer samples than asked\n", workbench("explain").out)
    (compared,) = workbench("compare", "--format", "json").data["cases"]
    assert [compared[side]["partly_judged"] for side in ("before", "after")] == [True, True]
    detailed = workbench("eval", "--help")
    assert "--require-all-samples" in detailed.out


@pytest.mark.usefixtures("folder")
def test_a_run_with_all_samples_passes_the_gate(workbench: CommandLine, server: Server) -> None:
    make_judged_folder(workbench.root, settings="require_all_samples = true\n", good="good")

    assert workbench("run").status == 0
    server.answer = fail_after(1)
    assert workbench("run", "--no-cache").status == 3


@pytest.mark.usefixtures("folder")
def test_too_few_samples_are_no_verdict(workbench: CommandLine, server: Server) -> None:
    make_judged_folder(workbench.root, settings="quorum = 1.0\n", good="good")
    server.answer = fail_after(1)

    done = workbench("run")

    assert done.status == 3
    assert "not judged: 1 of 2 samples could be read, needs 2" in done.out


def test_a_dry_run_says_what_judges_will_be_asked(workbench: CommandLine, folder: Folder, server: Server) -> None:
    before = workbench("run", "--dry-run").out
    workbench("run")
    after = workbench("run", "--dry-run", "--max-model-calls", "3", "--max-model-cost", "0.5").out

    at_most = "judge gemini-2.5-flash: about 4 calls (cached answers cost nothing)"
    assert f"{at_most}, tokens unknown: there is no earlier run\n" in before
    assert f"{at_most}, about 48 tokens, from earlier runs of 2 of 2 cases, about $0.0000" in after
    assert "at most 3 model calls in all" in after
    assert "at most $0.5 for models" in after


def test_a_price_that_nobody_knows_is_never_nothing(workbench: CommandLine, server: Server) -> None:
    make_judged_folder(workbench.root, model="gemini-nobody-knows", good="good")

    done = workbench("run", "set.evalset.json")

    assert done.status == 0
    assert "24 tokens, cost unknown (the price of gemini-nobody-knows is not known" in done.out


def test_prices_are_settings(workbench: CommandLine, server: Server) -> None:
    price = '[judge.prices."gemini-nobody-knows"]\ninput = 0.0\noutput = 100_000\n'
    make_judged_folder(workbench.root, model="gemini-nobody-knows", settings=price, good="good")

    assert "2 calls, 24 tokens, $1.00" in workbench("run", "set.evalset.json").out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("outputs = 1", "judge.prices.m.outputs: unknown key, expected one of input, output; did you mean 'output'?"),
        ('output = "free"', "judge.prices.m.output: found 'free', expected a number"),
        ("", "judge.prices.m.output: found nothing, expected a number"),
    ],
)
def test_a_price_that_is_none_is_refused_with_its_place(
    workbench: CommandLine, server: Server, line: str, said: str
) -> None:
    output = "output = 1\n" if line.startswith("outputs") else ""
    make_judged_folder(workbench.root, settings=f"[judge.prices.m]\ninput = 1\n{output}{line}\n", good="good")

    done = workbench("run", "set.evalset.json")

    assert done.status == 2
    assert said in done.error


def test_a_budget_that_is_used_up_is_an_error_that_says_so(
    workbench: CommandLine, folder: Folder, server: Server
) -> None:
    done = workbench("run", "--max-model-calls", "3", "--concurrency", "1")

    assert done.status == 3
    assert len(server.calls) == 3
    assert "the budget of 3 model calls is used up" in done.error
    assert "the budget of 3 model calls is used up" in done.out


def test_what_a_budget_left_out_is_judged_later_and_its_agent_does_not_run_again(
    workbench: CommandLine, folder: Folder, server: Server
) -> None:
    workbench("run", "--max-model-calls", "0")

    done = workbench("run", "--affected")

    assert (done.status, len(server.calls)) == (1, 2 * SAMPLES)
    assert list_agent_prompts(folder) == ["bad", "good"]


def test_a_replayed_run_asks_nobody_and_says_the_same(workbench: CommandLine, folder: Folder, server: Server) -> None:
    workbench("run")
    recorded = workbench("run", "--record-calls", "calls.jsonl", "--format", "json").data
    server.calls.clear()
    (folder.root / ".workbench" / "replies.db").unlink()

    replayed = workbench("run", "--replay-calls", "calls.jsonl", "--format", "json").data

    assert server.calls == []
    assert _verdicts(replayed) == _verdicts(recorded)
    assert replayed["summary"]["models"][0]["cached"] == 2 * SAMPLES


def test_a_replay_needs_no_key(
    workbench: CommandLine, folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    workbench("run", "--record-calls", "calls.jsonl")
    monkeypatch.delenv("GOOGLE_API_KEY")

    assert workbench("run", "--replay-calls", "calls.jsonl").status == 1


def test_a_call_that_was_not_recorded_is_an_error_that_says_what_to_do(
    workbench: CommandLine, folder: Folder, server: Server
) -> None:
    workbench("run", "--record-calls", "calls.jsonl", "set.evalset.json:good")
    server.calls.clear()

    done = workbench("run", "--replay-calls", "calls.jsonl")

    assert (done.status, server.calls) == (3, [])
    assert "calls.jsonl has no answer of gemini-2.5-flash to this request" in done.out
    assert "record it again (--record-calls calls.jsonl; in pytest --workbench-record)" in done.out


@pytest.mark.parametrize("option", ["--record-calls", "--replay-calls"])
def test_a_file_that_holds_no_calls_is_refused_before_anything_runs(
    workbench: CommandLine, folder: Folder, server: Server, option: str
) -> None:
    done = workbench("run", option, "test_config.json")

    assert done.status == 2
    assert (
        "test_config.json:1:" in done.error
        and "expected the format of a recorded call (workbench-calls-1)" in done.error
    )
    assert list_agent_prompts(folder) == []


def test_recording_and_replaying_exclude_each_other(workbench: CommandLine, folder: Folder, server: Server) -> None:
    (folder.root / "calls.jsonl").touch()

    done = workbench("run", "--record-calls", "a.jsonl", "--replay-calls", "calls.jsonl")

    assert done.status == 2
    assert "exclude each other" in done.error


def test_recorded_sessions_are_judged_from_a_file_too(workbench: CommandLine, server: Server) -> None:
    workbench.write("rows.jsonl", json.dumps({"prompt": "p", "response": "GOOD", "reference": "good"}) + "\n")
    arguments = ("score", "rows.jsonl", "--metric", "final_response_match_v2=1")
    workbench(*arguments, "--record-calls", "calls.jsonl")
    server.calls.clear()

    done = workbench(*arguments, "--replay-calls", "calls.jsonl")

    assert (done.status, server.calls) == (0, [])


def test_a_key_that_is_refused_ends_the_asking_once_and_resuming_judges_the_rest(
    workbench: CommandLine, folder: Folder, server: Server
) -> None:
    folder.cases(**{f"case{number}": f"good {number}" for number in range(9)})
    server.answer = lambda _: gemini_error(403, "no permission")
    refused = workbench("run")

    assert refused.status == 3
    assert len(server.calls) <= 8
    assert refused.error.count("the key was not accepted (403") == 1
    assert "; this run no longer asks gemini-2.5-flash" in refused.error
    assert "9 cases not judged; continue with `workbench run --resume`" in refused.error
    assert "final_response_match_v2: could not be computed: gemini-2.5-flash was not asked: the key" in refused.out

    server.answer = verdict
    resumed = workbench("run", "--resume")

    assert resumed.status == 0
    assert "9 cases: 9 passed" in resumed.out
    assert len(list_agent_prompts(folder)) == 9  # no agent runs again
    assert "nothing to resume" in workbench("run", "--resume").error


def test_a_missing_key_is_one_message(
    workbench: CommandLine, folder: Folder, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOOGLE_API_KEY")

    done = workbench("run")

    assert done.status == 3
    assert done.error.count("set GOOGLE_API_KEY or GEMINI_API_KEY in the environment or in the agent's .env") == 1
    assert "2 cases not judged" in done.error
    assert "GOOGLE_API_KEY" not in done.out
    assert done.out.count("gemini-2.5-flash was not asked: no key") == 2


def test_a_wait_for_the_quota_is_said(workbench: CommandLine, folder: Folder, server: Server) -> None:
    answers = iter([gemini_error(429, "busy", retry_delay="1.5s")])
    server.answer = lambda call: next(answers, None) or verdict(call)

    done = workbench("run", "set.evalset.json:good")

    assert done.status == 0
    assert "gemini-2.5-flash: waiting 2 s for quota" in done.error


def _verdicts(run: dict[str, object]) -> list[object]:
    cases = run["cases"]
    assert isinstance(cases, list)
    return [(case["eval_id"], case["status"], case["metrics"][0]["score"]) for case in cases]
