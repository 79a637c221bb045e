"""`workbench shrink` and `workbench why`: what they print, what they keep, and their exit statuses."""

from __future__ import annotations

import io
import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command_line import turn
from tests.engine.varied import ADK, LIGHTS, light, make_conversation, reply
from tests.llm.servers import run_server
from workbench.cli import cause_commands
from workbench.engine.shrinking import format_numbers

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine

SET = "home/evening.evalset.json"


@pytest.fixture
def evening(workbench: CommandLine) -> CommandLine:
    """Add a case whose 9th turn fails because of the 3rd, and one that passes."""
    workbench.write("home/agent.py", LIGHTS)
    workbench.add_set(SET, {"day": make_conversation(), "good": [light("light", "hall")]})
    return workbench


def read_ids(workbench: CommandLine, name: str = SET) -> list[str]:
    return [case["eval_id"] for case in json.loads((workbench.root / name).read_text())["eval_cases"]]


def test_shrink_prints_each_smaller_case_and_keeps_the_smallest(evening: CommandLine) -> None:
    result = evening("shrink", f"{SET}:day", "--write")

    assert (result.status, result.error) == (0, "")
    lines = result.out.splitlines()
    assert lines[:2] == ["   1  the case itself: same failure", "   2  turns: 12 -> 9"]
    closing = lines[lines.index("") + 1 :]
    assert closing == [
        f"{SET}:day fails:",
        '  tool_trajectory_avg_score: argument changed set_light room, expected "hall"',
        "  turns            12 -> 2  (3, 9)",
        "  sentences        12 -> 2",
        "  state keys        0 -> 0",
        "  expected calls    1 -> 1",
        closing[6],
        f"kept as day-small in {SET}",
    ]
    assert closing[6].endswith(" executions of 100")
    assert read_ids(evening) == ["day", "day-small", "good"]
    assert evening("run", f"{SET}:day-small").status == 1


def test_an_agent_that_breaks_during_the_search_stops_it(evening: CommandLine) -> None:
    breaks = (
        'if len(Path(__file__).with_name("sessions.txt").read_text()) > 3:\n        raise ValueError("no [/b] disk")'
    )
    evening.write("home/agent.py", LIGHTS.replace('if "away"', f'{breaks}\n    if "away"'))

    result = evening("shrink", f"{SET}:day", "--write")

    assert result.status == 3
    assert "7 executions of 100" in result.out
    assert "not tried to the end (the smallest case ends in ERROR now, too): turns" in result.out
    assert "which it did not before: " in result.error
    assert "no [/b] disk" in result.error
    assert read_ids(evening) == ["day", "day-small", "good"]


def test_a_smaller_case_is_printed_if_its_set_was_renamed_during_the_search(evening: CommandLine) -> None:
    place = 'Path(__file__).with_name("evening.evalset.json")'
    renames = f'if {place}.exists():\n        {place}.rename({place}.with_name("new.evalset.json"))'
    evening.write("home/agent.py", LIGHTS.replace('if "away"', f'{renames}\n    if "away"'))

    result = evening("shrink", f"{SET}:day", "--budget", "6", "--write")

    assert result.status == 2
    assert result.error.endswith(f"{SET}: cannot read it: there is no such file or folder\n")
    case = json.loads(result.out.partition("in no file:\n")[2].rpartition("}")[0] + "}")
    assert 2 <= len(case["conversation"]) < 12
    assert result.out.endswith("nothing was kept; --write keeps it as a new case\n")


def test_the_kept_case_of_a_smallest_case_is_nothing(evening: CommandLine) -> None:
    evening("shrink", f"{SET}:day", "--write")

    result = evening("shrink", f"{SET}:day-small")

    assert result.status == 0
    assert result.out.splitlines()[-1] == "nothing can be left out; nothing was kept"
    assert read_ids(evening) == ["day", "day-small", "good"]


