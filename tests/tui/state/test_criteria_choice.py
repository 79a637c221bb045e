"""The choice of criteria, without a screen."""

from __future__ import annotations

import re
from typing import Any

import pytest

from workbench.metrics.registry import PRESETS, known_metrics
from workbench.model.criteria import Criterion, CustomMetricFunction, EvalConfig, JudgeMetric
from workbench.tui.state.criteria_choice import (
    CriteriaChoice,
    CriteriaFile,
    CriteriaRows,
    FamilyRow,
    MetricChoice,
    OptionRow,
    describe_selected,
    find_step,
    format_header,
    format_range,
    parse_value,
)
from workbench.tui.state.text_layout import render_blocks

TRAJECTORY = Criterion(metric="tool_trajectory_avg_score", threshold=1.0, options={"matchType": "IN_ORDER"})


def make_config(*criteria: Criterion, **custom: CustomMetricFunction) -> EvalConfig:
    return EvalConfig(criteria=criteria, custom_metrics=custom, source="test_config.json")


def make_choice(*criteria: Criterion, **custom: CustomMetricFunction) -> CriteriaChoice:
    return CriteriaChoice(make_config(*(criteria or (TRAJECTORY,)), **custom))


def move_cursor(choice: CriteriaChoice, row: Any) -> None:
    choice.move_to(choice.rows.index(row))


def test_every_metric_is_listed_once_under_its_family() -> None:
    choice = make_choice(
        TRAJECTORY, Criterion(metric="nobody_knows", threshold=1), mine=CustomMetricFunction(path="a.mine")
    )

    metrics = [row.metric for row in choice.rows if isinstance(row, MetricChoice)]

    assert sorted(metrics) == sorted([*known_metrics(), "mine", "nobody_knows"])
    custom = choice.rows.index(FamilyRow("custom"))
    assert choice.rows[custom + 1 : custom + 3] == [MetricChoice("mine"), MetricChoice("nobody_knows")]


def test_a_judge_metric_of_the_file_is_listed_with_the_range_of_its_rubric() -> None:
    tone = JudgeMetric(criteria={"Tone": "t"}, rating_rubric={"1": "bad", "2": "fair", "5": "good"})
    choice = CriteriaChoice(make_config(TRAJECTORY).model_copy(update={"judge_metrics": {"tone": tone}}))

    rows = list(choice.rows)
    families = [row.family for row in rows[: rows.index(MetricChoice("tone"))] if isinstance(row, FamilyRow)]

    assert families[-1] == "judge"
    assert choice.find_range("tone") == (1.0, 5.0)
    assert choice.check_threshold("tone", "7") is not None


def test_a_choice_that_is_changed_back_equals_the_file() -> None:
    choice = make_choice(TRAJECTORY, Criterion(metric="exact_match", threshold=1.0))
    move_cursor(choice, MetricChoice(TRAJECTORY.metric))

    choice.toggle()
    assert choice.config.source == "chosen for this run"
    choice.toggle()

    assert not choice.is_changed
    assert choice.config.source == "test_config.json"


def test_a_metric_switched_off_keeps_its_settings() -> None:
    choice = make_choice()
    move_cursor(choice, MetricChoice(TRAJECTORY.metric))
    choice.set_threshold(TRAJECTORY.metric, 0.4)

    choice.toggle()
    choice.toggle()

    assert choice.get_criterion(TRAJECTORY.metric).threshold == 0.4


def test_an_option_keeps_the_spelling_of_the_file() -> None:
    choice = make_choice()
    move_cursor(choice, OptionRow(TRAJECTORY.metric, "match_type"))

    choice.step(1)
    assert choice.get_criterion(TRAJECTORY.metric).options == {"matchType": "ANY_ORDER"}
    choice.step(1)
    assert choice.get_criterion(TRAJECTORY.metric).options == {"matchType": "EXACT"}
    choice.set_option(TRAJECTORY.metric, "match_type", None)
    assert choice.get_criterion(TRAJECTORY.metric).options == {}


@pytest.mark.parametrize(
    ("metric", "threshold", "steps", "expected"),
    [
        ("exact_match", 0.97, 1, 1.0),
        ("exact_match", 0.03, -1, 0.0),
        ("exact_match", 0.1, 1, 0.15),
        ("exact_match", None, 1, 0.0),
        ("exact_match", None, -1, 1.0),
        ("latency", 2.0, 1, 3.0),
        ("latency", 0.5, -1, 0.0),
        ("response_evaluation_score", 4.0, 1, 4.1),
    ],
)
def test_a_threshold_changes_in_steps_that_fit_its_range(
    metric: str, threshold: float | None, steps: int, expected: float
) -> None:
    choice = make_choice(Criterion(metric=metric, threshold=threshold))
    move_cursor(choice, MetricChoice(metric))

    choice.step(steps)

    assert choice.get_criterion(metric).threshold == expected


