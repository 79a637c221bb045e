"""The choice of criteria, without a screen."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.metrics.registry import PRESETS, known_metrics
from workbench.model.criteria import Criterion, CustomMetric, EvalConfig, JudgeMetric
from workbench.tui.state.criteria_choice import (
    CriteriaChoice,
    CriteriaFile,
    CriteriaRows,
    FamilyRow,
    MetricRow,
    OptionRow,
    describe_selected,
    find_step,
    format_header,
    format_range,
    parse_value,
)
from workbench.tui.state.text_layout import render_blocks

TRAJECTORY = Criterion(metric="tool_trajectory_avg_score", threshold=1.0, options={"matchType": "IN_ORDER"})


def config(*criteria: Criterion, **custom: CustomMetric) -> EvalConfig:
    return EvalConfig(criteria=criteria, custom_metrics=custom, source="test_config.json")


def choice(*criteria: Criterion, **custom: CustomMetric) -> CriteriaChoice:
    return CriteriaChoice(config(*(criteria or (TRAJECTORY,)), **custom))


def go_to(chosen: CriteriaChoice, row: Any) -> None:
    chosen.move_to(chosen.rows.index(row))


def test_every_known_metric_is_listed_once_under_its_family_with_the_files_own() -> None:
    chosen = choice(TRAJECTORY, Criterion(metric="nobody_knows", threshold=1), mine=CustomMetric(path="a.mine"))

    metrics = [row.metric for row in chosen.rows if isinstance(row, MetricRow)]

    assert sorted(metrics) == sorted([*known_metrics(), "mine", "nobody_knows"])
    custom = chosen.rows.index(FamilyRow("custom"))
    assert chosen.rows[custom + 1 : custom + 3] == [MetricRow("mine"), MetricRow("nobody_knows")]


def test_a_judge_metric_of_the_file_is_listed_among_those_of_judges_with_the_range_of_its_rubric() -> None:
    tone = JudgeMetric(criteria={"Tone": "t"}, rating_rubric={"1": "bad", "2": "fair", "5": "good"})
    chosen = CriteriaChoice(config(TRAJECTORY).model_copy(update={"judge_metrics": {"tone": tone}}))

    rows = list(chosen.rows)
    families = [row.family for row in rows[: rows.index(MetricRow("tone"))] if isinstance(row, FamilyRow)]

    assert families[-1] == "judge"
    assert chosen.find_range("tone") == (1.0, 5.0)
    assert chosen.check_threshold("tone", "7") is not None


def test_an_unchanged_choice_is_the_file_whatever_was_tried_in_between() -> None:
    chosen = choice(TRAJECTORY, Criterion(metric="exact_match", threshold=1.0))
    go_to(chosen, MetricRow(TRAJECTORY.metric))

    chosen.toggle()
    assert chosen.config.source == "chosen for this run"
    chosen.toggle()

    assert not chosen.is_changed
    assert chosen.config.source == "test_config.json"


def test_a_metric_switched_off_keeps_its_settings() -> None:
    chosen = choice()
    go_to(chosen, MetricRow(TRAJECTORY.metric))
    chosen.set_threshold(TRAJECTORY.metric, 0.4)

    chosen.toggle()
    chosen.toggle()

    assert chosen.get_criterion(TRAJECTORY.metric).threshold == 0.4


def test_an_option_keeps_the_spelling_of_the_file() -> None:
    chosen = choice()
    go_to(chosen, OptionRow(TRAJECTORY.metric, "match_type"))

    chosen.step(1)
    assert chosen.get_criterion(TRAJECTORY.metric).options == {"matchType": "ANY_ORDER"}
    chosen.step(1)
    assert chosen.get_criterion(TRAJECTORY.metric).options == {"matchType": "EXACT"}
    chosen.set_option(TRAJECTORY.metric, "match_type", None)
    assert chosen.get_criterion(TRAJECTORY.metric).options == {}


@pytest.mark.parametrize(
    ("metric", "threshold", "by", "stepped"),
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
def test_a_threshold_goes_in_steps_that_fit_its_range(
    metric: str, threshold: float | None, by: int, stepped: float
) -> None:
    chosen = choice(Criterion(metric=metric, threshold=threshold))
    go_to(chosen, MetricRow(metric))

    chosen.step(by)

    assert chosen.get_criterion(metric).threshold == stepped


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
def test_a_metric_begins_with_its_usual_threshold(metric: str, usual: float | None) -> None:
    assert choice(Criterion(metric="bleu", threshold=0.1)).get_criterion(metric).threshold == usual


@pytest.mark.parametrize(
    ("text", "is_right"), [("0.5", True), ("", True), ("1.01", False), ("-0.1", False), ("nan", False), ("high", False)]
)
def test_a_typed_threshold_is_checked_against_the_range(text: str, is_right: bool) -> None:
    assert (choice().check_threshold("exact_match", text) is None) is is_right


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
    assert (choice().check_option(TRAJECTORY.metric, option, text) is None) is is_right


def test_problems_are_told_by_metric() -> None:
    chosen = choice()
    chosen.set_option(TRAJECTORY.metric, "match_type", "EXAKT")
    chosen.set_threshold("trajectory_single_tool_use", 1.0)

    assert list(chosen.problems) == [TRAJECTORY.metric, "trajectory_single_tool_use"]
    assert "EXACT" in chosen.problems[TRAJECTORY.metric][0]


def test_the_search_finds_names_and_purposes() -> None:
    chosen = choice()

    chosen.search_for_text("ROUGE-1")
    assert [row.metric for row in chosen.rows if isinstance(row, MetricRow)] == ["response_match_score"]

    chosen.search_for_text("zzz")
    assert chosen.rows == [] and chosen.selected_row is None
    assert "No metric" in shown(chosen)


def test_a_preset_keeps_what_was_set_before_and_reset_goes_back_to_the_file() -> None:
    chosen = choice()

    chosen.apply_preset(PRESETS[0])
    assert [criterion.metric for criterion in chosen.config.criteria] == [TRAJECTORY.metric, "response_match_score"]
    assert chosen.get_criterion(TRAJECTORY.metric) == TRAJECTORY

    chosen.reset()
    assert not chosen.is_changed


def test_a_remembered_choice_is_held_against_the_file_as_it_is_now() -> None:
    remembered = config(Criterion(metric="bleu", threshold=0.3))

    chosen = CriteriaChoice(config(TRAJECTORY), chosen=remembered)

    assert chosen.is_changed and chosen.is_on("bleu") and not chosen.is_on(TRAJECTORY.metric)


def shown(chosen: CriteriaChoice) -> str:
    lines = render_blocks(describe_selected(chosen, None), width=400, side_by_side=False)
    return "\n".join("".join(piece.text for piece in line) for line in lines)


def test_the_detail_says_what_a_metric_needs() -> None:
    chosen = choice()
    go_to(chosen, MetricRow("hallucinations_v1"))

    text = shown(chosen)

    assert "a judge model" in text and "fits them" in text and "needs none" in text


def test_text_of_the_file_cannot_disturb_the_picker() -> None:
    name = "m\x1b[2J[/b]"
    chosen = choice(
        Criterion(metric=name, threshold=1.0), **{name: CustomMetric(path="a.b\x07", description="x\x1b[31m [/foo]")}
    )
    go_to(chosen, MetricRow(name))
    file = CriteriaFile("a\x1b.json", True, chosen.config)

    lines = [CriteriaRows(chosen).line(index, 80) for index in range(len(chosen.rows))]
    lines.append(format_header(chosen, file, of="s\x1b", width=80))

    text = "\n".join("".join(piece.text for piece in line) for line in lines) + shown(chosen)
    assert "\x1b" not in text and "\x07" not in text


def test_values_are_in_sight_in_a_narrow_list_and_that_the_choice_is_changed_above_it() -> None:
    chosen = choice(Criterion(metric="tool_trajectory_avg_score", threshold=1.0))
    go_to(chosen, MetricRow("tool_trajectory_avg_score"))
    chosen.step(-1)
    rows = CriteriaRows(chosen)

    lines = ["".join(piece.text for piece in rows.line(index, 56)).rstrip() for index in range(len(rows))]
    header = "".join(
        piece.text
        for piece in format_header(chosen, CriteriaFile("a.json", True, config()), of="a/set.evalset.json", width=80)
    )

    assert next(line for line in lines if "match_type" in line).endswith("EXACT (default)")
    assert max(len(line) for line in lines) <= 56
    assert header.index("changed, not in the file") < 60


def test_words_and_values() -> None:
    assert [format_range(*bounds) for bounds in ((0, 1), (0, None), (None, 5), (None, None))] == [
        "a number from 0 to 1",
        "a number of at least 0",
        "a number up to 5",
        "a number",
    ]
    assert [find_step(0, 1), find_step(1, 5), find_step(0, None)] == [0.05, 0.1, 1.0]
    assert [parse_value(text) for text in ("", "true", "[1]", "subset", '"1"')] == [None, True, [1], "subset", "1"]
