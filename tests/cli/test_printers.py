"""Results are printed in the order of the plan, and then freed: a run may be larger than memory."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, turn
from workbench.cli.printers import DocumentPrinter, JsonSpool, LinePrinter, TablePrinter, save_pieces
from workbench.model.identity import CaseKey
from workbench.model.results import CaseResult, CaseStatus, Execution
from workbench.report.run_report import ReportedCase
from workbench.report.text_report import TableStyle, VerdictTable

COUNT = 40
ROOM = "pantry"


@pytest.fixture
def execution_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record how many executions are in memory at the end of each run."""
    numbers: list[int] = []

    def is_execution_of_the_run(execution: object) -> bool:
        if type(execution) is not Execution or not execution.turns:
            return False
        return execution.turns[0].invocation.user_content.text() == f"light {ROOM}"

    for printer in (TablePrinter, LinePrinter, JsonSpool, DocumentPrinter):

        def count_and_print(*arguments: object, close: object = printer.print_report) -> None:
            gc.collect()
            numbers.append(sum(map(is_execution_of_the_run, gc.get_objects())))
            close(*arguments)

        monkeypatch.setattr(printer, "print_report", count_and_print)
    return numbers


@pytest.mark.parametrize(
    ("command", "options", "least", "most"),
    [
        ("run", ("--plain",), 0, COUNT // 2),
        ("run", ("--format", "jsonl"), 0, COUNT // 2),
        ("eval", ("--plain",), 0, COUNT // 2),
        ("run", ("--format", "json"), 0, COUNT // 2),
        ("run", ("--output", "report.json"), 0, COUNT // 2),
        ("run", ("--format", "markdown"), COUNT, 2 * COUNT),  # the format needs them for its counts
    ],
)
def test_results_are_freed_once_printed(
    workbench: CommandLine, execution_counts: list[int], command: str, options: tuple[str, ...], least: int, most: int
) -> None:
    path = workbench.add_set("home/many.evalset.json", {f"c{n}": [turn(f"light {ROOM}")] for n in range(COUNT)})
    selection = ("home", str(path)) if command == "eval" else (str(path),)

    result = workbench(command, *selection, *options)

    assert f"c{COUNT - 1}" in result.out
    assert least <= execution_counts[0] <= most


def test_a_document_has_its_cases_in_the_order_of_the_plan(workbench: CommandLine) -> None:
    names = [f"c{n}" for n in range(COUNT)]
    path = workbench.add_set("home/many.evalset.json", {name: [turn(f"light {name} é")] for name in names})

    printed_report = json.loads(workbench("run", str(path), "--format", "json", "--runs", "2").out)
    workbench("run", str(path), "--output", "report.json", "--runs", "2")
    written_report = json.loads(Path("report.json").read_text(encoding="utf-8"))

    for document in (printed_report, written_report):
        assert [(case["eval_id"], case["repeat"]) for case in document["cases"]] == [
            (name, repeat) for repeat in range(2) for name in names
        ]
        assert document["cases"][3]["turns"][0]["user"] == "light c3 é"
        assert list(document)[-1] == "cases"


def test_cases_are_printed_in_the_order_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    keys = [CaseKey(target="t", eval_set="s", eval_id=name) for name in "abcd"]
    cases = [ReportedCase(CaseResult(case=key, eval_set_id="s", status=CaseStatus.PASSED), None) for key in keys]
    table = VerdictTable(style=TableStyle(), name_width=1, criteria={})
    printer = TablePrinter(table, [(key, 0) for key in keys])

    def print_cases(*positions: int) -> list[str]:
        printer.print_cases([cases[position] for position in positions])
        return [line.split()[2] for line in capsys.readouterr().out.splitlines() if "PASSED" in line]

    assert print_cases(1, 3) == []
    assert print_cases(0) == ["a", "b"]
    assert print_cases(2) == ["c", "d"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with a name")
def test_output_to_a_pipe_that_no_program_reads_ends_with_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("workbench.store.files._WAIT_FOR_READER", 0.05)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    assert not save_pieces(["{}"], "json", pipe)

    assert "the results could not be written: " in (message := capsys.readouterr().err)
    assert "is a pipe that no program reads: expected a file, or a pipe with a reader" in message
