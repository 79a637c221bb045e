"""The choice of criteria, and of generated scenarios."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from workbench.metrics.metric_types import MetricInfo
from workbench.metrics.registry import CaseFacts, Preset, check_criteria, compute_fit, find_info, known_metrics
from workbench.model.criteria import DEFAULT_CRITERIA, Criterion, CustomMetric, EvalConfig, InvalidConfig
from workbench.model.evalset import ConversationScenario
from workbench.tui.state.case_outline import find_spelling
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    CursorRows,
    Line,
    Paragraph,
    Style,
    StyledText,
    cut_line,
    plural,
    safe,
    safe_line,
)

# The criteria that are being chosen: every known metric, on or off, with its threshold and options.

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
        return find_info(metric, self._file)

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
        return self._options(metric).get(find_spelling(self._options(metric), option))

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
        name = find_spelling(options, option)
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
        options.pop(find_spelling(options, option), None)
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


# The criteria picker as lines: its rows, and what there is to know about the selected one.

_FAMILY_TITLES = {
    "trajectory": "tool calls",
    "response": "responses",
    "state": "final state",
    "custom": "metrics of this project",
    "measure": "measures (always reported; with a threshold they judge)",
    "judge": "judged by a model",
}

_NEEDS = {
    "text": "a helper process that compares texts (comes with workbench)",
    "worker": "the agent's own process, in which it is run",
    "judge": "a judge model",
}

_VALUE_COLUMN = 51  # cells before thresholds and the values of options, where there is room
_LEAST_VALUE = 17  # cells for these
_NAME = 12  # cells for the names of facts


@dataclass(frozen=True)
class CriteriaFile:
    """The file whose criteria hold for the selected eval set.

    `path` is as people see it; `also_judges` counts the eval sets it holds for that are not selected, `other_files` the
    files by which other selected sets are judged. `undoable`: what was written last can be taken back.
    """

    path: str
    exists: bool
    config: EvalConfig
    also_judges: int = 0
    other_files: int = 0
    undoable: bool = False


class CriteriaRows:
    """The rows of the picker, for a `RowList`."""

    def __init__(self, choice: CriteriaChoice) -> None:
        self._choice = choice
        self._rows = choice.rows
        self._problems = choice.problems

    @property
    def cursor(self) -> int:
        """The index of the selected row."""
        return self._choice.cursor

    def __len__(self) -> int:
        return len(self._rows)

    def line(self, index: int, width: int) -> Line:
        """One row as it is drawn now; the list cuts it."""
        row, column = self._rows[index], min(_VALUE_COLUMN, width - _LEAST_VALUE)
        if isinstance(row, FamilyRow):
            return (StyledText(f" {_FAMILY_TITLES.get(row.family, row.family)}", Style.HEADING),)
        if isinstance(row, OptionRow):
            return self._option_line(row, column)
        return self._metric_line(row, column)

    def _metric_line(self, row: MetricRow, column: int) -> Line:
        info, criterion = self._choice.info(row.metric), self._choice.criterion(row.metric)
        is_on = self._choice.is_on(row.metric)
        style = Style.STRONG if is_on else Style.TEXT
        sign = "≤" if info is not None and info.lower_is_better else "≥"
        value = "informs" if criterion.threshold is None else f"{sign} {criterion.threshold:g}"
        name = _padded(f" {'[x]' if is_on else '[ ]'} {safe_line(row.metric, width=60)}", column)
        pieces = [StyledText(name, style), StyledText(f"{value if is_on else '':<10}", style)]
        if row.metric in self._problems:
            pieces.append(StyledText(f"! {safe_line(self._problems[row.metric][0])}", Style.ERROR))
        return tuple(pieces)

    def _option_line(self, row: OptionRow, column: int) -> Line:
        value = self._choice.option(row.metric, row.option)
        info = self._choice.info(row.metric)
        default = info.choices.get(row.option, ("",))[0] if info is not None else ""
        name = StyledText(_padded(f"       {row.option}", column), Style.MUTED)
        if value is None:
            return (name, StyledText(f"{written(default) if default != '' else '–'} (default)", Style.MUTED))
        return (name, StyledText(safe_line(written(value))))


def written(value: Any) -> str:
    """The value of an option as it is shown and typed: a text as it is, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def header_line(choice: CriteriaChoice, file: CriteriaFile, *, of: str, width: int) -> Line:
    """The line above the picker: what is judged, where its criteria stand, whether the choice is another.

    Where there is little room it still says that keeping the criteria changes how other sets are judged.
    """
    where = safe_line(file.path)
    stands = f"from {where}" if file.exists else f"the default ones; keeping them makes {where}"
    others = plural(file.also_judges, "other set")
    shared = f", which also judges {others}" if file.also_judges else ""
    more = f"; {plural(file.other_files, 'other file')} for the rest" if file.other_files else ""
    title: Line = (StyledText(" criteria of ", Style.MUTED), StyledText(safe_line(of), Style.STRONG))
    changed = StyledText("  ● changed, not in the file", Style.WARNING) if choice.is_changed else StyledText("")
    line = (*title, changed, StyledText(f"  {stands}{shared}{more}", Style.MUTED))  # what may be long at its end
    if not file.also_judges or _width(line) <= width:
        return line
    also = StyledText(f"  also judges {others}", Style.WARNING)
    if choice.is_changed and _width((*title, changed, also)) > width:
        changed = StyledText("  ● changed", Style.WARNING)
    title = cut_line(title, max(width - _width((also, changed)), 0))
    rest = cut_line((StyledText(f"  {stands}{more}", Style.MUTED),), max(width - _width((*title, changed, also)), 0))
    return (*title, changed, also, *rest)


