"""The criteria that are being chosen: every known metric, on or off, with its threshold and options.

A metric that is switched off keeps what it was set to, so that switching it on again loses nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.metrics.definition import MetricInfo
from workbench.metrics.presets import Preset
from workbench.metrics.registry import check_criteria, info_of, known_metrics
from workbench.model.criteria import DEFAULT_CRITERIA, Criterion, CustomMetric, EvalConfig, InvalidConfig
from workbench.tui.state.cursor import CursorRows
from workbench.tui.state.spelling import spelling_of

CHOSEN_SOURCE = "chosen for this run"
"""The source of criteria that were chosen in the picker and are in no file."""

_USUAL_SHARE = 0.8  # of the range of a metric: where its threshold begins
_CUSTOM = "custom"
_FAMILIES = ("trajectory", "response", "state", _CUSTOM, "measure", "judge")


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """The heading above the metrics of one kind."""

    family: str


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric, on or off."""

    metric: str


@dataclass(frozen=True, slots=True)
class OptionRow:
    """An option of a metric that is on."""

    metric: str
    option: str


Row = FamilyRow | MetricRow | OptionRow


class CriteriaChoice(CursorRows):
    """What is chosen, and where the cursor is. `config` is what the choice comes to."""

    def __init__(self, file: EvalConfig, *, chosen: EvalConfig | None = None) -> None:
        """`file` are the criteria that hold without a choice, `chosen` those that were chosen last."""
        self._file = file
        self.search = ""
        self._kept: dict[str, Criterion] = {}
        self._on: dict[str, None] = {}
        self._take((chosen or file).criteria)
        self.cursor = next((index for index, row in enumerate(self.rows) if isinstance(row, MetricRow)), 0)

    # What there is.

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def config(self) -> EvalConfig:
        """The chosen criteria with everything else as in the file; the file's own where nothing is changed."""
        criteria = tuple(self._kept[name] for name in self._on)
        if sorted(criteria, key=_metric) == sorted(self._file.criteria, key=_metric):
            return self._file
        return self._file.model_copy(update={"criteria": criteria, "source": CHOSEN_SOURCE})

    @property
    def is_changed(self) -> bool:
        """Whether the choice is another than the file's."""
        return self.config is not self._file

    @property
    def rows(self) -> Sequence[Row]:
        """What is listed: families with their metrics as far as the search finds them, and options of those on."""
        return list(self._rows())

    @property
    def selected(self) -> Row | None:
        """The row under the cursor."""
        rows = self.rows
        return rows[self.cursor] if self.cursor < len(rows) else None

    def info(self, metric: str) -> MetricInfo | None:
        """What is known of a metric; None for the file's own and for a name that nobody knows."""
        return info_of(metric, self._file)

    def custom(self, metric: str) -> CustomMetric | None:
        """The file's own metric of this name."""
        return self._file.custom_metrics.get(metric)

    def is_on(self, metric: str) -> bool:
        """Whether cases are judged by it."""
        return metric in self._on

    def criterion(self, metric: str) -> Criterion:
        """The metric as it is set, or would be where it is switched on."""
        known = self._kept.get(metric)
        return known if known is not None else Criterion(metric=metric, threshold=self._usual_threshold(metric))

    def option(self, metric: str, option: str) -> Any:
        """The value of an option; None where the criterion does not say."""
        return self._options(metric).get(spelling_of(self._options(metric), option))

    @property
    def problems(self) -> Mapping[str, Sequence[str]]:
        """What is wrong with the choice, by metric: one sentence each."""
        found: dict[str, list[str]] = {}
        for problem in check_criteria(self.config):
            metric = next((name for name in self._on if _is_within(problem, f"criteria.{name}")), "")
            found.setdefault(metric, []).append(f"found {problem.found}, expected {problem.expected}")
        return found

    # What the user does.

    def find(self, text: str) -> None:
        """List only metrics with this text in their name or purpose; nothing lists all."""
        self.search = text.strip().casefold()
        self.move_to(next((index for index, row in enumerate(self.rows) if isinstance(row, MetricRow)), 0))

    def toggle(self) -> None:
        """Switch the selected metric on or off."""
        row = self.selected
        if row is None or isinstance(row, FamilyRow):
            return
        if row.metric in self._on:
            del self._on[row.metric]
            self.cursor = self.rows.index(MetricRow(row.metric))
        else:
            self._switch_on(self.criterion(row.metric))

    def step(self, by: int) -> None:
        """One step up or down: the threshold of the selected metric, or the next value of the selected option."""
        row = self.selected
        if isinstance(row, MetricRow):
            self.put_threshold(row.metric, self._stepped(row.metric, by))
        elif isinstance(row, OptionRow):
            values = self._values(row.metric, row.option)
            if values:
                place = self._place_of(row, values)
                self.put_option(row.metric, row.option, values[(place + (1 if by > 0 else -1)) % len(values)])

    def put_threshold(self, metric: str, threshold: float | None) -> None:
        """Set the threshold (None: the metric only informs), and switch the metric on."""
        self._switch_on(self.criterion(metric).model_copy(update={"threshold": threshold}))

    def put_option(self, metric: str, option: str, value: Any) -> None:
        """Set an option, in the spelling that it has; None removes it."""
        options = dict(self._options(metric))
        name = spelling_of(options, option)
        if value is None:
            options.pop(name, None)
        else:
            options[name] = value
        self._switch_on(self.criterion(metric).model_copy(update={"options": options}))

    def take_preset(self, preset: Preset) -> None:
        """Choose the criteria of a preset, each as it was set before where it was."""
        self._take(tuple(self._kept.get(criterion.metric, criterion) for criterion in preset.criteria))

    def reset(self) -> None:
        """Choose what the file says."""
        self._kept.clear()
        self._take(self._file.criteria)

    # How values are typed.

    def range_of(self, metric: str) -> tuple[float | None, float | None]:
        """The least and the greatest score there can be; None where there is no bound."""
        custom = self.custom(metric)
        if custom is not None:
            return custom.lowest, custom.highest
        info = self.info(metric)
        return (None, None) if info is None else (info.lowest, info.highest)

    def check_threshold(self, metric: str, text: str) -> str | None:
        """What is wrong with a threshold as it was typed; None where nothing is. Nothing typed means no threshold."""
        if not text.strip():
            return None
        value = _number(text)
        lowest, highest = self.range_of(metric)
        if value is None or (lowest is not None and value < lowest) or (highest is not None and value > highest):
            return f"expected {range_words(lowest, highest)}, or nothing for a metric that only informs"
        return None

    def check_option(self, metric: str, option: str, text: str) -> str | None:
        """What is wrong with the value of an option as typed; None where nothing is. Nothing typed is the default."""
        options = {**self._options(metric)}
        value = read_value(text)
        options.pop(spelling_of(options, option), None)
        criterion = Criterion(metric=metric, options={**options, **({} if value is None else {option: value})})
        config = self._file.model_copy(update={"criteria": (criterion,)})
        place = f"criteria.{metric}.{option}"
        wrong = next((problem for problem in check_criteria(config) if _is_within(problem, place)), None)
        return None if wrong is None else f"found {wrong.found}, expected {wrong.expected}"

    # How it comes about.

    def _rows(self) -> Iterator[Row]:
        by_family: dict[str, list[str]] = {family: [] for family in _FAMILIES}
        for metric in self._metrics():
            info = self.info(metric)
            if self._is_found(metric, info):
                by_family.setdefault(_CUSTOM if info is None else info.family, []).append(metric)
        for family, metrics in by_family.items():
            if metrics:
                yield FamilyRow(family)
            for metric in metrics:
                yield MetricRow(metric)
                info = self.info(metric)
                if metric in self._on and info is not None:
                    yield from (OptionRow(metric, option) for option in info.options)

    def _metrics(self) -> Iterator[str]:
        """All names, each once: known ones, the file's own, and what the file names that nobody knows."""
        yield from dict.fromkeys((*known_metrics(), *self._file.judge_metrics, *self._file.custom_metrics, *self._kept))

    def _is_found(self, metric: str, info: MetricInfo | None) -> bool:
        about = "" if info is None else f"{info.purpose} {info.when}"
        return self.search in f"{metric} {about}".casefold()

    def _take(self, criteria: Sequence[Criterion]) -> None:
        self._on = {criterion.metric: None for criterion in criteria}
        self._kept.update((criterion.metric, criterion) for criterion in criteria)
        self.move_to(self.cursor)

    def _switch_on(self, criterion: Criterion) -> None:
        self._kept[criterion.metric] = criterion
        self._on.setdefault(criterion.metric)

    def _options(self, metric: str) -> Mapping[str, Any]:
        return self.criterion(metric).options

    def _usual_threshold(self, metric: str) -> float | None:
        """ADK's where it has one, else most of the range; none where less is better or the range has no end."""
        usual = {criterion.metric: criterion.threshold for criterion in DEFAULT_CRITERIA}
        if metric in usual:
            return usual[metric]
        info = self.info(metric)
        lowest, highest = self.range_of(metric)
        if (info is not None and info.lower_is_better) or highest is None:
            return None
        return round((lowest or 0.0) + _USUAL_SHARE * (highest - (lowest or 0.0)), 2)

    def _stepped(self, metric: str, by: int) -> float:
        lowest, highest = self.range_of(metric)
        step = step_of(lowest, highest)
        threshold = self.criterion(metric).threshold
        if threshold is None:
            return (lowest or 0.0) if by > 0 or highest is None else highest
        value = round(threshold + by * step, 6)
        value = value if lowest is None else max(value, lowest)
        return value if highest is None else min(value, highest)

    def _values(self, metric: str, option: str) -> Sequence[str | bool]:
        info = self.info(metric)
        return () if info is None else info.choices.get(option, ())

    def _place_of(self, row: OptionRow, values: Sequence[str | bool]) -> int:
        """Which of the values an option has, the default where it is not set or set to something else."""
        value = self.option(row.metric, row.option)
        folded = [item.casefold() if isinstance(item, str) else item for item in values]
        wanted = value.strip().casefold() if isinstance(value, str) else value
        return folded.index(wanted) if wanted in folded else 0


def step_of(lowest: float | None, highest: float | None) -> float:
    """By how much one step changes a threshold: 0.05 in a range of 1, 0.1 in larger ones, 1 without bounds."""
    if lowest is None or highest is None:
        return 1.0
    return 0.05 if highest - lowest <= 1 else 0.1


def range_words(lowest: float | None, highest: float | None) -> str:
    """A range in words."""
    if lowest is None and highest is None:
        return "a number"
    if highest is None:
        return f"a number of at least {lowest:g}"
    return f"a number up to {highest:g}" if lowest is None else f"a number from {lowest:g} to {highest:g}"


def read_value(text: str) -> Any:
    """What was typed as the value of an option: JSON, else a text; None where nothing was."""
    text = text.strip()
    if not text:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _metric(criterion: Criterion) -> str:
    return criterion.metric


def _is_within(problem: InvalidConfig, place: str) -> bool:
    return problem.place == place or problem.place.startswith(f"{place}.")


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
