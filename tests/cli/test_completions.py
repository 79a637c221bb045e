"""What the shell completes in a project: targets, eval sets, cases, runs, metrics, and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.shell_completion import ShellComplete

from tests.cli.command_line import turn
from workbench.cli.main import cli

if TYPE_CHECKING:
    from tests.cli.command_line import CommandLine

SET = "home/light.evalset.json"


@pytest.fixture
def complete(workbench: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Complete the last of some words; return proposals, or `file` if the shell shall list files."""
    workbench.add_set(SET, {"on": [turn("light hall", "done")], "off": [turn("light hall", "done")]})
    monkeypatch.chdir(workbench.root)

    def run(*words: str) -> list[str]:
        found = ShellComplete(cli, {}, "workbench", "_X").get_completions([*words[:-1]], words[-1])
        return [item.type if item.type == "file" else item.value for item in found]

    return run


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("run", "hom"), ["home", SET]),
        (("run", "home/"), [SET]),
        (("run", "README"), ["file"]),
        (("run", f"{SET}:o"), [f"{SET}:on", f"{SET}:off"]),
        (("run", SET, ":", "of"), ["off"]),  # bash splits at the colon
        (("run", "home", "--case", "o"), ["on", "off"]),
        (("shrink", f"{SET}:of"), [f"{SET}:off"]),
        (("shrink", SET, "--criterion", "final_response"), ["final_response_match_v2"]),
        (("score", "rows.jsonl", "--metrics", "bleu,final_response"), ["bleu,final_response_match_v2"]),
        (("run", "--target", "ho"), ["home"]),
        (("score", "ro"), ["file"]),
        (("report", "la"), ["file"]),  # there is no run yet
    ],
)
def test_names_of_the_project_are_completed_and_else_files(complete: Any, words: Any, expected: list[str]) -> None:
    assert complete(*words) == expected


def test_runs_are_completed_the_newest_first(complete: Any, workbench: CommandLine) -> None:
    workbench("run", "home")
    first = complete("report", "")[-1]
    workbench("run", "home")

    latest, newest, older = complete("report", "")

    assert latest == "latest"
    assert newest != older == first