def detail_blocks(choice: CriteriaChoice, facts: CaseFacts | None) -> Iterator[Block]:
    """What there is to know about the selected row. `facts` are those of the selected cases, once they are known."""
    row = choice.selected
    if row is None:
        yield Paragraph.from_text("No metric has this text in its name or purpose.", Style.MUTED)
        return
    if isinstance(row, FamilyRow):
        yield Paragraph.from_text(_FAMILY_TITLES.get(row.family, row.family), Style.HEADING)
        return
    yield Paragraph.from_text(safe_line(row.metric), Style.HEADING)
    for problem in choice.problems.get(row.metric, ()) if choice.is_on(row.metric) else ():
        yield Paragraph.from_text(f"! {safe_line(problem)}", Style.ERROR, hang=2)
    info = choice.info(row.metric)
    if isinstance(row, OptionRow):
        if info is not None:
            yield from _option_blocks(choice, row, info)
    elif info is None:
        yield from _custom_blocks(choice, row.metric)
    else:
        yield from _metric_blocks(choice, info, facts)


def _metric_blocks(choice: CriteriaChoice, info: MetricInfo, facts: CaseFacts | None) -> Iterator[Block]:
    yield Paragraph.from_text(safe(info.purpose))
    yield BLANK
    yield _fact("when", info.when)
    yield _fact("score", f"{range_words(info.lowest, info.highest)}, {_better(info)}")
    yield _fact("threshold", _threshold_words(choice, info))
    yield _fact("reference", "needs what the case expects" if info.needs_reference else "needs none")
    needs = "; ".join(_NEEDS[need] for need in sorted(info.needs)) or "nothing else"
    yield _fact("needs", needs)
    fits = "fits them" if info.fits_scenarios else "says nothing about them: they have no expected turns"
    yield _fact("scenarios", fits)
    yield _fact("your cases", _fit_words(info, facts))
    for option, meaning in info.options.items():
        yield _fact(option if cell_len(option) < _NAME else f"{option}:", meaning)


def _option_blocks(choice: CriteriaChoice, row: OptionRow, info: MetricInfo) -> Iterator[Block]:
    yield Paragraph.from_text(row.option, Style.STRONG)
    yield Paragraph.from_text(info.options[row.option])
    yield BLANK
    values = info.choices.get(row.option)
    allowed = ", ".join(written(value) for value in values) if values else "JSON, or a text; enter to type it"
    yield _fact("allowed", allowed)
    value = choice.option(row.metric, row.option)
    yield _fact("now", "not set: the default" if value is None else safe(written(value)))


def _custom_blocks(choice: CriteriaChoice, metric: str) -> Iterator[Block]:
    custom = choice.custom(metric)
    if custom is None:
        yield Paragraph.from_text("Nobody knows a metric of this name.", Style.ERROR)
        return
    yield Paragraph.from_text(safe(custom.description) or "A metric function of this project.")
    yield BLANK
    yield _fact("function", safe_line(custom.path))
    yield _fact("score", range_words(custom.lowest, custom.highest))
    yield _fact("needs", _NEEDS["worker"])
    yield _fact("options", "any: the function reads them; they are changed in the file")


def _better(info: MetricInfo) -> str:
    return "less is better" if info.lower_is_better else "more is better"


def _threshold_words(choice: CriteriaChoice, info: MetricInfo) -> str:
    threshold = choice.criterion(info.name).threshold
    if threshold is None:
        return "none: it is reported, and fails no case"
    return f"passes {'at most' if info.lower_is_better else 'from'} {threshold:g}{' on' * (not info.lower_is_better)}"