def test_json_has_the_failure_the_sizes_and_every_step(evening: CommandLine) -> None:
    before = (evening.root / SET).read_bytes()

    result = evening("shrink", f"{SET}:day", "--format", "json", "--budget", "60")

    data = result.data
    steps = data.pop("steps")
    case = data.pop("case")
    executions = data.pop("executions")
    assert data == {
        "schema_version": 2, "target": "home", "eval_set": SET, "eval_id": "day", "occurrence": 0, "outcome": "same",
        "failure": [{"criterion": "tool_trajectory_avg_score", "kind": "argument_changed", "tool": "set_light",
                     "name": "room", "expected": '"hall"'}],
        "before": {"turns": 12, "sentences": 12, "state": 0, "calls": 1},
        "after": {"turns": 2, "sentences": 2, "state": 0, "calls": 1},
        "turns": [3, 9], "budget": 60, "repeats": 1, "untried": [], "interrupted": False, "kept_as": None,
            "changed_files": [],
    }  # fmt: skip
    assert [len(turn["user_content"]["parts"]) for turn in case["conversation"]] == [1, 1]
    assert executions == len(steps) == steps[-1]["executions"] <= 60
    assert steps[0] == {**steps[0], "part": None, "outcome": "same", "executions": 1, "sizes": data["before"]}
    assert {step["part"] for step in steps[1:]} == {"turns", "calls"}
    assert (evening.root / SET).read_bytes() == before


def test_without_a_terminal_nothing_is_kept_unless_it_is_told(evening: CommandLine) -> None:
    before = (evening.root / SET).read_bytes()

    result = evening("shrink", f"{SET}:day")

    assert result.out.splitlines()[-1] == "nothing was kept; --write keeps it as a new case"
    assert (evening.root / SET).read_bytes() == before


def test_in_a_terminal_the_user_is_asked_and_may_refuse(evening: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cause_commands, "is_interactive", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO("n\ny\n"))

    refused = evening("shrink", f"{SET}:day")
    ids = read_ids(evening)
    agreed = evening("shrink", f"{SET}:day")

    assert f"Keep the smaller case in {SET}?" in refused.error
    assert refused.out.splitlines()[-1] == "nothing was kept; --write keeps it as a new case"
    assert ids == ["day", "good"]
    assert agreed.out.splitlines()[-1] == f"kept as day-small in {SET}"
    assert read_ids(evening) == ["day", "day-small", "good"]


def read_documented_keys(command: str) -> set[str]:
    page = Path(__file__).parents[3] / "docs" / "formats.md"
    section = page.read_text("utf-8").split(f"\n## The JSON of `{command}`\n")[1].split("\n## ")[0]
    return set(re.findall(r"`(\w+)`", section))


def test_the_documentation_names_every_key_of_the_json(evening: CommandLine) -> None:
    data = evening("shrink", f"{SET}:day", "--format", "json", "--budget", "2", "--write").data

    keys = {*data, *data["failure"][0], *data["after"], *data["kept_as"], *data["steps"][0]}
    assert keys - read_documented_keys("shrink") == set()


def test_output_is_a_set_that_is_created_or_extended(evening: CommandLine) -> None:
    before = (evening.root / SET).read_bytes()

    first = evening("shrink", f"{SET}:day", "--output", "home/small.evalset.json")
    second = evening("shrink", f"{SET}:day", "--output", "home/small.evalset.json", "--write")

    assert first.out.splitlines()[-1] == "kept as day-small in home/small.evalset.json"
    assert second.out.splitlines()[-1] == "kept as day-small-2 in home/small.evalset.json"
    assert read_ids(evening, "home/small.evalset.json") == ["day-small", "day-small-2"]
    assert (evening.root / SET).read_bytes() == before


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("small.json", "--output small.json: expected a name that ends with .evalset.json or .test.json"),
        ("none/a.evalset.json", "--output none/a.evalset.json: the folder none does not exist"),
        ("old.evalset.json", "--output old.evalset.json: it has an old format; migrate it first"),
    ],
)
def test_an_unusable_output_is_refused_before_anything_runs(evening: CommandLine, name: str, expected: str) -> None:
    evening.write("old.evalset.json", [{"name": "old", "data": [{"query": "x"}]}])

    result = evening("shrink", f"{SET}:day", "--output", name)

    assert result.status == 2
    assert result.error.startswith(f"workbench: {expected}")
    assert not (evening.root / "home/sessions.txt").exists()


