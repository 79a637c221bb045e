"""Selection of cases by the arguments of a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.command_line import get_statuses, turn

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine


MakeTurn = Callable[..., dict[str, Any]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], {"on": "PASSED", "off": "FAILED"}),
        (["home"], {"on": "PASSED", "off": "FAILED"}),
        (["home/light.evalset.json:on"], {"on": "PASSED"}),
        (["home/light.evalset.json:off,on"], {"on": "PASSED", "off": "FAILED"}),
        (["home", "--case", "on"], {"on": "PASSED"}),
        (["--case=on", "home/light.evalset.json"], {"on": "PASSED"}),
        (["--target", "home", "--case", "on"], {"on": "PASSED"}),
    ],
)
def test_exactly_the_selected_cases_run(workbench: CommandLine, arguments: list[str], expected: dict[str, str]) -> None:
    assert get_statuses(workbench("run", *arguments, "--format", "json")) == expected


def test_a_misspelt_target_runs_nothing(workbench: CommandLine) -> None:
    result = workbench("run", "--target", "hom")

    assert result.status == 2
    assert "no such target: 'hom'; did you mean 'home'?" in result.error
    assert result.out == ""


def test_case_ids_may_contain_colons_and_commas(workbench: CommandLine, make_turn: MakeTurn) -> None:
    workbench.add_set("home/odd.evalset.json", {"a:b,c": [make_turn("light x", room="x")], "d": [make_turn("light x")]})

    assert get_statuses(workbench("run", "home/odd.evalset.json", "--case", "a:b,c", "--format", "json")) == {
        "a:b,c": "PASSED"
    }


def test_a_folder_contains_sets_that_link_to_files_elsewhere(workbench: CommandLine, make_turn: MakeTurn) -> None:
    workbench.add_set("home/linked.evalset.json", {"far": [make_turn("light x", room="x")]})
    linked = workbench.root / "home" / "linked.evalset.json"
    elsewhere = workbench.root.parent / "elsewhere.evalset.json"  # in no project
    linked.rename(elsewhere)
    linked.symlink_to(elsewhere)

    for arguments in (["home"], ["home/linked.evalset.json"], ["./home"]):
        assert get_statuses(workbench("run", *arguments, "--case", "far", "--format", "json")) == {"far": "PASSED"}


def test_a_target_takes_precedence_over_a_folder_of_the_same_name(workbench: CommandLine) -> None:
    (workbench.root / "workbench.toml").open("a").write(
        '[targets.other]\nkind = "function"\ntarget = "nowhere:answer"\neval_sets = ["home/other/*.evalset.json"]\n'
    )
    (workbench.root / "home" / "other").mkdir()
    workbench.add_set("home/other/o.evalset.json", {"o": [turn("hello")]})

    target, folder = (workbench("run", name, "--dry-run") for name in ("home", "./home"))

    assert "other" not in target.out + target.error
    assert "other" in folder.out + folder.error


def test_a_colon_without_a_case_is_refused(workbench: CommandLine) -> None:
    result = workbench("run", "home/light.evalset.json:")

    assert (result.status, result.out) == (2, "")
    assert "no case after the colon" in result.error


def test_a_misspelt_folder_or_case_gets_a_short_message(workbench: CommandLine) -> None:
    workbench.add_set("other/rooms/a.evalset.json", {"a": []})
    folder = workbench("run", "other/roms")
    case = workbench("run", "home", "--case", "x" * 10_000)

    assert "other/roms: no such file, folder or target; did you mean 'other/rooms'?" in folder.error
    assert (folder.status, case.status) == (2, 2)
    assert "no eval case 'xxx" in case.error
    assert len(case.error) < 500


def test_arguments_of_different_projects_are_refused(workbench: CommandLine, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "workbench.toml").write_text("")
    (other / "x.evalset.json").write_text("{}")

    result = workbench("run", "home", str(other / "x.evalset.json"))

    assert result.status == 2
    assert "different projects" in result.error


def test_a_case_with_a_duplicate_id_is_selected_by_its_displayed_name(workbench: CommandLine) -> None:
    rows = [("a", "y"), ("a", "n"), ("b", "y"), ("b", "n"), ("b#2", "y")]
    lines = (
        json.dumps({"eval_id": name, "prompt": "?", "response": response, "reference": "y"}) for name, response in rows
    )
    workbench.write("rows.jsonl", "\n".join(lines))
    workbench.write("test_config.json", {"criteria": {"exact_match": 1.0}})

    def run_cases(*arguments: str) -> list[tuple[str, int, str]]:
        cases = workbench("run", *arguments, "--format", "json").data["cases"]
        return [(case["eval_id"], case["occurrence"], case["status"]) for case in cases]

    assert "FAILED         a#2" in workbench("run", "rows.jsonl").out
    assert run_cases("rows.jsonl:a#2") == run_cases("rows.jsonl", "--case", "a#2") == [("a", 1, "FAILED")]
    assert run_cases("rows.jsonl:a") == [("a", 0, "PASSED"), ("a", 1, "FAILED")]
    assert run_cases("rows.jsonl:b#2") == run_cases("rows.jsonl", "--case", "b#2") == [("b#2", 0, "PASSED")]
    assert run_cases("rows.jsonl:a#2,b#2", "--failed") == [("a", 1, "FAILED")]
    missing = workbench("run", "rows.jsonl:a#3")
    assert (missing.status, "no eval case 'a#3'; did you mean 'a#2'?" in missing.error) == (2, True)
    assert "\n  a#2\n" in workbench("run", "rows.jsonl", "--dry-run").out


def test_a_duplicate_case_of_an_eval_set_can_be_selected(workbench: CommandLine, make_turn: MakeTurn) -> None:
    case = {"eval_id": "x", "conversation": [make_turn("light x", room="x")]}
    workbench.write("home/twins.evalset.json", {"eval_set_id": "twins", "eval_cases": [case, case]})

    result = workbench("run", "home/twins.evalset.json:x#2", "--format", "json")

    assert [(case["eval_id"], case["occurrence"]) for case in result.data["cases"]] == [("x", 1)]
    assert "duplicate eval_id 'x' (2 times); make it unique" in result.data["cases"][0]["error"]["message"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("eval", "home", "ligth"), "; did you mean 'light'?"),
        (("eval", "home", "home/ligth.evalset.json"), "; did you mean 'home/light.evalset.json'?"),
        (
            ("eval", "home", "home/light.evalset.json", "light:on"),
            "light:on: files and ids cannot be mixed, and the first eval set, home/light.evalset.json, is a file; "
            "did you mean 'home/light.evalset.json'?",
        ),
        (
            ("eval", "home", "light", "home/light.evalset.json"),
            "files and ids cannot be mixed, and the first eval set, light, is an id; did you mean 'light'?",
        ),
        (
            ("eval", "home", "home/light.evalset.json", "ligth:on"),
            "ligth:on: no such eval-set file; did you mean 'home/light.evalset.json'?",
        ),
        (("run", "light"), "no such file, folder or target; did you mean 'home/light.evalset.json'?"),
        (("run", "ligth:on"), "; did you mean 'home/light.evalset.json:on'?"),
        (("run", "light.evalset.json"), "; did you mean 'home/light.evalset.json'?"),
        (("run", "home/light.evalset.json:of"), "no eval case 'of'; did you mean 'off'?"),
    ],
)
def test_mistyped_sets_and_cases_have_a_suggestion(
    workbench: CommandLine, arguments: tuple[str, ...], message: str
) -> None:
    result = workbench(*arguments)

    assert result.status == 2
    assert message in result.error


@pytest.mark.parametrize("command", [("run",), ("eval", "home"), ("explain",), ()])
def test_an_argument_too_long_for_a_path_is_not_found(workbench: CommandLine, command: tuple[str, ...]) -> None:
    result = workbench(*command, "z" * 5000)

    assert result.status == 2
    assert "no such" in result.error and "bug in workbench" not in result.error
    assert len(result.error) < 1000


def test_many_cases_of_a_set_can_be_selected(workbench: CommandLine) -> None:
    result = workbench("run", f"home/light.evalset.json:on,{','.join(['on'] * 200)}")

    assert result.status == 0
    assert "1 case: 1 passed" in result.out