@pytest.mark.parametrize(
    ("metric", "usual"),
    [
        ("tool_trajectory_avg_score", 1.0),
        ("response_match_score", 0.8),
        ("rouge_1", 0.8),
        ("response_evaluation_score", 4.2),
        ("latency", None),
    ],
)
def test_a_metric_starts_with_its_usual_threshold(metric: str, usual: float | None) -> None:
    assert make_choice(Criterion(metric="bleu", threshold=0.1)).get_criterion(metric).threshold == usual


@pytest.mark.parametrize(
    ("text", "is_right"), [("0.5", True), ("", True), ("1.01", False), ("-0.1", False), ("nan", False), ("high", False)]
)
def test_a_typed_threshold_is_checked_against_the_range(text: str, is_right: bool) -> None:
    assert (make_choice().check_threshold("exact_match", text) is None) is is_right


@pytest.mark.parametrize(
    ("option", "text", "is_right"),
    [
        ("match_type", "any order", True),
        ("match_type", "EXAKT", False),
        ("ignore_args", "true", True),
        ("ignore_args", "yes", False),
        ("args_match", '{"tools": {"log": "ignore"}}', True),
        ("args_match", '{"tols": {}}', False),
        ("args_match", "", True),
    ],
)
def test_a_typed_option_is_checked_as_planning_would(option: str, text: str, is_right: bool) -> None:
    assert (make_choice().check_option(TRAJECTORY.metric, option, text) is None) is is_right


def test_problems_are_grouped_by_metric() -> None:
    choice = make_choice()
    choice.set_option(TRAJECTORY.metric, "match_type", "EXAKT")
    choice.set_threshold("trajectory_single_tool_use", 1.0)

    assert list(choice.problems) == [TRAJECTORY.metric, "trajectory_single_tool_use"]
    assert "EXACT" in choice.problems[TRAJECTORY.metric][0]


def test_the_search_finds_names_and_purposes() -> None:
    choice = make_choice()

    choice.search_for_text("ROUGE-1")
    assert [row.metric for row in choice.rows if isinstance(row, MetricChoice)] == ["response_match_score"]

    choice.search_for_text("zzz")
    assert choice.rows == [] and choice.selected_row is None
    assert "No metric" in render_detail(choice)


def test_a_preset_keeps_earlier_settings_and_reset_restores_the_file() -> None:
    choice = make_choice()

    choice.apply_preset(PRESETS[0])
    assert [criterion.metric for criterion in choice.config.criteria] == [TRAJECTORY.metric, "response_match_score"]
    assert choice.get_criterion(TRAJECTORY.metric) == TRAJECTORY

    choice.reset()
    assert not choice.is_changed


def test_a_stored_choice_is_compared_with_the_current_file() -> None:
    stored_config = make_config(Criterion(metric="bleu", threshold=0.3))

    choice = CriteriaChoice(make_config(TRAJECTORY), chosen=stored_config)

    assert choice.is_changed and choice.is_on("bleu") and not choice.is_on(TRAJECTORY.metric)


def render_detail(choice: CriteriaChoice) -> str:
    lines = render_blocks(describe_selected(choice, None), width=400, side_by_side=False)
    return "\n".join("".join(piece.text for piece in line) for line in lines)


def test_the_detail_says_what_a_metric_needs() -> None:
    choice = make_choice()
    move_cursor(choice, MetricChoice("hallucinations_v1"))

    text = render_detail(choice)

    assert "a judge model" in text and "fits them" in text and "needs none" in text


def test_text_of_the_file_cannot_break_the_picker() -> None:
    name = "m\x1b[2J[/b]"
    choice = make_choice(
        Criterion(metric=name, threshold=1.0),
        **{name: CustomMetricFunction(path="a.b\x07", description="x\x1b[31m [/foo]")},
    )
    move_cursor(choice, MetricChoice(name))
    file = CriteriaFile("a\x1b.json", True, choice.config)

    lines = [CriteriaRows(choice).line(index, 80) for index in range(len(choice.rows))]
    lines.append(format_header(choice, file, of="s\x1b", width=80))

    text = "\n".join("".join(piece.text for piece in line) for line in lines) + render_detail(choice)
    assert "\x1b" not in text and "\x07" not in text