def test_a_failure_that_is_gone_ends_with_one_message(evening: CommandLine) -> None:
    before = (evening.root / SET).read_bytes()

    result = evening("shrink", f"{SET}:good")

    assert result.status == 1
    assert result.error == (
        f"workbench: {SET}:good did not fail now, so there is nothing to shrink; nothing was changed\n"
    )
    assert (evening.root / SET).read_bytes() == before


def test_an_error_and_a_flaky_case_are_explained(workbench: CommandLine) -> None:
    workbench.write(
        "home/agent.py",
        """
from pathlib import Path
FILE = Path(__file__).with_name("count.txt")

def answer(prompt):
    if prompt == "raise":
        raise ValueError("kaboom")
    FILE.write_text((FILE.read_text() if FILE.exists() else "") + "x")
    calls = [{"tool_name": "set_light", "tool_input": {}}] if len(FILE.read_text()) % 2 else []
    return {"response": "", "predicted_trajectory": calls}
""",
    )
    turns: dict[str, Any] = {"user_content": {"parts": [{"text": "x"}]}, "intermediate_data": {}}
    failing = {"user_content": {"parts": [{"text": "raise"}]}, "intermediate_data": {}}
    workbench.add_set(SET, {"bad": [failing], "flaky": [turns]})

    error, flaky = workbench("shrink", f"{SET}:bad"), workbench("shrink", f"{SET}:flaky", "--repeats", "3")

    assert (error.status, flaky.status) == (3, 1)
    assert error.error == (
        f"workbench: {SET}:bad ended in ERROR, which is not a failure to shrink: ValueError: kaboom (home/agent.py:7)\n"
    )
    assert flaky.error.startswith(f"workbench: {SET}:flaky is flaky: 2 of 3 executions failed, and not all in the same")


def test_a_used_up_budget_says_what_is_left(evening: CommandLine) -> None:
    result = evening("shrink", f"{SET}:day", "--budget", "4")

    assert result.status == 0
    assert "4 executions of 4" in result.out
    assert "not tried to the end (the budget was used up): turns, expected calls" in result.out
    assert result.out.splitlines()[-1] == "nothing was kept; --write keeps it as a new case"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((SET,), "2 cases selected, expected one: name it as SET:CASE"),
        ((f"{SET}:dya",), f"{SET}: no eval case 'dya'; did you mean 'day'?"),
        ((f"{SET}:day", "--predicate", "checks"), "--predicate: found 'checks', expected module:function"),
        ((f"{SET}:day", "--predicate", "a:b", "--criterion", "c"), "--predicate and --criterion exclude each other"),
        ((f"{SET}:day", "--budget", "2", "--repeats", "3"), "--budget 2: expected at least the --repeats (3)"),
        ((f"{SET}:day", "--criterion", "safety"), "--criterion: found 'safety', expected one of tool_trajectory_avg"),
    ],
)
def test_wrong_arguments_are_one_message(evening: CommandLine, arguments: tuple[str, ...], expected: str) -> None:
    result = evening("shrink", *arguments)

    assert result.status == 2
    assert expected in result.error
    assert "Traceback" not in result.error


def test_a_budget_for_the_case_itself_does_not_say_that_nothing_can_be_left_out(evening: CommandLine) -> None:
    result = evening("shrink", f"{SET}:day", "--budget", "1")

    assert result.status == 0
    assert result.out.splitlines()[-1] == "no smaller case was found; nothing was kept"


def test_ctrl_c_at_the_question_keeps_nothing_and_prints_the_result(
    evening: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cause_commands, "is_interactive", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))  # the end of the input aborts as well

    result = evening("shrink", f"{SET}:day", "--format", "json", "--budget", "2")

    assert (result.status, result.data["after"]["turns"], result.data["kept_as"]) == (130, 9, None)
    assert read_ids(evening) == ["day", "good"]


