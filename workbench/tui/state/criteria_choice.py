"""Choice of criteria and of generated scenarios."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from rich.cells import cell_len

from workbench.metrics.metric_types import MetricInfo
from workbench.metrics.registry import CaseFacts, Preset, check_criteria, compute_fit, find_info, known_metrics
from workbench.model.criteria import DEFAULT_CRITERIA, Criterion, CustomMetricFunction, EvalConfig, InvalidConfig
from workbench.model.evalset import ConversationScenario
from workbench.model.text import format_threshold
from workbench.tui.state.case_outline import find_spelling
from workbench.tui.state.finder import FinderPattern, fold
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    CursorRows,
    Line,
    MarkedRows,
    Paragraph,
    Style,
    StyledText,
    TrackMark,
    add_fitting,
    draw_track,
    format_set_name,
    measure_line,
    plural,
    safe,
    safe_line,
    shorten,
)

# Criteria picker: every known metric, on or off, with its threshold and options.

PICKER_SOURCE = "chosen for this run"
"""Source of criteria from the picker, which no file contains."""

_USUAL_SHARE = 0.8  # share of the range of a metric, for its default threshold
_CUSTOM = "custom"
_FAMILIES = ("trajectory", "response", "state", _CUSTOM, "measure", "judge")


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """Heading of the metrics of one family."""

    family: str


@dataclass(frozen=True, slots=True)
class MetricChoice:
    """A metric, on or off."""

    metric: str


@dataclass(frozen=True, slots=True)
class OptionRow:
    """An option of a metric that is on."""

    metric: str
    option: str


Row = FamilyRow | MetricChoice | OptionRow


class CriteriaChoice(CursorRows):
    """Chosen criteria, and the cursor. `config` is the result."""

    def __init__(self, file: EvalConfig, *, chosen: EvalConfig | None = None) -> None:
        """Start with the criteria `chosen` last, if any. `file` are those that apply otherwise."""
        self._file = file
        self._pattern = FinderPattern("")
        self.scores: Mapping[str, Sequence[float]] = {}
        """Scores of the newest results of the selected cases, by metric."""
        self._criteria: dict[str, Criterion] = {}
        self._selected_metrics: dict[str, None] = {}
        self._select_criteria((chosen or file).criteria)
        self.cursor = next((index for index, row in enumerate(self.rows) if isinstance(row, MetricChoice)), 0)

    # Content.

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def config(self) -> EvalConfig:
        """Chosen criteria, with everything else from the file; the file's own config if nothing changed."""
        criteria = tuple(self._criteria[name] for name in self._selected_metrics)
        if sorted(criteria, key=attrgetter("metric")) == sorted(self._file.criteria, key=attrgetter("metric")):
            return self._file
        return self._file.model_copy(update={"criteria": criteria, "source": PICKER_SOURCE})

    @property
    def is_changed(self) -> bool:
        return self.config is not self._file

    @property
    def rows(self) -> Sequence[Row]:
        """Rows: families with the metrics that match the search, and the options of metrics that are on."""
        return list(self._build_rows())

    @property
    def selected_row(self) -> Row | None:
        rows = self.rows
        return rows[self.cursor] if self.cursor < len(rows) else None

    def find_info(self, metric: str) -> MetricInfo | None:
        """Return the documentation of a metric; None for custom and unknown metrics."""
        return find_info(metric, self._file)

    def find_custom(self, metric: str) -> CustomMetricFunction | None:
        return self._file.custom_metrics.get(metric)

    def is_on(self, metric: str) -> bool:
        return metric in self._selected_metrics

    def get_criterion(self, metric: str) -> Criterion:
        """Return the criterion of a metric, or the one it would get if switched on."""
        known = self._criteria.get(metric)
        return known if known is not None else Criterion(metric=metric, threshold=self._default_threshold(metric))

    def count_passing(self, metric: str) -> tuple[int, int]:
        """Return how many of the newest scores would pass with the current threshold, and how many there are."""
        scores, threshold = self.scores.get(metric, ()), self.get_criterion(metric).threshold
        if threshold is None:
            return 0, 0
        return sum(self.passes(metric, score, threshold) for score in scores), len(scores)

    def passes(self, metric: str, score: float, threshold: float) -> bool:
        info = self.find_info(metric)
        return score <= threshold if info is not None and info.lower_is_better else score >= threshold

    def get_option(self, metric: str, option: str) -> Any:
        """Return the value of an option; None if it is not set."""
        return self._find_options(metric).get(find_spelling(self._find_options(metric), option))

    @property
    def problems(self) -> Mapping[str, Sequence[str]]:
        """Problems of the choice by metric, one sentence each."""
        found: dict[str, list[str]] = {}
        for problem in check_criteria(self.config):
            metric = next((name for name in self._selected_metrics if _is_within(problem, f"criteria.{name}")), "")
            found.setdefault(metric, []).append(f"found {problem.found}, expected {problem.expected}")
        return found

    # Actions of the user.

    def search_for_text(self, text: str) -> None:
        """List only metrics with these words in their name or purpose; empty text lists all."""
        self._pattern = FinderPattern(text)
        self.move_to(next((index for index, row in enumerate(self.rows) if isinstance(row, MetricChoice)), 0))

    def toggle(self) -> None:
        """Switch the selected metric on or off."""
        row = self.selected_row
        if row is None or isinstance(row, FamilyRow):
            return
        if row.metric in self._selected_metrics:
            del self._selected_metrics[row.metric]
            self.cursor = self.rows.index(MetricChoice(row.metric))
        else:
            self._switch_on(self.get_criterion(row.metric))

    def step(self, by: int) -> None:
        """Change the threshold of the selected metric by one step, or the selected option to its next value."""
        row = self.selected_row
        if isinstance(row, MetricChoice):
            self.set_threshold(row.metric, self._step_threshold(row.metric, by))
        elif isinstance(row, OptionRow):
            values = self._find_choices(row.metric, row.option)
            if values:
                place = self._find_choice_index(row, values)
                self.set_option(row.metric, row.option, values[(place + (1 if by > 0 else -1)) % len(values)])

    def set_threshold(self, metric: str, threshold: float | None) -> None:
        """Set the threshold (None: report only), and switch the metric on."""
        self._switch_on(self.get_criterion(metric).model_copy(update={"threshold": threshold}))

    def set_option(self, metric: str, option: str, value: Any) -> None:
        """Set an option, in its existing spelling; None removes it."""
        options = dict(self._find_options(metric))
        name = find_spelling(options, option)
        if value is None:
            options.pop(name, None)
        else:
            options[name] = value
        self._switch_on(self.get_criterion(metric).model_copy(update={"options": options}))

    def apply_preset(self, preset: Preset) -> None:
        """Choose the criteria of a preset. Criteria that were set before keep their values."""
        self._select_criteria(tuple(self._criteria.get(criterion.metric, criterion) for criterion in preset.criteria))

    def reset(self) -> None:
        self._criteria.clear()
        self._select_criteria(self._file.criteria)

    # Typed values.

    def find_range(self, metric: str) -> tuple[float | None, float | None]:
        """Return the lowest and the highest possible score; None for no bound."""
        custom = self.find_custom(metric)
        if custom is not None:
            return custom.lowest, custom.highest
        info = self.find_info(metric)
        return (None, None) if info is None else (info.lowest, info.highest)

    def check_threshold(self, metric: str, text: str) -> str | None:
        """Check a typed threshold and return the problem; None if valid. Empty text means no threshold."""
        if not text.strip():
            return None
        value = _parse_number(text)
        lowest, highest = self.find_range(metric)
        if value is None or (lowest is not None and value < lowest) or (highest is not None and value > highest):
            return f"expected {format_range(lowest, highest)}, or empty for a metric that is only reported"
        return None

    def check_option(self, metric: str, option: str, text: str) -> str | None:
        """Check the typed value of an option and return the problem; None if valid. Empty text is the default."""
        options = {**self._find_options(metric)}
        value = parse_value(text)
        options.pop(find_spelling(options, option), None)
        criterion = Criterion(metric=metric, options={**options, **({} if value is None else {option: value})})
        config = self._file.model_copy(update={"criteria": (criterion,)})
        place = f"criteria.{metric}.{option}"
        wrong = next((problem for problem in check_criteria(config) if _is_within(problem, place)), None)
        return None if wrong is None else f"found {wrong.found}, expected {wrong.expected}"

    # Details.

    def _build_rows(self) -> Iterator[Row]:
        by_family: dict[str, list[str]] = {family: [] for family in _FAMILIES}
        for metric in self._list_metrics():
            info = self.find_info(metric)
            if self._matches_search(metric, info):
                by_family.setdefault(_CUSTOM if info is None else info.family, []).append(metric)
        for family, metrics in by_family.items():
            if metrics:
                yield FamilyRow(family)
            for metric in metrics:
                yield MetricChoice(metric)
                info = self.find_info(metric)
                if metric in self._selected_metrics and info is not None:
                    yield from (OptionRow(metric, option) for option in info.options)

    def _list_metrics(self) -> Iterator[str]:
        """Iterate over all names without duplicates: known metrics, those of the file, and unknown names in the
        file.
        """
        yield from dict.fromkeys(
            (*known_metrics(), *self._file.judge_metrics, *self._file.custom_metrics, *self._criteria)
        )

    def _matches_search(self, metric: str, info: MetricInfo | None) -> bool:
        about = "" if info is None else f"{info.purpose} {info.when}"
        return self._pattern.matches_row(fold(f"{metric} {about}"))

    def _select_criteria(self, criteria: Sequence[Criterion]) -> None:
        self._selected_metrics = {criterion.metric: None for criterion in criteria}
        self._criteria.update((criterion.metric, criterion) for criterion in criteria)
        self.move_to(self.cursor)

    def _switch_on(self, criterion: Criterion) -> None:
        self._criteria[criterion.metric] = criterion
        self._selected_metrics.setdefault(criterion.metric)

    def _find_options(self, metric: str) -> Mapping[str, Any]:
        return self.get_criterion(metric).options

    def _default_threshold(self, metric: str) -> float | None:
        """Return ADK's default, else most of the range; None if lower is better or the range is unbounded."""
        usual = {criterion.metric: criterion.threshold for criterion in DEFAULT_CRITERIA}
        if metric in usual:
            return usual[metric]
        info = self.find_info(metric)
        lowest, highest = self.find_range(metric)
        if (info is not None and info.lower_is_better) or highest is None:
            return None
        return round((lowest or 0.0) + _USUAL_SHARE * (highest - (lowest or 0.0)), 2)

    def _step_threshold(self, metric: str, by: int) -> float:
        lowest, highest = self.find_range(metric)
        step = find_step(lowest, highest)
        threshold = self.get_criterion(metric).threshold
        if threshold is None:
            return (lowest or 0.0) if by > 0 or highest is None else highest
        value = round(threshold + by * step, 6)
        value = value if lowest is None else max(value, lowest)
        return value if highest is None else min(value, highest)

    def _find_choices(self, metric: str, option: str) -> Sequence[str | bool]:
        info = self.find_info(metric)
        return () if info is None else info.choices.get(option, ())

    def _find_choice_index(self, row: OptionRow, values: Sequence[str | bool]) -> int:
        """Return the index of an option's value; that of the default if it is not set or not in the list."""
        value = self.get_option(row.metric, row.option)
        folded = [item.casefold() if isinstance(item, str) else item for item in values]
        wanted = value.strip().casefold() if isinstance(value, str) else value
        return folded.index(wanted) if wanted in folded else 0