def test_a_narrow_picker_shows_values_and_that_the_choice_is_changed() -> None:
    choice = make_choice(Criterion(metric="tool_trajectory_avg_score", threshold=1.0))
    move_cursor(choice, MetricChoice("tool_trajectory_avg_score"))
    choice.step(-1)
    rows = CriteriaRows(choice)

    lines = ["".join(piece.text for piece in rows.line(index, 56)).rstrip() for index in range(len(rows))]
    header = "".join(
        piece.text
        for piece in format_header(
            choice, CriteriaFile("a.json", True, make_config()), of="a/set.evalset.json", width=80
        )
    )

    assert next(line for line in lines if "match_type" in line).endswith("EXACT (default)")
    assert max(len(line) for line in lines) <= 56
    assert header.index("changed, not in the file") < 60


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (
            120,
            " criteria of home/lights.evalset.json  from home/folder/test_config.json, shared with 2 other sets",
        ),
        (90, " criteria of home/lights.evalset.json  shared with 2 other sets  from test_config.json"),
        (70, " criteria of home/lights.evalset.json  shared with 2 other sets"),
        (50, " criteria of lights  shared with 2 other sets"),
        (34, " lights  shared with 2 other sets"),
        (30, " l…s  shared with 2 other sets"),
    ],
)
def test_the_header_leaves_parts_out_as_a_whole(width: int, expected: str) -> None:
    choice = make_choice(Criterion(metric="tool_trajectory_avg_score", threshold=1.0))
    file = CriteriaFile("home/folder/test_config.json", True, make_config(), also_judges=2)

    header = format_header(choice, file, of="home/lights.evalset.json", width=width)

    assert "".join(piece.text for piece in header) == expected


def test_ranges_steps_and_typed_values_are_correct() -> None:
    assert [format_range(*bounds) for bounds in ((0, 1), (0, None), (None, 5), (None, None))] == [
        "a number from 0 to 1",
        "a number of at least 0",
        "a number up to 5",
        "a number",
    ]
    assert [find_step(0, 1), find_step(1, 5), find_step(0, None)] == [0.05, 0.1, 1.0]
    assert [parse_value(text) for text in ("", "true", "[1]", "subset", '"1"')] == [None, True, [1], "subset", "1"]


def render_row(choice: CriteriaChoice, metric: str, *, width: int) -> str:
    rows = CriteriaRows(choice)
    return "".join(piece.text for piece in rows.line(choice.rows.index(MetricChoice(metric)), width)).rstrip()


def test_a_slider_shows_threshold_scores_and_how_many_would_pass() -> None:
    choice = make_choice(Criterion(metric="exact_match", threshold=0.5))
    choice.scores = {"exact_match": [0.0, 1.0, 1.0]}

    row = render_row(choice, "exact_match", width=120)

    assert re.search("┿─{11}●━{10,11}┿  2 of 3 would pass$", row)
    choice.set_threshold("exact_match", 0.0)
    assert render_row(choice, "exact_match", width=120).endswith("3 of 3 would pass")
    assert render_row(choice, "exact_match", width=82).endswith("┿  3 of 3")
    assert choice.count_passing("exact_match") == (3, 3)


@pytest.mark.parametrize("width", [57, 64, 120])
def test_sliders_are_aligned_below_each_other_also_of_a_long_name(width: int) -> None:
    names = ["exact_match", "rubric_based_multi_turn_trajectory_quality_v1"]
    choice = make_choice(*(Criterion(metric=name, threshold=1.0) for name in names))

    ends = [render_row(choice, name, width=width).index("●") for name in names]

    assert ends[0] == ends[1] < width


def test_a_slider_of_a_metric_that_should_be_low_passes_below_its_threshold() -> None:
    choice = make_choice(Criterion(metric="failure", threshold=0.0))
    choice.scores = {"failure": [0.0, 1.0]}

    assert choice.count_passing("failure") == (1, 2)


@pytest.mark.parametrize("width", [30, 50, 56])
def test_without_room_there_is_no_slider(width: int) -> None:
    choice = make_choice(Criterion(metric="exact_match", threshold=0.5))

    assert "●" not in render_row(choice, "exact_match", width=width)
    assert CriteriaRows(choice).find_threshold(choice.rows.index(MetricChoice("exact_match")), width - 5, width) is None


@pytest.mark.parametrize("width", [57, 64, 120])
def test_every_cell_of_a_slider_sets_the_threshold_that_is_shown_there(width: int) -> None:
    choice = make_choice(Criterion(metric="exact_match", threshold=0.5))
    index = choice.rows.index(MetricChoice("exact_match"))
    line = render_row(choice, "exact_match", width=width)
    start = line.index("─")
    for cell in range(start, len(line)):
        found = CriteriaRows(choice).find_threshold(index, cell, width)
        assert found is not None
        choice.set_threshold(*found)
        assert abs(render_row(choice, "exact_match", width=width).index("●") - cell) <= 1
    assert choice.get_criterion("exact_match").threshold == 1.0
    assert CriteriaRows(choice).find_threshold(index, start - 1, width) is None
    assert CriteriaRows(choice).find_threshold(index, len(line), width) is None
    assert CriteriaRows(choice).find_threshold(10_000, start, width) is None


def test_metrics_without_bounds_or_threshold_have_no_slider() -> None:
    choice = make_choice(Criterion(metric="latency", threshold=1.0), Criterion(metric="exact_match"))

    assert "●" not in render_row(choice, "latency", width=120)
    assert "●" not in render_row(choice, "exact_match", width=120)