@pytest.mark.parametrize("options", [(), ("--write",)])
def test_ctrl_c_keeps_the_smallest_case_so_far(evening: CommandLine, options: tuple[str, ...]) -> None:
    evening.write(
        "home/agent.py", "import time\n" + LIGHTS.replace('    if "away"', '    time.sleep(0.1)\n    if "away"')
    )
    before = (evening.root / SET).read_bytes()
    process = evening.start("shrink", f"{SET}:day", *options)
    assert process.stdout is not None
    try:
        assert "the case itself" in process.stdout.readline()
        assert "turns: 12 -> 9" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        began = time.monotonic()
        out, error = process.communicate(timeout=30)
    finally:
        process.kill()

    assert time.monotonic() - began < 10
    assert process.returncode == 130
    assert "not tried to the end (interrupted): turns, expected calls" in out
    assert "interrupted: stopping; the result is the smallest case so far (press Ctrl-C again" in error
    assert "Traceback" not in error
    if not options:
        assert (evening.root / SET).read_bytes() == before
    else:
        assert out.splitlines()[-1] == f"kept as day-small in {SET}"
        cases = json.loads((evening.root / SET).read_text())["eval_cases"]
        assert [case["eval_id"] for case in cases] == ["day", "day-small", "good"]
        assert 2 <= len(cases[1]["conversation"]) <= 9


def test_numbers_are_written_with_ranges() -> None:
    assert format_numbers([0, 1, 2, 8, 10, 11]) == "1-3, 9, 11-12"
    assert format_numbers([]) == ""


# `workbench why`

HOUSE = "house/h.evalset.json"


@pytest.fixture
def house(workbench: CommandLine) -> Iterator[CommandLine]:
    """Add an ADK agent that calls its tool only because of one line of its instruction."""
    call = {"name": "set_light", "args": {"room": "hall"}}
    workbench.write("house/__init__.py", "from . import agent\n")
    workbench.write("house/test_config.json", {"criteria": {"tool_trajectory_avg_score": 1.0}})
    workbench.add_set(HOUSE, {"on": [{**turn("Light!"), "intermediate_data": {"tool_uses": [call]}}]})
    with run_server(reply) as server:
        workbench.write("house/agent.py", ADK.format(url=server.url))
        yield workbench


@pytest.mark.needs_adk
@pytest.mark.needs_fork
def test_why_prints_the_effect_of_each_line(house: CommandLine) -> None:
    before = {path: path.read_bytes() for path in house.root.rglob("*.*") if path.suffix in (".py", ".json")}

    result = house("why", f"{HOUSE}:on", "--line", "--repeats", "2")

    assert result.status == 0
    assert result.error.splitlines()[0] == "at most 60 executions:"
    assert result.out.splitlines() == [
        f"{HOUSE}:on: 2 of 2 passed with the whole instruction",
        "",
        "house, instruction",
        "        1  no difference         You switch lights.",
        "           2 of 2 passed without it",
        "        2  no difference         Be nice.",
        "           2 of 2 passed without it",
        "        4  the verdict changes   Always use the tool.",
        "           2 of 2 failed without it",
        '           tool_trajectory_avg_score: call missing set_light, expected {"room": "hall"}',
        "           tool_trajectory_avg_score: 0.00",
        "        5  no difference         The room is {room?}.",
        "           2 of 2 passed without it",
        "",
        "helper, instruction",
        "        1  not used              Help.",
        "",
        "10 executions of 60",
        "not tried: instruction of idle is computed by a function at run time",
    ]
    assert {path: path.read_bytes() for path in before} == before
    assert "no runs yet" in house("history").out


@pytest.mark.needs_adk
@pytest.mark.needs_fork
def test_the_json_of_why_has_the_documented_keys(house: CommandLine) -> None:
    data = house("why", f"{HOUSE}:on", "--repeats", "1", "--budget", "2", "--format", "json").data

    first, second, _ = data["parts"]
    keys = {*data, *data["whole"], *first}
    assert keys - read_documented_keys("why") == set()
    assert data["whole"]["statuses"] == {"PASSED": 1}
    assert (first["first_line"], first["last_line"], first["effect"]) == (1, 2, "none")
    assert (second["effect"], second["without"]["executions"]) == ("untried", 0)


def test_why_refuses_other_agents_and_too_small_budgets(workbench: CommandLine) -> None:
    other = workbench("why", "home/light.evalset.json:on")
    small = workbench("why", "home/light.evalset.json:on", "--budget", "3")

    assert (other.status, small.status) == (2, 2)
    assert "home: workbench knows no instruction that it could leave out" in other.error
    assert "--budget 3: expected more than the --repeats (3) of the case itself" in small.error
