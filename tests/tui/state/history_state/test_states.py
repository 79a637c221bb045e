"""The states of scores, history and table, without a screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from tests.tui.state.stored import make_stored_scores, metric, result
from workbench.model.evalset import EvalCase, Invocation
from workbench.model.identity import CaseKey
from workbench.model.results import (
    CaseStatus,
    Execution,
    InvocationScore,
    ModelCalls,
    TurnResult,
)
from workbench.model.run_events import MetricSummary, RunSummary
from workbench.report.comparison import RunComparison, VerdictChange, collect_verdicts, compare_runs
from workbench.store.history.history_queries import RunPart, StoredRun
from workbench.tui.state.case_scores import CaseScores, format_value
from workbench.tui.state.group_scores import GroupScores, summarize_scores
from workbench.tui.state.history_state import CaseHistory, ComparedCases, ExecutionRows, GroupRuns
from workbench.tui.state.results_table import Column, ResultTable, TableRow, make_columns, make_table_row
from workbench.tui.state.text_layout import Line, StyledText, bar, compute_share, histogram, render_blocks, sparkline

NASTY = "x [/foo] \x1b[31m \u202e é 👩‍👩‍👧 空港 " + "long " * 100


def join_lines(lines: Sequence[Line]) -> str:
    return "\n".join("".join(piece.text for piece in line) for line in lines)


def render_text(blocks: Any, width: int = 100) -> str:
    return join_lines(render_blocks(blocks, width=width, side_by_side=False))


def test_charts_have_the_requested_width_and_mark_the_threshold() -> None:
    assert bar(0.5, width=4) == "██░░"
    assert bar(1.0, width=4, mark=1.0) == "███┃"
    assert bar(float("nan"), width=2, mark=0.0) == "┃░"
    assert sparkline([0.0, None, 0.5, 1.0], highest=1.0) == "▁·▅█"
    assert sparkline([]) == sparkline([None])[1:] == ""
    assert sparkline([2.0, 2.0]) == "██"
    assert (compute_share(3.0, 1.0, 5.0), compute_share(3.0, None, 5.0)) == (0.5, None)
    assert histogram([0.0, 0.5, 1.0, 7.0], lowest=0.0, highest=1.0, bins=2) == [1, 3]


def test_decisive_metrics_come_first_and_the_cursor_skips_headings() -> None:
    scores = CaseScores(result("a", metric("latency", 0.1, None), metric("m", 1.0)), ())

    assert scores.selected_row is not None and scores.selected_row.name == "m"
    scores.move(1)
    assert scores.selected_row.name == "latency"
    scores.move(-1)
    assert scores.selected_row.name == "m"
    scores.move_to(99)
    assert scores.selected_row.name == "latency"


@pytest.mark.parametrize("width", [20, 45, 60, 90, 150])
def test_no_row_is_wider_than_its_list(width: int) -> None:
    turns = tuple(InvocationScore(score=0.5) for _ in range(30))
    case_result = result(NASTY, metric(f"空 {NASTY}", 0.25, per_invocation=turns), metric("latency", 1e9, None))
    group, table = GroupScores(summarize_scores([make_stored_scores(case_result)]), stale=0), ResultTable()
    group.toggle()
    table.add([make_table_row(case_result, None)])
    table.arrange()
    table.fit_columns(width)

    for rows in (CaseScores(case_result, (case_result,)), group, table):
        lines = [rows.line(index, width) for index in range(len(rows))]
        assert all("\x1b" not in join_lines([line]) for line in lines)
        if width >= 45:  # the list truncates below this width
            assert max(cell_len(join_lines([line])) for line in lines) <= width


@pytest.mark.parametrize(
    ("unknown", "is_row", "expects", "expected_text"),
    [
        (None, False, ["look"], "0/1"),
        ("it never tells", False, ["look"], "?/1"),
        (None, True, ["look"], "?/1"),
        (None, True, None, "?"),
    ],
)
def test_unknown_calls_are_not_counted(
    unknown: str | None, is_row: bool, expects: list[str] | None, expected_text: str
) -> None:
    steps = {} if expects is None else {"intermediate_data": {"tool_uses": [{"name": name} for name in expects]}}
    expected_turn = {"user_content": {"parts": []}, **steps}
    case = EvalCase.model_validate({"eval_id": "a", "conversation": [expected_turn]})
    invocation = Invocation.model_validate({"user_content": {"parts": []}})
    turn = TurnResult(invocation=invocation, duration_seconds=0.1, calls_unknown=unknown)
    execution_fields = {"execution": Execution(turns=(turn,)), "expected_by_row": case if is_row else None}
    case_result = result("a").model_copy(update=execution_fields)

    calls = next(column for column in make_columns({}) if column.id == "calls")

    assert calls.cell(make_table_row(case_result, case)).text == expected_text


def test_repeats_that_disagree_are_flaky() -> None:
    repeats = [result("a", metric("m", score), repeat=number) for number, score in enumerate([1.0, 0.0, 1.0])]

    text = render_text(CaseScores(repeats[0], repeats).blocks())

    assert "2 of 3 repeats passed · 67%, 95 % interval 21% to 94%  ~ flaky" in text
    assert "pass@2 100% (37%-100%)  pass^2 33% (4%-88%)\npass@3 100%" in text
    assert "repeat 2" in text


def test_details_of_any_shape_are_a_tree_that_shows_no_secret() -> None:
    details = {"rubrics": [{"id": "r1", "verdict": True, "why": NASTY}], "api_key": "abcdefgh", "none": None, "n": 0.5}

    text = render_text(format_value(details, indent=2))

    assert "verdict  yes" in text
    assert "none  none" in text
    assert "[redacted]" in text and "abcdefgh" not in text
    assert "\x1b" not in text and "[/foo]" in text


def test_reasons_hints_turns_and_meaning_are_shown() -> None:
    turns = (InvocationScore(score=0.0, reason="turn was wrong"), InvocationScore(score=None, reason="nothing said"))
    case_result = metric("trajectory_precision", 0.0, reason="no call fits", hint="look at names", per_invocation=turns)

    text = render_text(CaseScores(result("a", case_result), ()).blocks())

    for wanted in ("why  no call fits", "hint  look at names", "turn was wrong", "nothing said", "higher is better"):
        assert wanted in text
    assert "a metric of this project" in render_text(CaseScores(result("a", metric("mine", 1.0)), ()).blocks())


def test_the_table_keeps_its_row_and_sorts_missing_values_last() -> None:
    table = ResultTable()
    table.add([make_table_row(result("b", metric("m", 0.5)), None), make_table_row(result("c"), None)])
    table.arrange()
    table.move(1)
    table.column = next(place for place, column in enumerate(table.columns) if column.id == "m")
    table.sort()
    table.add([make_table_row(result("a", metric("m", 0.9)), None)])
    table.arrange()

    assert [row.name for row in table.rows] == ["b", "a", "c"]
    assert table.selected_row is not None and table.selected_row.name == "c"
    table.sort()
    assert [row.name for row in table.rows] == ["a", "b", "c"]


def test_repeats_share_a_row_with_means_unless_they_are_expanded() -> None:
    table = ResultTable()
    table.add(make_table_row(result("a", metric("m", score), repeat=n), None) for n, score in enumerate([1.0, 0.0]))
    table.arrange()

    (row,) = table.rows
    assert (row.repeats, row.passed, row.status.value, row.scores["m"].score) == (2, 1, "failed", 0.5)
    assert "0.5" in join_lines(table.format_statistics(200))
    assert table.format_statistics(28) == []  # no column with a mean is visible
    table.by_repeat = True
    table.arrange()
    assert [row.name for row in table.rows] == ["a", "a [2]"]


def test_live_samples_that_differ_are_shown_in_a_row_that_is_replayed() -> None:
    calls = Execution(model_calls=ModelCalls(replayed=1))
    replayed = result("a").model_copy(update={"execution": calls})
    samples = [CaseStatus.PASSED, CaseStatus.FAILED, CaseStatus.FAILED]
    table = ResultTable()
    table.add([make_table_row(result("live"), None, samples)])
    assert "live_samples" not in [column.id for column in table.columns], "this verdict is not replayed"
    table.add([make_table_row(replayed, None, samples)])
    table.arrange()

    text = table.format_row(table.rows[1])

    assert "status: ✓ ↺ ~1/3" in text and "live samples: ~ 1 of 3 passed" in text
    assert "live samples" not in table.format_row(table.rows[0])
    same = make_table_row(replayed, None, [CaseStatus.PASSED] * 2)
    assert "status: ✓ passed ↺\n" in table.format_row(same) and "live samples: 2 of 2 passed" in table.format_row(same)


def test_sorting_keeps_the_selected_repeat() -> None:
    table = ResultTable()
    table.by_repeat = True
    table.add(
        make_table_row(result("a", metric("m", score), repeat=n), None) for n, score in enumerate([1.0, 0.0, 0.5])
    )
    table.arrange()
    table.move(2)
    table.column = next(place for place, column in enumerate(table.columns) if column.id == "m")
    table.sort()

    assert [row.name for row in table.rows] == ["a [2]", "a [3]", "a"]
    assert table.selected_row is not None and table.selected_row.name == "a [3]"


def test_means_are_computed_once_and_only_for_visible_columns() -> None:
    computed_columns: list[str] = []

    def count_calls(column: Column) -> Column:
        def number(row: TableRow) -> float | None:
            computed_columns.append(column.id)
            return column.number(row) if column.number is not None else None

        return replace(column, number=number if column.number is not None else None)

    table = ResultTable()
    table.add(
        [make_table_row(result("a", metric("m", 1.0)), None), make_table_row(result("b", metric("m", 0.0)), None)]
    )
    table.all_columns = [count_calls(column) for column in table.all_columns]
    table.arrange()
    table.format_statistics(28)
    assert computed_columns == []
    table.format_statistics(250)
    table.sort()
    table.format_statistics(250)

    assert sorted(computed_columns) == ["latency", "latency", "m", "m"]


def test_the_id_and_the_column_under_the_cursor_are_always_drawn() -> None:
    table = ResultTable()
    table.add([make_table_row(result("a", metric("m", 1.0)), None)])
    table.arrange()
    for _ in table.columns:
        table.move_column(1)
    table.fit_columns(60)

    assert "m why" in join_lines([table.format_titles(60)])
    assert join_lines([table.line(0, 60)]).startswith(" a ")


def test_all_scores_that_decide_are_visible_at_140_columns_in_the_order_of_the_criteria() -> None:
    names = [f"tool_trajectory_score_of_kind_{kind}" for kind in "zyxwv"]
    measures = [metric(name, 0.5, None) for name in ("latency", "token_usage_v1", "calls_v1")]
    table = ResultTable()
    table.add([make_table_row(result("long id " * 9, *measures, *(metric(name, 0.5) for name in names)), None)])
    other = CaseKey(target="t", eval_set="other.evalset.json", eval_id="b")
    table.add([make_table_row(result("b", *measures).model_copy(update={"case": other}), None)])
    table.arrange()

    titles = join_lines([table.format_titles(140)])

    places = [titles.index(f"_{kind} ") for kind in "zyxwv"]
    assert titles.split()[:4] == ["case", "eval", "set", "status"] and places == sorted(places)
    assert [column.id for column in table.columns][-2:] == ["calls_v1", "calls_v1 why"]


def test_the_last_column_is_narrower_or_left_out_but_never_a_sliver() -> None:
    table = ResultTable()
    table.add([make_table_row(result("a", metric("tool_trajectory_avg_score", 1.0)), None)])
    table.arrange()
    wide = next(width for width in range(200) if "response" in join_lines([table.format_titles(width)]))

    assert join_lines([table.format_titles(wide - 1)]).rstrip().endswith("tool_trajectory_avg_score")
    for width in range(20, 200):
        assert not join_lines([table.line(0, width), *table.format_statistics(width)]).rstrip().endswith(" …"), width


def test_the_mean_of_the_latency_has_the_unit_of_its_column() -> None:
    table = ResultTable()
    seconds = (0.02, 0.04)
    table.add(make_table_row(result(f"{s}").model_copy(update={"agent_seconds": s}), None) for s in seconds)
    table.arrange()

    assert "30 ms" in join_lines([table.format_statistics(250)[0]])
    assert "±14 ms" in join_lines([table.format_statistics(250)[1]])


def test_the_cursor_stays_on_its_column_while_results_arrive() -> None:
    table = ResultTable()
    table.add([make_table_row(result("a"), None)])
    table.column = next(place for place, column in enumerate(table.columns) if column.id == "calls")
    table.add([make_table_row(result("b", metric("m", 0.5)), None)])

    assert table.columns[table.column].id == "calls"


def test_a_table_of_more_sets_keeps_the_column_and_does_not_scroll() -> None:
    rows = [make_table_row(result(name, *(metric(f"metric_{n}", 0.5) for n in range(9))), None) for name in ("a", "b")]
    one, all_sets = ResultTable(), ResultTable()
    one.add(rows[:1])
    one.fit_columns(80)

    all_sets.copy_view(one)
    all_sets.add([rows[0], replace(rows[1], case=rows[1].case.model_copy(update={"eval_set": "other"}))])
    all_sets.arrange()
    all_sets.fit_columns(80)

    assert all_sets.columns[all_sets.column].id == "status"
    assert join_lines([all_sets.format_titles(80)]).split()[:4] == ["case", "eval", "set", "status"]


def test_one_column_always_stays() -> None:
    table = ResultTable()
    for column in table.all_columns:
        table.toggle_column(column.id)

    assert len(table.columns) == 1


def make_comparison(before: str, after: str, *, name: str = "m") -> RunComparison:
    run = StoredRun(run_id="r", started_at=datetime(2026, 1, 1, tzinfo=UTC), root=Path("/p"), ended=True)
    sides = [
        collect_verdicts(
            make_stored_scores(result(f"c{n}", metric(name, float(letter == "P")))) for n, letter in enumerate(letters)
        )
        for letters in (before, after)
    ]
    return compare_runs(run, run, *sides, list_earlier=lambda _: ())


def test_compared_cases_can_be_narrowed_to_flips() -> None:
    cases = ComparedCases(make_comparison("PPFF", "PFPF"))

    changes = [row.change for row in cases.rows]
    assert changes == [VerdictChange.REGRESSION, VerdictChange.FIX, VerdictChange.SAME, VerdictChange.SAME]
    assert "m  1.00 → 0.00 (-1.00)" in render_text(cases.blocks())
    assert len(ComparedCases(cases.comparison, only_flips=True)) == 2
    assert "1 regression, 1 fix, 2 same" in join_lines(cases.header_lines())


def test_scores_of_an_execution_have_no_blank_lines_where_their_rows_fit_exactly() -> None:
    name = "tool_trajectory_avg_score"
    stored = make_stored_scores(result("c", metric(name, 0.0), metric("m", 1.0)))
    run = StoredRun(run_id="r", started_at=datetime(2026, 1, 1, tzinfo=UTC), root=Path("/p"), ended=True)
    blocks = ExecutionRows(CaseHistory(stored.job.key.case, (stored,), {"r": run})).blocks()

    lines = [join_lines([line]) for line in render_blocks(blocks, width=41, side_by_side=False)]
    start = lines.index("scores")
    assert [line.split()[1] for line in lines[start + 1 : start + 3]] == [name, "m"]


def test_narrow_rows_leave_words_of_verdicts_out_and_keep_both_symbols() -> None:
    cases = ComparedCases(make_comparison("PF", "FP"))

    assert join_lines([cases.line(0, 36)]).split()[-3:] == ["✓", "→", "✗"]
    assert join_lines([cases.line(0, 80)]).split()[-5:] == ["✓", "passed", "→", "✗", "failed"]


def test_the_score_that_changed_most_has_two_digits_and_whole_words_of_its_name() -> None:
    cases = ComparedCases(make_comparison("P", "F", name="rubric_based_final_response_quality_v1"))

    line = join_lines([cases.line(0, 120)]).rstrip()
    assert line.endswith("response_quality_v1 -1.00") and "…_" in line


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (90, "  2026-01-01 00:00:00  █████░░░░░  50%  1/2  ✗ 1"),
        (44, "  2026-01-01 00:00:00   50%  1/2  ✗ 1"),
        (34, "  2026-01-01 00:00:00   50%  1/2"),
        (30, "  2026-01-01 00:00:00   50%"),
    ],
)
def test_rows_of_runs_leave_parts_out_as_a_whole(monkeypatch: pytest.MonkeyPatch, width: int, expected: str) -> None:
    monkeypatch.setattr("workbench.tui.state.history_state.time_text", lambda _: "2026-01-01 00:00:00")
    run = StoredRun(run_id="r", started_at=datetime(2026, 1, 1, tzinfo=UTC), root=Path("/p"), ended=True)
    runs = GroupRuns([RunPart(run, RunSummary(total=2, passed=1, failed=1))], target="t", eval_set=None)

    assert join_lines([runs.line(0, width)]).rstrip() == expected


def test_the_mean_latency_of_a_run_is_a_time() -> None:
    means = {"latency": MetricSummary(mean=0.104, std=1.5, scored=2, total=2)}
    summary = RunSummary(total=2, passed=2, metrics=means)
    run = StoredRun(
        run_id="r", started_at=datetime(2026, 1, 1, tzinfo=UTC), root=Path("/p"), ended=True, summary=summary
    )
    runs = GroupRuns([RunPart(run, summary)], target="t", eval_set=None)

    assert "latency  104 ms ±1.50 s  (2 of 2 scored)" in render_text(runs.blocks())


def test_the_title_of_a_table_counts_stale_rows_once() -> None:
    table = ResultTable()
    table.add(make_table_row(result(name, metric("m", score, 0.5)), None) for name, score in (("a", 1.0), ("b", 0.0)))
    table.arrange()
    assert table.mark_stale({table.rows[0].case})
    table.arrange()

    titles = [join_lines([table.format_title("lights", StyledText(""), width)]) for width in (140, 30, 6)]
    failing = table.rows[1].status.value
    assert titles[0] == f" results of lights   2 rows   ✗ 1 {failing}   ● 1 stale (✓ 1)"
    assert [title.split()[0] for title in titles[1:]] == ["lights", "✗"]


def test_cases_of_the_same_id_have_their_set() -> None:
    run = StoredRun(run_id="r", started_at=datetime(2026, 1, 1, tzinfo=UTC), root=Path("/p"), ended=True)
    scores = [
        make_stored_scores(
            each.model_copy(update={"case": each.case.model_copy(update={"eval_set": f"sets/{eval_set}.test.json"})})
        )
        for eval_set, each in (("one", result("same")), ("two", result("same")), ("two", result("other")))
    ]
    verdicts = collect_verdicts(scores)
    cases = ComparedCases(compare_runs(run, run, verdicts, verdicts, list_earlier=lambda _: ()))

    rows = [join_lines([cases.line(index, 100)]) for index in range(len(cases))]
    assert [("one" in row, "two" in row) for row in rows] == [(True, False), (False, False), (False, True)]


def test_cases_that_only_one_run_has_are_folded_below_the_others() -> None:
    cases = ComparedCases(make_comparison("P" * 20, "P"))

    assert [row.change for row in cases.rows] == [VerdictChange.SAME, VerdictChange.GONE]
    assert join_lines([cases.line(1, 80)]) == " ▸ 19 cases only in the run before"
    cases.move_to(1)
    assert cases.selected_case is None
    cases.toggle_fold()
    assert len(cases) == 21 and cases.cursor == 1
    cases.move(1)
    assert cases.selected_case is not None and cases.selected_case.change is VerdictChange.GONE
    cases.move(-1)
    cases.toggle_fold()
    assert len(cases) == 2


def test_a_few_cases_that_only_one_run_has_are_listed_last() -> None:
    rows = ComparedCases(make_comparison("PFPE", "PPFFPP")).rows

    same, one = [VerdictChange.SAME], [VerdictChange.NEW, VerdictChange.NEW]
    assert [row.change for row in rows] == [VerdictChange.REGRESSION, VerdictChange.FIX, *same, *same, *one]


def test_all_cases_are_listed_if_no_case_is_in_both_runs() -> None:
    assert len(ComparedCases(make_comparison("", "P" * 20))) == 21


def test_means_show_their_number_of_cases() -> None:
    assert render_text(ComparedCases(make_comparison("P", "P")).blocks()).rstrip().endswith(", 1 case: unchanged")
    assert "(-1.00), 2 cases" in render_text(ComparedCases(make_comparison("PP", "FF")).blocks())


def test_runs_without_cases_give_an_empty_comparison() -> None:
    cases = ComparedCases(make_comparison("", ""))

    assert (len(cases), cases.selected_case) == (0, None)
    assert render_text(cases.blocks()).strip() == "cannot tell: no case has a verdict in both runs"
    assert "no case ran in either" in join_lines(cases.header_lines())