def find_step(lowest: float | None, highest: float | None) -> float:
    """Return the step of a threshold: 0.05 in a range up to 1, 0.1 in larger ones, 1 without bounds."""
    if lowest is None or highest is None:
        return 1.0
    return 0.05 if highest - lowest <= 1 else 0.1


def format_range(lowest: float | None, highest: float | None) -> str:
    """Format a range in words."""
    if lowest is None and highest is None:
        return "a number"
    if highest is None:
        return f"a number of at least {lowest:g}"
    return f"a number up to {highest:g}" if lowest is None else f"a number from {lowest:g} to {highest:g}"


def parse_value(text: str) -> Any:
    """Parse the typed value of an option: JSON, else text; None if empty."""
    text = text.strip()
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _is_within(problem: InvalidConfig, place: str) -> bool:
    return problem.place == place or problem.place.startswith(f"{place}.")


def _parse_number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# The criteria picker as lines: its rows, and details of the selected one.

_FAMILY_TITLES = {
    "trajectory": "tool calls",
    "response": "responses",
    "state": "final state",
    "custom": "metrics of this project",
    "measure": "measures (always reported; threshold optional)",
    "judge": "judged by a model",
}

_NEEDS = {
    "text": "a helper process that compares texts (comes with workbench)",
    "worker": "the process of the agent, which runs it",
    "judge": "a judge model",
}

