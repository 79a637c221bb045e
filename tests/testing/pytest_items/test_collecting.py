"""Files that pytest collects as eval sets, and the ids of their cases."""

from __future__ import annotations

import pytest

from tests.cli.command_line import turn
from tests.testing.pytest_project import PytestProject

LIGHT = [turn("light hall", room="hall")]


def collect_ids(project: PytestProject, *arguments: str) -> list[str]:
    lines = project.pytest("--collect-only", "-q", *arguments).outlines
    return [line for line in lines if "::" in line]


def test_eval_sets_are_not_collected_by_default(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", hall=LIGHT)
    project.write("test_own.py", "def test_own(): pass")

    assert collect_ids(project) == ["test_own.py::test_own"]


def test_cases_are_collected_if_the_project_or_the_command_line_requests_it(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", hall=LIGHT, kitchen=LIGHT)
    project.add_set("home/unit.test.json", one=LIGHT)
    ids = [
        f"home/{case}" for case in ("light.evalset.json::hall", "light.evalset.json::kitchen", "unit.test.json::one")
    ]

    assert collect_ids(project, "--workbench") == ids
    assert collect_ids(project, "-o", "workbench_collect=true") == ids
    assert collect_ids(project, "home/light.evalset.json") == ids[:2]
    assert collect_ids(project, "home/light.evalset.json::kitchen") == ids[1:2]
    assert collect_ids(project, "--workbench", "-k", "one or hall") == [ids[0], ids[2]]


def test_a_mistyped_case_is_reported_with_the_nearest_one(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", hall=LIGHT, kitchen=LIGHT)

    done = project.pytest("home/light.evalset.json::kitchn", "home/light.evalset.json::hall")

    assert done.ret == pytest.ExitCode.USAGE_ERROR
    done.stdout.fnmatch_lines(["home/light.evalset.json: no eval case 'kitchn'; did you mean 'kitchen'[?]"])


def test_a_case_whose_id_contains_colons_can_be_named(project: PytestProject) -> None:
    cases = ("light", "light::hall", "light::hall::on", "::", "of [a::b]")
    project.add_set("home/light.evalset.json", **dict.fromkeys(cases, LIGHT))
    names = [f"home/light.evalset.json::{case}" for case in cases]

    assert collect_ids(project, "home/light.evalset.json") == names
    for name in names:
        assert project.read_statuses(name) == {name: "PASSED"}
    assert project.read_statuses("--workbench-runs=2", names[1]) == dict.fromkeys(
        (f"{names[1]}[1]", f"{names[1]}[2]"), "PASSED"
    )
    assert set(project.read_statuses(*names[1:])) == set(names[1:])


def test_json_of_other_programs_is_ignored_unless_it_is_named(project: PytestProject) -> None:
    project.write("web.test.json", {"compilerOptions": {"strict": True}})
    project.write("broken.test.json", "{ not even JSON")
    project.write("graph.test.json", {"query": "{user{id}}"})
    project.write("graphs.test.json", {"requests": [{"query": "{user{id}}"}]})
    project.write("batch.test.json", [{"query": "{user{id}}", "variables": {}}, {"query": "{reference}"}])
    project.write("batches.test.json", [{"query": "query($reference: ID) {user}", "variables": {"reference": 1}}])

    assert collect_ids(project, "--workbench") == []
    named = project.pytest("web.test.json")
    named.assert_outcomes(errors=1)
    named.stdout.fnmatch_lines(["web.test.json:1:1: found an object without eval_cases, expected an eval set*"])


def test_repeats_are_separate_items(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", hall=LIGHT, kitchen=LIGHT)

    names = [name.partition("::")[2] for name in collect_ids(project, "--workbench", "--workbench-runs", "2")]

    assert names == ["hall[1]", "hall[2]", "kitchen[1]", "kitchen[2]"]
    assert len(collect_ids(project, "--workbench-runs", "2", "home/light.evalset.json::hall")) == 2


def test_a_broken_set_is_one_error_and_the_session_continues(project: PytestProject) -> None:
    project.write("home/broken.evalset.json", '{"eval_set_id": "light", "eval_cases": 3}')
    project.write("home/older.test.json", '[{"query": "light hall", "expected_tool_use": 3}')
    project.add_set("home/light.evalset.json", hall=LIGHT)

    done = project.pytest("--workbench")

    done.assert_outcomes(passed=1, errors=2)
    done.stdout.fnmatch_lines(
        [
            "home/broken.evalset.json:1:40: found 3 as eval_cases, expected a list of cases",
            "*home/older.test.json:1:49: found the end of the file, expected ',' or the closing bracket",
        ]
    )
    assert "Traceback" not in done.stdout.str()


@pytest.mark.parametrize(
    "selection", [["-k", "hall"], ["-m", "not slow", "-k", "hall"], ["--deselect", "home/broken.evalset.json"]]
)
@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
def test_selections_do_not_hide_a_broken_set(project: PytestProject, selection: list[str], workers: list[str]) -> None:
    project.write("home/broken.evalset.json", "not json")
    project.add_set("home/light.evalset.json", hall=LIGHT)

    done = project.pytest("--workbench", *selection, *workers)

    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.assert_outcomes(passed=1, errors=1)
    done.stdout.fnmatch_lines(["*home/broken.evalset.json:1:1: *"])


def test_a_set_that_broke_after_a_failure_is_an_error_with_last_failed(project: PytestProject) -> None:
    project.add_set("home/light.evalset.json", hall=[turn("light hall", room="attic")])
    project.run_with_cache("--workbench").assert_outcomes(failed=1)
    project.write("home/light.evalset.json", "not json")

    project.run_with_cache("--workbench", "--lf").assert_outcomes(errors=1)


def test_collect_only_reports_broken_sets_and_fails(project: PytestProject) -> None:
    project.write("home/broken.evalset.json", "not json")
    project.add_set("home/light.evalset.json", hall=LIGHT)

    done = project.pytest("--workbench", "--collect-only", "-q")

    assert done.ret == pytest.ExitCode.TESTS_FAILED
    done.stdout.fnmatch_lines(["home/light.evalset.json::hall", "*(unusable): home/broken.evalset.json:1:1: *"])


def test_a_broken_set_is_ignored_if_other_paths_are_named(project: PytestProject) -> None:
    project.write("home/broken.evalset.json", "not json")
    project.add_set("home/light.evalset.json", hall=LIGHT)
    project.write("test_own.py", "def test_own(): pass")

    named = project.pytest("--workbench", "home/light.evalset.json::hall")
    both = project.pytest("--workbench", "home/broken.evalset.json", "test_own.py::test_own")

    assert named.ret == pytest.ExitCode.OK
    named.assert_outcomes(passed=1)
    both.assert_outcomes(passed=1, errors=1)


def test_a_named_case_of_a_broken_set_reports_the_error_of_the_set(project: PytestProject) -> None:
    project.write("home/broken.evalset.json", '{"eval_set_id": "light", "eval_cases": 3}')

    done = project.pytest("home/broken.evalset.json::hall")

    assert done.ret != 0
    done.stdout.fnmatch_lines(["home/broken.evalset.json:1:40: found 3 as eval_cases, expected a list of cases"])


def test_an_empty_set_has_no_items(project: PytestProject) -> None:
    project.add_set("home/empty.evalset.json")
    project.add_set("home/light.evalset.json", hall=LIGHT)

    assert collect_ids(project, "--workbench") == ["home/light.evalset.json::hall"]


def test_a_set_without_an_agent_is_an_error_with_advice(project: PytestProject) -> None:
    project.write("workbench.toml", "")
    project.add_set("sets/light.evalset.json", hall=LIGHT)

    done = project.pytest("--workbench")

    done.assert_outcomes(errors=1)
    done.stdout.fnmatch_lines(["sets/light.evalset.json: no agent was found near it: *"])


def test_errors_outside_of_the_cases_are_an_item_and_the_cases_run(project: PytestProject) -> None:
    path = project.add_set("home/light.evalset.json", hall=LIGHT)
    path.write_text(path.read_text() + "]")

    all_cases = project.pytest("--workbench")
    named = project.pytest("home/light.evalset.json::hall")

    for done in (all_cases, named):
        done.assert_outcomes(passed=1, errors=1)
        done.stdout.fnmatch_lines(["home/light.evalset.json:*: error: found ']', expected the end of the file"])
