"""`workbench flaky`: cases whose verdict changed while nothing that they use changed."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine

AGENT = """
import json, urllib.request

def answer(prompt):
    with urllib.request.urlopen("http://127.0.0.1:{port}/") as reply:
        room, response = json.load(reply)
    calls = [{{"tool_name": "find", "tool_input": {{}}}}, {{"tool_name": "set_light", "tool_input": {{"room": room}}}}]
    return {{"response": response, "predicted_trajectory": calls}}
"""
GOOD, BAD = ("hall", "done"), ("attic", "done")


class Service:
    """A server outside of the project, whose replies no dependency shows."""

    def __init__(self) -> None:
        self.replies: list[tuple[str, str]] = []
        self.before_last_reply: Callable[[], object] = lambda: None
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(service.replies.pop(0)).encode()
                if not service.replies:
                    service.before_last_reply()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.close()


Play = Callable[..., None]


@pytest.fixture
def play(workbench: CommandLine, service: Service, make_turn: Callable[..., dict[str, Any]]) -> Play:
    """Run the case, with these replies of the service, one for each repeat."""
    expected = make_turn("light the hall")
    expected["final_response"] = {"role": "model", "parts": [{"text": "done"}]}
    calls = [{"name": "find", "args": {}}, {"name": "set_light", "args": {"room": "hall"}}]
    expected["intermediate_data"] = {"tool_uses": calls}
    workbench.write("home/agent.py", AGENT.format(port=service.port))
    workbench.add_set("home/light.evalset.json", {"off": [expected]})

    def run(*replies: tuple[str, str]) -> None:
        service.replies[:] = replies
        workbench("run", "home", "--runs", str(len(replies)), "--concurrency", "1")
        assert not service.replies

    return run


def test_repeats_and_earlier_runs_that_disagree_are_flaky(workbench: CommandLine, play: Play) -> None:
    play(GOOD)
    play(GOOD, BAD, GOOD)

    result = workbench("flaky")

    assert result.status == 1
    assert result.out.splitlines() == [
        "1 flaky case: the verdict changed, and nothing that the case uses did",
        "",
        "home/light.evalset.json:off: 3 of 4 passed, 75% (95 % 30% to 95%), in 2 runs",
        "  first difference: turn 1, the call of set_light",
        '    passed: set_light({"room": "hall"})',
        '    failed: set_light({"room": "attic"})',
    ]


def test_the_json_has_samples_and_the_first_difference(workbench: CommandLine, play: Play) -> None:
    play(BAD, GOOD)

    (case,) = workbench("flaky", "--format", "json").data["cases"]

    assert (case["eval_id"], case["passed"], case["samples"], case["probability"]) == ("off", 1, 2, 0.5)
    assert len(case["runs"]) == 1
    assert case["divergence"] == {
        "turn": 1,
        "model_call": None,
        "what": "the call of set_light",
        "passed": 'set_light({"room": "hall"})',
        "failed": 'set_light({"room": "attic"})',
    }


def test_a_change_of_the_code_starts_anew(workbench: CommandLine, play: Play, service: Service) -> None:
    play(GOOD)
    workbench.write("home/agent.py", AGENT.format(port=service.port).replace("import json", "import json, os"))
    play(BAD)

    assert workbench("flaky").status == 0

    play(GOOD)
    assert workbench("flaky", "--format", "json").data["cases"][0]["samples"] == 2


def test_a_change_of_the_expectation_ends_it(workbench: CommandLine, play: Play) -> None:
    play(GOOD, BAD)
    text = (workbench.root / "home/light.evalset.json").read_text()
    workbench.write("home/light.evalset.json", text.replace('"hall"', '"attic"'))
    play(BAD)

    result = workbench("flaky")

    assert result.status == 0
    assert result.out.startswith("no flaky case among 1 case with more than one verdict")


def test_only_named_cases_are_listed(workbench: CommandLine, play: Play) -> None:
    play(GOOD, BAD)

    assert workbench("flaky", "home").status == workbench("flaky", "home/light.evalset.json:off").status == 1
    other = workbench("flaky", "home/light.evalset.json:other")
    assert other.status == 2
    assert "no eval case 'other' in the named eval sets" in other.error
    unknown = workbench("flaky", "nowhere")
    assert unknown.status == 2
    assert "nowhere: no such file, folder or target" in unknown.error


def test_equal_executions_that_were_judged_differently_name_the_criteria(
    workbench: CommandLine, play: Play, service: Service
) -> None:
    metric = "import urllib.request, json\n"
    metric += "def judge(instance):\n    return {'score': float(json.load(urllib.request.urlopen(URL))[1])}\n"
    workbench.write("metric.py", f"URL = 'http://127.0.0.1:{service.port}/'\n{metric}")
    config = {"criteria": {"own": 1.0}, "custom_metrics": {"own": {"code_config": {"name": "metric.judge"}}}}
    workbench.write("home/test_config.json", config)
    service.replies[:] = [GOOD, ("", "1"), GOOD, ("", "0")]
    workbench("run", "home", "--runs", "2", "--concurrency", "1")

    (case,) = workbench("flaky", "--format", "json").data["cases"]

    assert case["divergence"] is None
    assert case["judged_differently"] == ["own"]
    assert "the executions are equal; they were judged differently: own" in workbench("flaky").out


def test_without_runs_there_is_one_message(workbench: CommandLine) -> None:
    result = workbench("flaky")

    assert result.status == 2
    assert result.error.rstrip().endswith("there are no runs yet")
    workbench("flaky", "quarantine", OFF, "--until", "2999-01-01")
    assert workbench("flaky").out.splitlines()[1:] == [f"  {OFF}: quarantined until 2999-01-01"]


def test_what_cannot_be_followed_may_have_changed_between_two_runs(
    workbench: CommandLine, play: Play, service: Service
) -> None:
    agent = AGENT.format(port=service.port).replace("import json", "import json, subprocess")
    agent = agent.replace("    calls =", "    subprocess.run(['sh', '-c', 'true'])\n    calls =")
    play(GOOD)
    workbench.write("home/agent.py", agent)

    play(BAD)
    play(GOOD)
    assert workbench("flaky").status == 0

    play(GOOD, BAD)
    (case,) = workbench("flaky", "--format", "json").data["cases"]
    assert (case["passed"], case["samples"]) == (1, 2)


def test_an_edit_during_a_run_is_no_flaky_case(workbench: CommandLine, play: Play, service: Service) -> None:
    """The first repeat runs with other data than the second one."""
    data = workbench.write("home/data.txt", "a")
    agent = AGENT.format(port=service.port).replace("    calls =", f"    open({str(data)!r}).read()\n    calls =")
    workbench.write("home/agent.py", agent)
    service.before_last_reply = lambda: data.write_text("b")

    play(GOOD, BAD)

    assert data.read_text() == "b"
    assert workbench("flaky").status == 0


def test_an_error_after_a_change_ends_it(workbench: CommandLine, play: Play, service: Service) -> None:
    play(GOOD, BAD)
    workbench.write("home/agent.py", AGENT.format(port=service.port) + "\nraise ValueError('broken')\n")
    workbench("run", "home")

    assert workbench("flaky").status == 0


def test_deleted_traces_are_no_difference(workbench: CommandLine, play: Play) -> None:
    play(GOOD, BAD)
    with closing(sqlite3.connect(workbench.root / ".workbench/history.db")) as history:
        history.execute("UPDATE execution SET blob = NULL")
        history.commit()

    (case,) = workbench("flaky", "--format", "json").data["cases"]

    assert (case["divergence"], case["judged_differently"]) == (None, [])
    assert "where they differ is not known" in workbench("flaky").out


def test_a_case_that_the_project_no_longer_has_is_left_out(workbench: CommandLine, play: Play) -> None:
    play(GOOD, BAD)
    (workbench.root / "home/light.evalset.json").unlink()

    result = workbench("flaky")

    assert result.status == 0
    assert "left out: 1 flaky case that the project no longer has" in result.error


def test_cases_left_out_after_an_outage_are_counted(workbench: CommandLine, play: Play) -> None:
    play(GOOD, BAD)
    play(GOOD)
    with closing(sqlite3.connect(workbench.root / ".workbench/history.db")) as history:
        history.execute("UPDATE job SET status = 'ERROR', execution = NULL WHERE id = (SELECT max(id) FROM job)")
        history.commit()

    result = workbench("flaky")

    assert result.status == 0
    assert "left out: 1 case whose last run ended before the agent started" in result.error
    assert "`workbench run --failed` runs them again: home/light.evalset.json:off" in result.error
    assert workbench("flaky", "--format", "json").data["left_out_after_outage"] == 1


def test_values_that_differ_each_time_are_no_first_difference(
    workbench: CommandLine, play: Play, service: Service
) -> None:
    agent = AGENT.format(port=service.port).replace('"find", "tool_input": {}', '"find", "tool_input": {"id": make()}')
    workbench.write("home/agent.py", f"import uuid\n\ndef make():\n    return str(uuid.uuid4())\n{agent}")
    workbench.write("home/test_config.json", {"criteria": {"response_match_score": 0.8}})

    play(GOOD, GOOD, ("attic", "no"), ("attic", "no"))

    (case,) = workbench("flaky", "--format", "json").data["cases"]
    assert case["divergence"]["what"] == "the call of set_light"


# Quarantine

OFF = "home/light.evalset.json:off"


def test_a_quarantined_failure_fails_no_run_and_is_reported_in_all_formats(workbench: CommandLine) -> None:
    before = (workbench.root / "home/light.evalset.json").read_bytes()
    assert workbench("run").status == 1

    done = workbench("flaky", "quarantine", OFF, "--until", "2999-01-01", "--reason", "guesses [red]rooms")

    assert done.status == 0
    assert (workbench.root / "home/light.evalset.json").read_bytes() == before
    result = workbench("run")
    assert result.status == 0
    assert "⊘ QUARANTINED" in result.out
    assert "quarantined until 2999-01-01: guesses [red]rooms" in result.out
    assert "2 cases: 1 passed, 1 quarantined" in result.out
    data = workbench("report").data
    assert (data["summary"]["failed"], data["summary"]["quarantined"]) == (0, 1)
    statuses = {case["eval_id"]: (case["status"], case["quarantine"]) for case in data["cases"]}
    assert statuses["on"] == ("PASSED", None)
    assert statuses["off"] == (
        "FAILED", {"until": "2999-01-01", "reason": "guesses [red]rooms", "is_expired": False}
    )  # fmt: skip
    junit = workbench("report", "--format", "junit").out
    assert 'failures="0" errors="0" skipped="1"' in junit
    assert 'skipped message="quarantined until 2999-01-01' in junit
    assert "quarantined until 2999-01-01: guesses [red]rooms" in workbench("report", "--format", "csv").out
    markdown = workbench("report", "--format", "markdown").out
    assert "| ⊘ QUARANTINED | off |" in markdown
    assert "## Quarantine" in markdown
    assert "quarantined" in workbench("report", "--format", "html").out
    assert workbench("history").out.splitlines()[0].count("1 quarantined") == 1


def test_an_error_in_quarantine_counts(workbench: CommandLine, make_turn: Callable[..., dict[str, Any]]) -> None:
    workbench.add_set("home/light.evalset.json", {"on": [make_turn("light a", room="a")], "off": [make_turn("raise")]})
    workbench("flaky", "quarantine", OFF, "--days", "3")

    result = workbench("run")

    assert result.status == 3
    assert "(an ERROR counts)" in result.out


def test_an_expired_quarantine_counts_again_and_says_so(workbench: CommandLine) -> None:
    entry = {"quarantine": {"off": {"until": "2020-01-01", "reason": "slow"}}}
    workbench.write("home/light.evalset.workbench.json", entry)

    result = workbench("run")

    assert result.status == 1
    assert "its quarantine ended on 2020-01-01, so its verdict counts again: slow" in result.out
    assert workbench("report").data["summary"]["quarantined"] == 0
    assert "ended on 2020-01-01" in workbench("flaky").out


@pytest.mark.parametrize("content", ["{", "[]", '{"quarantine": {"off": {"until": "soon"}}}'])
def test_a_damaged_file_is_one_message_and_never_hides_a_failure(workbench: CommandLine, content: str) -> None:
    workbench.write("home/light.evalset.workbench.json", content)

    result = workbench("run")

    assert result.status == 2
    assert "✗ FAILED         off" in result.out
    assert result.error.count("light.evalset.workbench.json") == 1
    assert "quarantine" in result.error
    listed = workbench("flaky", "list", "--format", "json")
    assert listed.status == 2
    assert "light.evalset.workbench.json" in listed.error
    assert len(listed.data["problems"]) == 1
    refused = workbench("flaky", "quarantine", OFF)
    if "soon" not in content:
        assert refused.status == 2
        assert (workbench.root / "home/light.evalset.workbench.json").read_text() == content


def test_a_quarantine_does_not_move_to_another_row(workbench: CommandLine) -> None:
    settings = (workbench.root / "workbench.toml").read_text()
    workbench.write("workbench.toml", settings + '\n[targets.rows]\nkind = "recorded"\neval_sets = ["rows/*.jsonl"]\n')
    workbench.write("rows/a.jsonl", '{"prompt": "a", "response": "bad", "reference": "good"}\n')
    workbench.write("rows/test_config.json", {"criteria": {"response_match_score": 0.5}})
    workbench.write("rows/a.jsonl.workbench.json", {"quarantine": {"row_1": {"until": "2999-01-01"}}})

    result = workbench("run", "rows")

    assert result.status == 2
    assert "⊘" not in result.out
    assert result.error.count("the number of a row") == 1
    assert "the number of a row" in workbench("flaky").error
    refused = workbench("flaky", "quarantine", "rows/a.jsonl:row_1")
    assert refused.status == 2
    assert "the number of a row" in refused.error
    workbench.write("b.jsonl", '{"eval_id": "b", "prompt": "a", "response": "bad", "reference": "good"}\n')
    refused = workbench("flaky", "quarantine", "b.jsonl:b")
    assert refused.status == 2
    assert "write quarantines of its rows into b.jsonl.workbench.json" in refused.error


def test_a_stored_verdict_counts_by_the_present_quarantine(workbench: CommandLine) -> None:
    assert workbench("run").status == 1
    workbench("flaky", "quarantine", OFF)

    reused = workbench("run", "--affected")
    assert reused.status == 0
    assert workbench("report").data["summary"]["quarantined"] == 1

    workbench("flaky", "release", OFF)
    assert workbench("run", "--affected").status == 1
    assert workbench("report").data["cases"][1]["quarantine"] is None


def test_a_regression_in_quarantine_is_none_for_compare(workbench: CommandLine) -> None:
    agent = (workbench.root / "home/agent.py").read_text()
    workbench.write("home/agent.py", agent.replace('{"room": rest}', '{"room": "bedroom" if rest == "hall" else rest}'))
    workbench("run")
    good = workbench("history", "--format", "json").data["runs"][0]["run_id"]
    workbench.write("home/agent.py", agent)
    workbench("run")
    assert workbench("compare", good).status == 1
    workbench("flaky", "quarantine", OFF)
    workbench("run")

    result = workbench("compare", good, "--format", "json")

    assert result.status == 0
    assert result.data["counts"]["regression"] == 1
    assert [case["in_quarantine"] for case in result.data["cases"] if case["eval_id"] == "off"] == [True]


def test_shards_with_a_quarantine_merge_into_a_run_that_passes(workbench: CommandLine) -> None:
    workbench("flaky", "quarantine", OFF)
    for number in ("1", "2"):
        workbench("run", "--shard", f"{number}/2")
        (workbench.root / ".workbench").rename(workbench.root / f"part{number}")

    merged = workbench("merge", "part1", "part2")

    assert merged.status == 0
    assert "1 passed, 1 quarantined" in merged.out


def test_a_quarantined_case_is_listed_and_fails_no_gate_on_flaky_cases(workbench: CommandLine, play: Play) -> None:
    play(GOOD, BAD)
    assert workbench("flaky").status == 1
    workbench("flaky", "quarantine", OFF, "--until", "2999-01-01")

    result = workbench("flaky")

    assert result.status == 0
    assert "  quarantined until 2999-01-01" in result.out.splitlines()
    data = workbench("flaky", "list", "--format", "json").data
    assert data["cases"][0]["quarantine"]["until"] == "2999-01-01"
    assert [each["case"] for each in data["quarantined"]] == ["off"]


def test_a_quarantine_of_a_case_that_is_gone_is_listed_and_released(workbench: CommandLine) -> None:
    workbench("flaky", "quarantine", OFF)
    workbench.write("home/light.evalset.workbench.json", {"quarantine": {"gone": {"until": "2999-01-01"}}})
    assert "the set does not have these cases in quarantine: gone" in workbench("run").error

    assert "home/light.evalset.json:gone: quarantined until 2999-01-01 (the set has no such case)" in (
        workbench("flaky").out
    )
    assert workbench("flaky", "release", "home/light.evalset.json").status == 0
    again = workbench("flaky", "release", "home/light.evalset.json:gone")
    assert again.status == 2
    assert "was not in quarantine" in again.error


def test_plans_and_explanations_mark_cases_in_quarantine(workbench: CommandLine) -> None:
    entry = {"off": {"until": "2999-01-01", "reason": "guesses"}, "on": {"until": "2020-01-01"}}
    workbench.write("home/light.evalset.workbench.json", {"quarantine": entry})

    lines = workbench("run", "--dry-run").out.splitlines()

    assert lines[lines.index("  off") + 1] == "    quarantined until 2999-01-01: guesses"
    assert "    its quarantine ended on 2020-01-01, so its verdict counts again" in lines
    planned = workbench("run", "--dry-run", "--format", "json").data["cases"]
    assert [case["quarantine"]["is_expired"] for case in planned] == [True, False]
    assert "off: would run\n  quarantined until 2999-01-01: guesses\n" in workbench("explain").out


def test_files_beside_datasets_without_a_target_are_read(workbench: CommandLine) -> None:
    workbench("run")
    workbench.write("rows/b.jsonl", '{"eval_id": "b", "prompt": "a", "response": "bad"}\n')
    entries = {"b": {"until": "2999-01-01"}, "row_2": {"until": "2999-01-01"}}
    workbench.write("rows/b.jsonl.workbench.json", {"quarantine": entries})

    result = workbench("flaky")

    assert result.status == 2
    assert "rows/b.jsonl:b: quarantined until 2999-01-01\n" in result.out
    assert "found the number of a row" in result.error
    assert "found the number of a row" in workbench("doctor").out
    (workbench.root / "rows/b.jsonl").unlink()
    workbench.write("rows/.workbench.json", "{}")
    for command in ("flaky", "doctor"):
        reported = workbench(command)
        assert "b.jsonl or b.jsonl.json does not exist" in reported.out + reported.error


def test_another_case_with_the_same_id_is_not_in_quarantine(
    workbench: CommandLine, make_turn: Callable[..., dict[str, Any]]
) -> None:
    workbench("flaky", "quarantine", OFF)
    assert workbench("run").status == 0
    workbench.add_set("home/light.evalset.json", {"off": [make_turn("light the roof", room="hall")]})

    result = workbench("run")

    assert result.status == 1
    assert "✗ FAILED         off" in result.out
    assert "verdicts of these cases count again, because the user says something else" in result.error
    assert "without effect: the user says something else in this case" in workbench("flaky").out
    (listed,) = workbench("flaky", "--format", "json").data["quarantined"]
    assert (listed["case"], listed["is_missing"], listed["is_changed"]) == ("off", False, True)
    doctor = workbench("doctor")
    assert doctor.status == 2
    assert "`workbench flaky release home/light.evalset.json:off` removes it" in doctor.out
    assert workbench("flaky", "release", "home/light.evalset.json").status == 0
    assert workbench("run").error == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("home/light.evalset.json",), "name the cases to quarantine"),
        (("home/light.evalset.json:onn",), "no eval case 'onn'"),
        ((OFF, "--until", "2020-01-01"), "expected a day from today on"),
        ((OFF, "--until", "tomorrow"), "expected a day from today on"),
        ((OFF, "--until", "2999-01-01", "--days", "3"), "exclude each other"),
        ((OFF, "--days", "0"), "--days"),
        (("nowhere:off",), "no such file, folder or target"),
    ],
)
def test_a_wrong_quarantine_is_refused(workbench: CommandLine, arguments: tuple[str, ...], message: str) -> None:
    result = workbench("flaky", "quarantine", *arguments)

    assert result.status == 2
    assert message in result.error
    assert not (workbench.root / "home/light.evalset.workbench.json").exists()


def test_a_pattern_for_all_json_files_is_no_reason_to_run_the_file_of_quarantines(workbench: CommandLine) -> None:
    workbench.write(
        "workbench.toml", (workbench.root / "workbench.toml").read_text() + 'eval_sets = ["home/l*.json"]\n'
    )
    workbench("flaky", "quarantine", OFF)

    result = workbench("run")

    assert result.status == 0
    assert "2 cases" in result.out


def test_ids_with_colons_and_commas_are_named_by_an_option(
    workbench: CommandLine, make_turn: Callable[..., dict[str, Any]]
) -> None:
    workbench.add_set("home/odd.evalset.json", {"a:b,c": [make_turn("light a", room="b")]})
    odd = ("home/odd.evalset.json", "--case", "a:b,c")

    assert workbench("flaky", "quarantine", *odd).status == 0
    assert workbench("run", *odd).status == 0
    workbench.add_set("home/odd.evalset.json", {})
    assert "`workbench flaky release home/odd.evalset.json --case a:b,c` removes it" in workbench("doctor").out
    assert workbench("flaky", "release", *odd).status == 0
    assert "exclude each other" in workbench("flaky", "release", OFF, "--case", "a:b,c").error


def test_a_target_names_the_sets_that_have_the_case(
    workbench: CommandLine, make_turn: Callable[..., dict[str, Any]]
) -> None:
    workbench.add_set("home/more.evalset.json", {"other": [make_turn("light a", room="a")]})

    assert workbench("flaky", "quarantine", "home:off,other").status == 0

    assert (workbench.root / "home/more.evalset.workbench.json").exists()
    assert workbench("run").status == 0
    assert workbench("flaky", "release", "home:off").status == 0
    assert workbench("run").status == 1
    assert workbench("flaky", "release", "home").status == 0
    assert workbench("flaky", "release", "home").status == 2