_VALUE_COLUMN = 51  # cells before thresholds and values of options, if there is room
_LEAST_VALUE = 17  # cells for these
_LEAST_NAMES = 36  # cells before them that leave room for a slider
_NAME = 12  # cells for the names of facts
_VALUE = 10  # cells for a threshold
_SLIDER = (10, 24)  # least and most cells of a slider
_COUNT = 10  # cells for how many scores would pass, such as `26 of 28`


@dataclass(frozen=True)
class CriteriaFile:
    """The file whose criteria apply to the selected eval set.

    `path` is shown to the user. `also_judges` counts sets that use the file and are not selected, `other_files` the
    files of other selected sets. `can_undo`: the last change of the file can be undone.
    """

    path: str
    exists: bool
    config: EvalConfig
    also_judges: int = 0
    other_files: int = 0
    can_undo: bool = False


class CriteriaRows:
    """Rows of the picker for a `RowList`."""

    def __init__(self, choice: CriteriaChoice) -> None:
        self._choice = choice
        self._rows = choice.rows
        self._problems = choice.problems

    @property
    def cursor(self) -> int:
        return self._choice.cursor

    def __len__(self) -> int:
        return len(self._rows)

    def line(self, index: int, width: int) -> Line:
        row, column = self._rows[index], _find_column(width)
        if isinstance(row, FamilyRow):
            return (StyledText(f" {_FAMILY_TITLES.get(row.family, row.family)}", Style.HEADING),)
        if isinstance(row, OptionRow):
            return self._option_line(row, column)
        return self._metric_line(row, column, width)

    def find_threshold(self, index: int, cell: int, width: int) -> tuple[str, float] | None:
        """Return the metric and the threshold at a cell of the slider of a row; None outside of sliders."""
        row = self._rows[index] if index < len(self._rows) else None
        start = _find_column(width) + _VALUE
        length = _fit_slider(width)
        if not isinstance(row, MetricChoice) or not length or not start <= cell < start + length:
            return None
        lowest, highest = self._choice.find_range(row.metric)
        is_shown = self._choice.is_on(row.metric) and self._choice.get_criterion(row.metric).threshold is not None
        if lowest is None or highest is None or not is_shown:
            return None
        step = find_step(lowest, highest)
        value = lowest + (highest - lowest) * (cell - start) / (length - 1)
        return row.metric, min(max(round(round(value / step) * step, 6), lowest), highest)

    def _metric_line(self, row: MetricChoice, column: int, width: int) -> Line:
        info, criterion = self._choice.find_info(row.metric), self._choice.get_criterion(row.metric)
        is_on = self._choice.is_on(row.metric)
        style = Style.STRONG if is_on else Style.TEXT
        sign = "≤" if info is not None and info.lower_is_better else "≥"
        value = "informs" if criterion.threshold is None else f"{sign} {format_threshold(criterion.threshold)}"
        label = safe_line(row.metric, width=60)
        box, label = ("[x]", shorten(label, max(column - 6, 1))) if is_on else ("[ ]", label)
        name = _pad_text(f" {box} {label}", column)
        pieces = [StyledText(name, style), StyledText(f"{value if is_on else '':<{_VALUE}}", style)]
        if row.metric in self._problems:
            pieces.append(StyledText(f"! {safe_line(self._problems[row.metric][0])}", Style.ERROR))
        elif is_on and criterion.threshold is not None:
            pieces += self._format_slider(row.metric, criterion.threshold, _fit_slider(width))
            passing, total = self._choice.count_passing(row.metric)
            if total:
                count = (StyledText(f"  {passing:,} of {total:,}", Style.MUTED),)
                return add_fitting(tuple(pieces), [count, (StyledText(" would pass", Style.MUTED),)], width)
        return tuple(pieces)

    def _format_slider(self, metric: str, threshold: float, length: int) -> Line:
        """Draw the range of a metric: the threshold on it, the scores as ticks, and which side passes."""
        lowest, highest = self._choice.find_range(metric)
        if not length or lowest is None or highest is None or lowest >= highest:
            return ()

        start, span = lowest, highest - lowest

        def find_band(share: float) -> Style | None:
            return Style.PASSED if self._choice.passes(metric, start + span * share, threshold) else None

        passing = {
            score: self._choice.passes(metric, score, threshold) for score in self._choice.scores.get(metric, ())
        }
        ticks = (  # failing scores last: a cell with scores of both kinds is shown as failing
            TrackMark((score - start) / span, "┿", Style.PASSED if is_passing else Style.FAILED)
            for score, is_passing in sorted(passing.items(), key=lambda item: not item[1])
        )
        marks = (*ticks, TrackMark((threshold - start) / span, "●", Style.KEY))
        return draw_track(length, marks=marks, find_band=find_band)

    def _option_line(self, row: OptionRow, column: int) -> Line:
        value = self._choice.get_option(row.metric, row.option)
        info = self._choice.find_info(row.metric)
        default = info.choices.get(row.option, ("",))[0] if info is not None else ""
        name = StyledText(_pad_text(f"       {row.option}", column), Style.MUTED)
        if value is None:
            return (
                name,
                StyledText(f"{format_option_value(default) if default != '' else '–'} (default)", Style.MUTED),
            )
        return (name, StyledText(safe_line(format_option_value(value))))