def _fit_words(info: MetricInfo, facts: CaseFacts | None) -> str:
    if facts is None:
        return "looking at the selected cases …"
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


def _fact(name: str, text: str) -> Paragraph:
    return Paragraph((StyledText(f"{name:<{_NAME}}", Style.MUTED), StyledText(text)), hang=_NAME)


def _width(line: Line) -> int:
    return sum(cell_len(piece.text) for piece in line)


def _padded(text: str, width: int) -> str:
    return text + " " * max(width - cell_len(text), 1)


# The scenarios that a model has written, each to be kept or left out.


class WrittenScenarios(CursorRows):
    """Rows with a cursor. All are kept until the user leaves one out. `notes` says what did not become a scenario."""

    def __init__(
        self, scenarios: Sequence[ConversationScenario], notes: Sequence[str] = (), *, spent: str = ""
    ) -> None:
        """`spent` says what asking for them took."""
        self._spent = f" · {safe_line(spent)}" if spent else ""
        self._scenarios = list(scenarios)
        self._is_kept = [True] * len(scenarios)
        self._notes = notes

    def __len__(self) -> int:
        return len(self._scenarios)

    @property
    def selected(self) -> ConversationScenario:
        """The scenario under the cursor."""
        return self._scenarios[self.cursor]

    @property
    def kept(self) -> Sequence[ConversationScenario]:
        """Those that are kept."""
        return [each for each, is_kept in zip(self._scenarios, self._is_kept, strict=True) if is_kept]

    def toggle(self) -> None:
        """Keep the scenario under the cursor, or leave it out, and go to the next."""
        self._is_kept[self.cursor] = not self._is_kept[self.cursor]
        self.move(1)

    def toggle_all(self) -> None:
        """Keep all; where all are kept, none."""
        self._is_kept = [not all(self._is_kept)] * len(self)

    def replace(self, scenario: ConversationScenario) -> None:
        """Put an edited scenario in the place of the one under the cursor. It is kept."""
        self._scenarios[self.cursor] = scenario
        self._is_kept[self.cursor] = True

    def line(self, index: int, width: int) -> Line:
        """One scenario: whether it is kept, who the user is, what they say first."""
        scenario, is_kept = self._scenarios[index], self._is_kept[index]
        mark = StyledText(" ✓ keep      ", Style.PASSED) if is_kept else StyledText(" - leave out ", Style.MUTED)
        persona = f"{safe_line(_persona(scenario), width=16):<10}"
        start = safe_line(scenario.starting_prompt, width=max(width - 25, 1))
        return (mark, StyledText(f"{persona} ", Style.KEY), StyledText(start, Style.TEXT if is_kept else Style.MUTED))

    def head(self, eval_set: str) -> Line:
        """What is looked at, and how many are kept."""
        found = f"{len(self.kept)} of {plural(len(self), 'scenario')} kept"
        where = safe_line(eval_set) if eval_set else "a new eval set"
        return (
            StyledText(f" {found}", Style.HEADING),
            StyledText(f" · for {where} · nothing is saved yet{self._spent}", Style.MUTED),
        )

    def blocks(self) -> Sequence[Block]:
        """All of the scenario under the cursor, and then what did not become one."""
        scenario = self.selected
        blocks: list[Block] = [
            Paragraph.from_text("starting prompt", Style.HEADING),
            Paragraph.from_text(safe(scenario.starting_prompt), indent=2),
            BLANK,
            Paragraph.from_text("conversation plan", Style.HEADING),
            Paragraph.from_text(safe(scenario.conversation_plan), indent=2),
            BLANK,
            Paragraph.from_text("persona", Style.HEADING),
            Paragraph.from_text(safe(_persona(scenario)) or "none", indent=2),
        ]
        if self._notes:
            blocks += [BLANK, Paragraph.from_text("also to be known", Style.HEADING)]
            blocks += [Paragraph.from_text(safe(note), Style.WARNING, indent=2) for note in self._notes]
        return blocks


def _persona(scenario: ConversationScenario) -> str:
    persona = scenario.user_persona
    return persona if isinstance(persona, str) else "" if persona is None else persona.id


def count_problem(text: str, *, most: int) -> str | None:
    """What is wrong with a number of scenarios; None where nothing is."""
    if text.strip().isdecimal() and text.strip().isascii() and 1 <= int(text) <= most:
        return None
    return f"a number from 1 to {most} is expected"
