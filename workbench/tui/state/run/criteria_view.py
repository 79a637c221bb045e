"""The criteria picker as lines: its rows, and what there is to know about the selected one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.cells import cell_len

from workbench.metrics.definition import MetricInfo
from workbench.metrics.fitting import CaseFacts, fit_of
from workbench.model.criteria import EvalConfig
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.layout import fit
from workbench.tui.state.pieces import Line, Piece, Tone, plural, safe, safe_line
from workbench.tui.state.run.criteria import CriteriaChoice, FamilyRow, MetricRow, OptionRow, range_words

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
            return (Piece(f" {_FAMILY_TITLES.get(row.family, row.family)}", Tone.HEADING),)
        if isinstance(row, OptionRow):
            return self._option_line(row, column)
        return self._metric_line(row, column)

    def _metric_line(self, row: MetricRow, column: int) -> Line:
        info, criterion = self._choice.info(row.metric), self._choice.criterion(row.metric)
        is_on = self._choice.is_on(row.metric)
        tone = Tone.STRONG if is_on else Tone.TEXT
        sign = "≤" if info is not None and info.lower_is_better else "≥"
        value = "informs" if criterion.threshold is None else f"{sign} {criterion.threshold:g}"
        name = _padded(f" {'[x]' if is_on else '[ ]'} {safe_line(row.metric, width=60)}", column)
        pieces = [Piece(name, tone), Piece(f"{value if is_on else '':<10}", tone)]
        if row.metric in self._problems:
            pieces.append(Piece(f"! {safe_line(self._problems[row.metric][0])}", Tone.ERROR))
        return tuple(pieces)

    def _option_line(self, row: OptionRow, column: int) -> Line:
        value = self._choice.option(row.metric, row.option)
        info = self._choice.info(row.metric)
        default = info.choices.get(row.option, ("",))[0] if info is not None else ""
        name = Piece(_padded(f"       {row.option}", column), Tone.MUTED)
        if value is None:
            return (name, Piece(f"{written(default) if default != '' else '–'} (default)", Tone.MUTED))
        return (name, Piece(safe_line(written(value))))


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
    title: Line = (Piece(" criteria of ", Tone.MUTED), Piece(safe_line(of), Tone.STRONG))
    changed = Piece("  ● changed, not in the file", Tone.WARNING) if choice.is_changed else Piece("")
    line = (*title, changed, Piece(f"  {stands}{shared}{more}", Tone.MUTED))  # what may be long at its end
    if not file.also_judges or _width(line) <= width:
        return line
    also = Piece(f"  also judges {others}", Tone.WARNING)
    if choice.is_changed and _width((*title, changed, also)) > width:
        changed = Piece("  ● changed", Tone.WARNING)
    title = fit(title, max(width - _width((also, changed)), 0))
    rest = fit((Piece(f"  {stands}{more}", Tone.MUTED),), max(width - _width((*title, changed, also)), 0))
    return (*title, changed, also, *rest)


def detail_blocks(choice: CriteriaChoice, facts: CaseFacts | None) -> Iterator[Block]:
    """What there is to know about the selected row. `facts` are those of the selected cases, once they are known."""
    row = choice.selected
    if row is None:
        yield Whole.of("No metric has this text in its name or purpose.", Tone.MUTED)
        return
    if isinstance(row, FamilyRow):
        yield Whole.of(_FAMILY_TITLES.get(row.family, row.family), Tone.HEADING)
        return
    yield Whole.of(safe_line(row.metric), Tone.HEADING)
    for problem in choice.problems.get(row.metric, ()) if choice.is_on(row.metric) else ():
        yield Whole.of(f"! {safe_line(problem)}", Tone.ERROR, hang=2)
    info = choice.info(row.metric)
    if isinstance(row, OptionRow):
        if info is not None:
            yield from _option_blocks(choice, row, info)
    elif info is None:
        yield from _custom_blocks(choice, row.metric)
    else:
        yield from _metric_blocks(choice, info, facts)


def _metric_blocks(choice: CriteriaChoice, info: MetricInfo, facts: CaseFacts | None) -> Iterator[Block]:
    yield Whole.of(safe(info.purpose))
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
    yield Whole.of(row.option, Tone.STRONG)
    yield Whole.of(info.options[row.option])
    yield BLANK
    values = info.choices.get(row.option)
    allowed = ", ".join(written(value) for value in values) if values else "JSON, or a text; enter to type it"
    yield _fact("allowed", allowed)
    value = choice.option(row.metric, row.option)
    yield _fact("now", "not set: the default" if value is None else safe(written(value)))


def _custom_blocks(choice: CriteriaChoice, metric: str) -> Iterator[Block]:
    custom = choice.custom(metric)
    if custom is None:
        yield Whole.of("Nobody knows a metric of this name.", Tone.ERROR)
        return
    yield Whole.of(safe(custom.description) or "A metric function of this project.")
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
    fit = fit_of(info, facts)
    if not facts.cases:
        return "none of the selected cases can be read"
    if fit.usable == facts.cases:
        words = "the selected case has what it needs" if facts.cases == 1 else f"all {facts.cases:,} have what it needs"
    elif fit.usable == 0:
        words = f"! none of {plural(facts.cases, 'case')} has {fit.lacking}"
    else:
        words = f"{fit.usable:,} of {plural(facts.cases, 'case')}; the others lack {fit.lacking}"
    with_rubrics = f"; {facts.rubrics:,} with rubrics of their own" if "rubric" in info.name else ""
    return words + with_rubrics


def _fact(name: str, text: str) -> Whole:
    return Whole((Piece(f"{name:<{_NAME}}", Tone.MUTED), Piece(text)), hang=_NAME)


def _width(line: Line) -> int:
    return sum(cell_len(piece.text) for piece in line)


def _padded(text: str, width: int) -> str:
    return text + " " * max(width - cell_len(text), 1)
