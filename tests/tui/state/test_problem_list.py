"""The list of problems: its entries, their order, and their targets."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from workbench.store.errors import StoreError
from workbench.tui.backend.project_calls import find_named_files
from workbench.tui.state.problem_list import Problems, ProblemSource, SetProblem


def render_rows(problems: Problems, width: int = 120) -> list[str]:
    return ["".join(piece.text for piece in problems.line(index, width)) for index in range(len(problems))]


@pytest.fixture
def problems() -> Problems:
    return Problems()


def test_a_problem_has_its_file_line_column_and_place(problems: Problems, tmp_path: Path) -> None:
    path = tmp_path / "a.evalset.json"
    broken = SetProblem(path, "found 7, expected a list", place="eval_cases[0]", line=3, column=9, case=("x", 1))

    problems.set_problems_in_set("a.evalset.json", "home", [broken])

    assert render_rows(problems) == [" ✗ a.evalset.json:3:9  eval_cases[0]: found 7, expected a list"]
    selected = problems.selected_problem
    assert selected is not None and selected.case is not None and selected.path == path
    assert (selected.case.target, selected.case.eval_id, selected.case.occurrence) == ("home", "x", 1)


def test_messages_of_settings_lead_to_the_file_they_begin_with(problems: Problems, tmp_path: Path) -> None:
    (tmp_path / "workbench.toml").write_text("")
    messages = ["workbench.toml:4:2: no such key", "workbench.toml: [x] is unknown", "gone.toml: x", "[keys] q: no"]

    problems.set_messages(ProblemSource.PROJECT, messages, files=find_named_files(messages, root=tmp_path))

    shown_rows = [(row.shown, row.line, row.message) for row in problems.rows]
    assert shown_rows == [
        ("workbench.toml", 4, "no such key"),
        ("workbench.toml", None, "[x] is unknown"),
        ("", None, "gone.toml: x"),
        ("", None, "[keys] q: no"),
    ]
    assert all(row.warning for row in problems.rows)


def test_conflicts_come_first_among_the_eval_sets(problems: Problems) -> None:
    problems.set_problems_in_set("a", "", [SetProblem(Path("a"), "broken")])
    problems.set_problems_in_set("b", "", [SetProblem(Path("b"), "changed", conflict=True)])

    assert [row.message for row in problems.rows] == ["changed", "broken"]


def test_a_solved_problem_is_no_longer_listed(problems: Problems) -> None:
    problems.set_problems_in_set("a", "", [SetProblem(Path("a"), "broken")])
    problems.set_error(ProblemSource.HISTORY, StoreError(Path("h.db"), "it is from a newer version"))
    problems.set_recoveries(["a"])
    problems.add_run_problem("the judge is slow", warning=True)
    assert len(problems) == 4

    problems.set_problems_in_set("a", "", [])
    problems.set_error(ProblemSource.HISTORY, None)
    problems.set_recoveries([])
    problems.clear_run_problems()
    assert len(problems) == 0 and problems.selected_problem is None
    problems.set_problems_in_set("a", "", [SetProblem(Path("a"), "broken")])
    problems.keep_only_sets(["b"])
    assert len(problems) == 0


def test_the_cursor_stays_on_its_problem(problems: Problems) -> None:
    problems.set_problems_in_set("b", "", [SetProblem(Path("b"), "one"), SetProblem(Path("b"), "two")])
    problems.move(1)
    problems.set_problems_in_set("a", "", [SetProblem(Path("a"), "zero")])
    assert problems.selected_problem is not None and problems.selected_problem.message == "two"
    problems.move_to(99)
    problems.move(-99)
    assert problems.cursor == 0


def test_repeated_notices_of_a_run_are_listed_once_up_to_a_limit(problems: Problems) -> None:
    for number in range(300):
        problems.add_run_problem(f"notice {number}", warning=False)
        problems.add_run_problem(f"notice {number}", warning=False)
    assert len(problems) == 100


def test_external_text_is_shown_without_control_characters(problems: Problems) -> None:
    problems.set_problems_in_set("a\x1b[2J", "", [SetProblem(Path("a"), "x\n\x1b[31m[/b]", place="\x07")])

    shown = render_rows(problems)[0] + "".join(
        piece.text for block in problems.detail() for piece in getattr(block, "pieces", ())
    )
    assert "\x1b" not in shown and "\x07" not in shown and "[/b]" in shown


def test_the_pane_says_that_there_are_no_problems(problems: Problems) -> None:
    assert "No problems" in problems.detail()[0].pieces[0].text


def test_the_first_problem_takes_the_cursor_from_the_newest_message(problems: Problems) -> None:
    problems.add_message("changed on disk", "warning", at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))

    problems.set_messages(ProblemSource.PROJECT, ["a problem"], files={})

    assert problems.selected_problem is not None


def test_messages_follow_the_problems_and_the_cursor_stays_on_its_row(problems: Problems) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    for text in ("saved", "copied", "copied"):
        problems.add_message(text, "information", at=now)

    assert [(message.text, message.times) for message in problems.messages] == [("copied", 2), ("saved", 1)]
    assert problems.selected_message == problems.messages[0]
    problems.add_message("newer", "warning", at=now)
    assert problems.selected_message == problems.messages[0]

    problems.move(1)
    problems.add_message("newest", "error", at=now)
    problems.set_messages(ProblemSource.PROJECT, ["a problem"], files={})
    assert problems.selected_message is not None
    assert problems.selected_message.text == "copied"
    problems.move(-3)
    assert problems.selected_problem is not None
    problems.add_message("x", "error", at=now)
    assert problems.selected_problem is not None
    lines = render_rows(problems, 60)
    assert lines[1].strip() == "messages, newest first"
    assert lines[2] == " ✗ 03:04:05  x"
    assert lines[5] == " · 03:04:05  copied  (2 times)"