def _find_column(width: int) -> int:
    """Return the cells before thresholds and values in rows of this width: fewer if a slider has room only then."""
    column = min(_VALUE_COLUMN, width - _VALUE - 1 - _SLIDER[0])
    return column if column >= _LEAST_NAMES else min(_VALUE_COLUMN, width - _LEAST_VALUE)


def _fit_slider(width: int) -> int:
    """Return the cells of sliders in rows of this width; 0 if there is no room."""
    room = width - _find_column(width) - _VALUE - 1
    least, most = _SLIDER
    if room < least:
        return 0
    return min(room - _COUNT if room >= least + _COUNT else room, most)


def format_option_value(value: Any) -> str:
    """Format the value of an option as shown and typed: text as is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def format_header(choice: CriteriaChoice, file: CriteriaFile, *, of: str, width: int) -> Line:
    """Format the line above the picker: the sets, the file of their criteria, and whether the choice differs.

    A narrow line still warns that saving the criteria affects other sets; what does not fit is left out as a whole.
    """
    where = safe_line(file.path)
    file_note = f"from {where}" if file.exists else f"the default ones; saving them creates {where}"
    others = plural(file.also_judges, "other set")
    shared = f", shared with {others}" if file.also_judges else ""
    more = f"; {plural(file.other_files, 'other file')} for the rest" if file.other_files else ""
    whole, name = safe_line(of), format_set_name(of) if "/" in of else safe_line(of)
    label = StyledText(" criteria of ", Style.MUTED)
    also: Line = (StyledText(f"  shared with {others}", Style.WARNING),) if file.also_judges else ()
    alerts = ["  ● changed, not in the file", "  ● changed"] if choice.is_changed else [""]
    least = shorten(name, max(width - 1 - cell_len(alerts[-1]) - measure_line(also), 1))
    titles: list[Line] = [(label, StyledText(text, Style.STRONG)) for text in (whole, name)]
    titles.append((StyledText(f" {least}", Style.STRONG),))
    heads = [(*title, StyledText(alert, Style.WARNING)) for title in titles for alert in alerts]
    line = (*heads[0], StyledText(f"  {file_note}{shared}{more}", Style.MUTED))
    if measure_line(line) <= width:
        return line
    notes = [f"{file_note}{more}", file_note]
    notes += [f"from {where.rpartition('/')[2]}"] if file.exists else []
    line = next((one for head in heads if measure_line(one := (*head, *also)) <= width), (*heads[-1], *also))
    left = width - measure_line(line)
    note = next((f"  {note}" for note in notes if cell_len(note) + 2 <= left), "")
    return (*line, StyledText(note, Style.MUTED))


def describe_selected(choice: CriteriaChoice, facts: CaseFacts | None) -> Iterator[Block]:
    """Describe the selected row. `facts` are those of the selected cases; None until they are known."""
    row = choice.selected_row
    if row is None:
        yield Paragraph.from_text("No metric has this text in its name or purpose.", Style.MUTED)
        return
    if isinstance(row, FamilyRow):
        yield Paragraph.from_text(_FAMILY_TITLES.get(row.family, row.family), Style.HEADING)
        return
    passing, total = choice.count_passing(row.metric) if isinstance(row, MetricChoice) else (0, 0)
    scores = f"  {passing:,} of {total:,} would pass" if total else ""
    yield Paragraph((StyledText(safe_line(row.metric), Style.HEADING), StyledText(scores, Style.MUTED)))
    for problem in choice.problems.get(row.metric, ()) if choice.is_on(row.metric) else ():
        yield Paragraph.from_text(f"! {safe_line(problem)}", Style.ERROR, hang=2)
    info = choice.find_info(row.metric)
    if isinstance(row, OptionRow):
        if info is not None:
            yield from _describe_option(choice, row, info)
    elif info is None:
        yield from _describe_custom(choice, row.metric)
    else:
        yield from _describe_metric(choice, info, facts)


def _describe_metric(choice: CriteriaChoice, info: MetricInfo, facts: CaseFacts | None) -> Iterator[Block]:
    yield Paragraph.from_text(safe(info.purpose))
    yield BLANK
    yield _format_fact("when", info.when)
    yield _format_fact("score", f"{format_range(info.lowest, info.highest)}, {_format_direction(info)}")
    yield _format_fact("threshold", _format_threshold(choice, info))
    yield _format_fact("reference", "needs what the case expects" if info.needs_reference else "needs none")
    needs = "; ".join(_NEEDS[need] for need in sorted(info.needs)) or "nothing else"
    yield _format_fact("needs", needs)
    fits = "fits them" if info.fits_scenarios else "not applicable: they have no expected turns"
    yield _format_fact("scenarios", fits)
    yield _format_fact("your cases", _format_fit(info, facts))
    for option, meaning in info.options.items():
        yield _format_fact(option if cell_len(option) < _NAME else f"{option}:", meaning)


def _describe_option(choice: CriteriaChoice, row: OptionRow, info: MetricInfo) -> Iterator[Block]:
    yield Paragraph.from_text(row.option, Style.STRONG)
    yield Paragraph.from_text(info.options[row.option])
    yield BLANK
    values = info.choices.get(row.option)
    allowed = (
        ", ".join(format_option_value(value) for value in values) if values else "JSON, or a text; enter to type it"
    )
    yield _format_fact("allowed", allowed)
    value = choice.get_option(row.metric, row.option)
    yield _format_fact("now", "not set: the default" if value is None else safe(format_option_value(value)))


def _describe_custom(choice: CriteriaChoice, metric: str) -> Iterator[Block]:
    custom = choice.find_custom(metric)
    if custom is None:
        yield Paragraph.from_text("There is no metric with this name.", Style.ERROR)
        return
    yield Paragraph.from_text(safe(custom.description) or "A metric function of this project.")
    yield BLANK
    yield _format_fact("function", safe_line(custom.path))
    yield _format_fact("score", format_range(custom.lowest, custom.highest))
    yield _format_fact("needs", _NEEDS["worker"])
    yield _format_fact("options", "any: the function reads them; edit them in the file")


def _format_direction(info: MetricInfo) -> str:
    return "less is better" if info.lower_is_better else "more is better"


def _format_threshold(choice: CriteriaChoice, info: MetricInfo) -> str:
    threshold = choice.get_criterion(info.name).threshold
    if threshold is None:
        return "none: only reported"
    limit = format_threshold(threshold)
    return f"passes at most {limit}" if info.lower_is_better else f"passes from {limit} on"


def _format_fit(info: MetricInfo, facts: CaseFacts | None) -> str:
    if facts is None:
        return "reading the selected cases …"
    fit = compute_fit(info, facts)
    if not facts.cases:
        return "none of the selected cases can be read"
    if fit.usable == facts.cases:
        words = "the selected case has what it needs" if facts.cases == 1 else f"all {facts.cases:,} have what it needs"
    elif fit.usable == 0:
        words = f"! none of {plural(facts.cases, 'case')} has {fit.requirement}"
    else:
        words = f"{fit.usable:,} of {plural(facts.cases, 'case')}; the others lack {fit.requirement}"
    with_rubrics = f"; {facts.rubrics:,} with rubrics of their own" if "rubric" in info.name else ""
    return words + with_rubrics


def _format_fact(name: str, text: str) -> Paragraph:
    return Paragraph((StyledText(f"{name:<{_NAME - 1}} ", Style.MUTED), StyledText(text)), hang=_NAME)


def _pad_text(text: str, width: int) -> str:
    return text + " " * max(width - cell_len(text), 1)


# Generated scenarios, each selected for saving or not.


class GeneratedScenarios(MarkedRows[ConversationScenario]):
    """Rows of generated scenarios, all marked at first. `notes` list replies that are not valid scenarios."""

    def __init__(
        self, scenarios: Sequence[ConversationScenario], notes: Sequence[str] = (), *, eval_set: str, spent: str = ""
    ) -> None:
        """Make the rows. `eval_set` is empty for a new set, `spent` is the cost of generating the scenarios."""
        super().__init__(range(len(scenarios)))
        self._eval_set = eval_set
        self._spent = f" · {safe_line(spent)}" if spent else ""
        self.rows: list[ConversationScenario] = list(scenarios)
        self._notes = notes

    @property
    def selected_scenario(self) -> ConversationScenario:
        return self.rows[self.cursor]

    def replace(self, scenario: ConversationScenario) -> None:
        """Replace the scenario under the cursor by an edited one, and mark it."""
        self.rows[self.cursor] = scenario
        self.marked.add(self.cursor)

    def line(self, index: int, width: int) -> Line:
        """Format one scenario: whether it is marked, its persona, its first message."""
        scenario, is_kept = self.rows[index], index in self.marked
        mark = StyledText(" ✓ keep      ", Style.PASSED) if is_kept else StyledText(" - leave out ", Style.MUTED)
        persona = f"{safe_line(_get_persona(scenario), width=16):<10}"
        start = safe_line(scenario.starting_prompt, width=max(width - 25, 1))
        return (mark, StyledText(f"{persona} ", Style.KEY), StyledText(start, Style.TEXT if is_kept else Style.MUTED))

    def header_line(self) -> Line:
        """Format the eval set and the number of marked scenarios."""
        found = f"{len(self.marked)} of {plural(len(self), 'scenario')} kept"
        where = safe_line(self._eval_set) if self._eval_set else "a new eval set"
        return (
            StyledText(f" {found}", Style.HEADING),
            StyledText(f" · for {where} · nothing is saved yet{self._spent}", Style.MUTED),
        )

    def blocks(self) -> Sequence[Block]:
        """Describe the scenario under the cursor, then the notes."""
        scenario = self.selected_scenario
        blocks: list[Block] = [
            Paragraph.from_text("starting prompt", Style.HEADING),
            Paragraph.from_text(safe(scenario.starting_prompt), indent=2),
            BLANK,
            Paragraph.from_text("conversation plan", Style.HEADING),
            Paragraph.from_text(safe(scenario.conversation_plan), indent=2),
            BLANK,
            Paragraph.from_text("persona", Style.HEADING),
            Paragraph.from_text(safe(_get_persona(scenario)) or "none", indent=2),
        ]
        if self._notes:
            blocks += [BLANK, Paragraph.from_text("notes", Style.HEADING)]
            blocks += [Paragraph.from_text(safe(note), Style.WARNING, indent=2) for note in self._notes]
        return blocks


def _get_persona(scenario: ConversationScenario) -> str:
    persona = scenario.user_persona
    return persona if isinstance(persona, str) else "" if persona is None else persona.id


def check_count(text: str, *, most: int) -> str | None:
    """Check a number of scenarios and return the problem; None if valid."""
    if text.strip().isdecimal() and text.strip().isascii() and 1 <= int(text) <= most:
        return None
    return f"expected a number from 1 to {most}"
