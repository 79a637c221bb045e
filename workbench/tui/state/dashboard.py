"""The dashboard of an eval set, an agent or the project: verdicts, failing cases, costs, runs, watch, next keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice, zip_longest
from typing import ClassVar, NamedTuple

from rich.cells import cell_len, set_cell_size

from workbench.model.identity import CaseKey
from workbench.model.text import format_duration, format_limit, format_measured
from workbench.report.run_report import cost_text
from workbench.store.history.history_queries import RunPart
from workbench.tui.state.browser_list import ListedSet, make_case_row
from workbench.tui.state.browser_rows import make_set_notes, make_target_notes
from workbench.tui.state.case_scores import find_metric_info
from workbench.tui.state.case_status import (
    FAILING_STATES,
    QUARANTINED,
    STALE,
    VERDICTS,
    Badge,
    CaseState,
    describe_outdated,
    get_badge,
    list_shares,
)
from workbench.tui.state.group_scores import GroupKey, GroupMetric, GroupReport, MeasuredCase
from workbench.tui.state.history_state import calculate_pass_rate, is_whole_part
from workbench.tui.state.project_state import ProjectState
from workbench.tui.state.text_layout import (
    Block,
    KeyHint,
    Line,
    Paragraph,
    Style,
    StyledText,
    TrackMark,
    add_fitting,
    compute_share,
    cut_line,
    cut_parts,
    draw_track,
    fill_line,
    fit_hints,
    format_set_name,
    keep_end,
    make_hint_line,
    measure_line,
    plural,
    render_blocks,
    safe,
    safe_line,
    shorten,
    sparkline,
)
from workbench.tui.state.watch_state import SeenChange, WatchMode

# Parts of the dashboard: sections of rows, which may name a case.

_TWO_COLUMNS_FROM = 110  # cells
_AIRY_FROM = 14  # lines from which there is room for the place of the set and for empty lines
_LEFT_SHARE = 0.58
_PAIR_FROM = 56  # cells from which the slowest and the costliest cases are side by side
_GAP = 3  # cells between two columns
_FAIR = 3  # rows that each section gets before others get more
_LABEL = 14  # cells for the name of a section without data


class Spot(NamedTuple):
    """Where the page names a case: a section, a line, and cells of the line."""

    section: str
    case: CaseKey
    line: int
    start: int
    end: int


class _Row(NamedTuple):
    """A row of a section; `case` if it names one."""

    line: Line
    case: CaseKey | None = None


@dataclass(frozen=True, slots=True)
class _Section:
    """A titled part. Sections of a higher `rank` are dropped first. A quiet section has one row and no title.

    `least_rows` are shown if it is not dropped. If it has a `total`, a last line counts those of the total that are not
    shown. `beside` is a second section on the same lines.
    """

    title: str
    rank: int
    rows: Sequence[_Row]
    note: str = ""
    total: int = 0
    is_quiet: bool = False
    beside: _Section | None = None
    least_rows: int = 1

    @property
    def full_height(self) -> int:
        """Lines with all rows."""
        height = len(self.rows) + (self.total > len(self.rows)) + (not self.is_quiet)
        return height if self.beside is None else max(height, self.beside.full_height)

    @property
    def least_height(self) -> int:
        """Lines without which it is dropped."""
        return 1 if self.is_quiet else min(self.full_height, self.least_rows + (2 if self.least_rows > 1 else 1))


_Placed = tuple[Line, tuple[Spot, ...]]
"""A line, with spots whose line number is still to be set."""


class Dashboard:
    """The dashboard of the project or the selected set or agent, and a cursor on one of the cases that it names."""

    def __init__(self, state: ProjectState) -> None:
        self._state = state
        self.report: GroupReport | None = None
        """What the history knows; None until it was read."""
        self.problem = ""
        """Why the history cannot be read."""
        self._spots: Sequence[Spot] = ()
        self._selected: tuple[str, CaseKey] | None = None

    @property
    def selected_spot(self) -> Spot | None:
        """The spot under the cursor, as it was laid out last."""
        found = (spot for spot in self._spots if (spot.section, spot.case) == self._selected)
        return next(found, self._spots[0] if self._spots else None)

    def move(self, by: int) -> None:
        """Move the cursor by a number of cases."""
        spot = self.selected_spot
        if spot is not None:
            self.move_to(self._spots.index(spot) + by)

    def move_to(self, index: int) -> None:
        """Move the cursor to a case, at most to the first or last one."""
        if self._spots:
            spot = self._spots[min(max(index, 0), len(self._spots) - 1)]
            self._selected = spot.section, spot.case

    def move_to_last(self) -> None:
        self.move_to(len(self._spots) - 1)

    def find_case(self, line: int, cell: int) -> CaseKey | None:
        """Return the case that the page names at a cell, and move the cursor there; None if there is none."""
        spot = next((each for each in self._spots if each.line == line and each.start <= cell < each.end), None)
        if spot is None:
            return None
        self._selected = spot.section, spot.case
        return spot.case

    def lay_out(self, width: int, height: int, *, now: datetime, has_focus: bool) -> list[Line]:
        """Return the lines of the page. `has_focus` shows the cursor. Less important parts are left out first."""
        row = self._state.browser.selected_row
        if self._state.project is None or row is None or not self._state.browser.sets:
            self._spots = ()
            lines = render_blocks(self._state.detail(), width=width, side_by_side=False)
            if self._state.project is not None:  # the keys that are useful if nothing is listed come first
                lines = [_format_hints(self._state, _choose_start_keys(self._state), width), (), *lines]
            return lines
        if self._state.shows_project:
            group: _Group = _ProjectGroup(self._state, (None, ""), self.report, self.problem, now)
        else:
            group = _Group(self._state, (row.target, row.eval_set), self.report, self.problem, now)
        head = group.make_head(width, height)
        placed = self._place(group, width, height - len(head))
        self._spots = _number_spots(placed, first=len(head))
        spot = self.selected_spot if has_focus else None
        lines = [*head, *(line for line, _ in placed)]
        if spot is not None:
            lines[spot.line] = _highlight(lines[spot.line], spot.start, spot.end)
        return lines

    def _place(self, group: _Group, width: int, height: int) -> list[_Placed]:
        if width < _TWO_COLUMNS_FROM:
            return _stack(group.make_sections(width), width, height)
        left_width = round((width - _GAP) * _LEFT_SHARE)
        right_width = width - _GAP - left_width
        left = _stack(group.make_left_sections(left_width), left_width, height)
        right = _stack(group.make_right_sections(right_width), right_width, height)
        return _join_columns(left, right, left_width + _GAP)


def _stack(sections: Sequence[_Section], width: int, height: int) -> list[_Placed]:
    """Lay out sections one below the other, as many and as much of each as fits."""
    for gap in (1, 0):
        heights = _share_out(sections, height, gap)
        if gap == 0 or len(heights) == len(sections):
            break
    placed: list[_Placed] = []
    for index, section in enumerate(sections):
        if index in heights:
            is_apart = gap and placed and not (section.is_quiet and sections[index - 1].is_quiet)
            placed += [((), ())] * bool(is_apart)
            placed += _lay_out_section(section, width, heights[index])
    return placed


def _share_out(sections: Sequence[_Section], height: int, gap: int) -> dict[int, int]:
    """Share lines out between sections: return the height of each section that is shown, by index."""
    ranked = sorted(range(len(sections)), key=lambda index: sections[index].rank)
    heights: dict[int, int] = {}
    left = height
    for index in ranked:
        needed = sections[index].least_height + (gap if heights else 0)
        if needed <= left:
            heights[index] = sections[index].least_height
            left -= needed
    for most in (_FAIR + 1, 2 * _FAIR + 1, height):
        for index in ranked:
            if index in heights:
                more = min(min(sections[index].full_height, most) - heights[index], left)
                heights[index] += max(more, 0)
                left -= max(more, 0)
    return heights


def _lay_out_section(section: _Section, width: int, height: int) -> Iterator[_Placed]:
    if section.beside is not None:
        half = (width - _GAP) // 2
        left = _lay_out_section(replace(section, beside=None), half, height)
        right = _lay_out_section(section.beside, width - half - _GAP, height)
        yield from _join_columns(left, right, half + _GAP)
        return
    if not section.is_quiet:
        note = StyledText(f"  {section.note}" if section.note else "", Style.MUTED)
        yield cut_line((StyledText(section.title, Style.HEADING), note), width), ()
        height -= 1
    total = max(section.total, len(section.rows))
    shown = section.rows[:height]
    has_more = section.total > 0 and len(shown) < total and height > 1  # a line for a number alone says nothing
    if has_more:
        shown = section.rows[: height - 1]
    for row in shown:
        line = fill_line(row.line, width)
        yield line, (() if row.case is None else (Spot(section.title, row.case, 0, 0, width),))
    if has_more:
        yield (StyledText(f"… {total - len(shown):,} more", Style.MUTED),), ()


def _join_columns(left: Iterable[_Placed], right: Iterable[_Placed], start: int) -> list[_Placed]:
    joined: list[_Placed] = []
    nothing: _Placed = ((), ())
    for (one, its_spots), (other, more_spots) in zip_longest(left, right, fillvalue=nothing):
        moved = (spot._replace(start=spot.start + start, end=spot.end + start) for spot in more_spots)
        joined.append(((*fill_line(one, start), *other), (*its_spots, *moved)))
    return joined


def _number_spots(placed: Sequence[_Placed], *, first: int) -> list[Spot]:
    """Number the lines of all spots, and order them by column, then by line."""
    spots = [spot._replace(line=number) for number, (_, found) in enumerate(placed, first) for spot in found]
    return sorted(spots, key=lambda spot: (spot.start > 0, spot.line))


def _highlight(line: Line, start: int, end: int) -> Line:
    """Put the cursor on the cells of a line."""
    before, inside, after = [], "", []
    position = 0
    for piece in line:
        if position < start:
            before.append(piece)
        elif position < end:
            inside += piece.text
        else:
            after.append(piece)
        position += cell_len(piece.text)
    return (*before, StyledText(inside, Style.CURSOR), *after)


def _fit(text: str, width: int) -> str:
    return set_cell_size(shorten(text, width), width)


# The content of the page.

_TRACK = (10, 32)  # least and most cells of a track
_NAMES = 0.38  # most of a line for the names of metrics or cases
_MEAN = 8  # cells for the mean of a metric
_RUNS_IN_WORDS = 3
_RUNS_OF_ALL = 5

# What a section without data will show, for wide and narrow pages.
_ABSENT_CRITERIA = ("after {}: the mean of each criterion, its threshold and its spread", "after {}: means, thresholds")
_ABSENT_FAILING = ("after {}: the cases that did not pass, each with one line of why", "after {}: which, and why")
_ABSENT_RUNS = ("after {}: the pass rates of runs of all these cases", "after {}: pass rates")
_ABSENT_RUNS_OF_ALL = ("after {}: the newest runs, and how many cases passed", "after {}: the newest ones")
_ABSENT_COSTS = ("after {}: the slowest cases, and the costliest if tokens are known", "after {}: the slowest cases")
_ABSENT_WATCH = ("off; {} turns it on: every save then runs the cases it affects", "off; {} reruns at every save")


class _Group:
    """The selected set or agent, with what is known of it now."""

    RUN: ClassVar[str] = "run_case"
    """Action that runs all cases of the group."""

    def __init__(
        self, state: ProjectState, key: GroupKey, report: GroupReport | None, problem: str, now: datetime
    ) -> None:
        self._state, self._report, self._problem, self._now = state, report, problem, now
        self._target, self._eval_set = key
        self._counts = state.board.count_states(self._target, self._eval_set or None)
        self._stale = state.board.count_stale_states(self._target, self._eval_set or None)
        self._sets = list_sets_of(state, key)
        self._total = sum(self._counts.values())
        self._failing = sum(self._counts.get(status, 0) for status in FAILING_STATES)
        self._has_verdicts = any(self._counts.get(status) for status in VERDICTS)

    # Above the sections.

    def make_head(self, width: int, height: int) -> list[Line]:
        """Make the title, problems, the bar of verdicts, and the next keys."""
        is_airy = height >= _AIRY_FROM
        lines = [self._format_title(width)]
        if is_airy:
            lines += [*self._format_place(width), ()]
        notes = self._render_notes(width)
        most = max(height // 3, 1)
        lines += notes[:most]
        if self._total:
            lines += [_draw_bar(self._list_shares(), width), self._format_legend(width)]
        lines += [()] * is_airy
        lines.append(_format_hints(self._state, self._choose_keys(), width))
        return [*lines, ()] if is_airy else lines

    def _format_title(self, width: int) -> Line:
        parts = [plural(self._total, "case")]
        if quarantined := sum(listed.count_quarantined() for listed in self._sets):
            parts.append(f"{QUARANTINED.symbol} {quarantined:,} in quarantine")
        turns = self._state.browser.count_turns(self._target, self._eval_set)
        if self._total and turns.cases == self._total and turns.turns:
            parts.append(f"{turns.turns:,}+ turns" if turns.open_cases else plural(turns.turns, "turn"))
        parts += self._list_facts()
        while len(parts) > 1 and cell_len(" · ".join(parts)) > width:
            parts.pop()
        first, *others = parts
        return (StyledText(first, Style.STRONG), *(StyledText(f" · {part}") for part in others))

    def _list_facts(self) -> Sequence[str]:
        """List what the title says after the numbers of cases and turns."""
        kind = safe_line(self._facts.get("kind", ""))
        if not self._eval_set:
            return [plural(len(self._sets), "eval set"), *([f"{kind} agent"] if kind else [])]
        return [f"{kind} agent {safe_line(self._target)}".strip()] if self._target else []

    @property
    def _facts(self) -> dict[str, str]:
        targets = self._state.project.targets if self._state.project is not None else {}
        return dict(targets.get(self._target or "", ()))

    def _format_place(self, width: int) -> list[Line]:
        """Format where the set or agent is; nothing if that is unknown. The frame names the set too."""
        if self._eval_set:
            config = self._sets[0].config if self._sets else ""
            text = f"{self._eval_set}{f' · criteria {config}' if config else ''}"
            if config and cell_len(text) > width:
                lead = "criteria "
                text = lead + keep_end(safe_line(config), width - len(lead))
        else:
            text = " in ".join(filter(None, (self._facts.get("runs", ""), self._facts.get("in", ""))))
        return [(StyledText(keep_end(safe_line(text), width), Style.MUTED),)] if text else []

    def _render_notes(self, width: int) -> list[Line]:
        blocks = list(self._make_notes())
        if self._problem:
            text = f"! the history cannot be read: {safe(self._problem)}"
            blocks.append(Paragraph.from_text(text, Style.ERROR, hang=2))
        return [line for line in render_blocks(blocks, width=width, side_by_side=False) if line]

    def _make_notes(self) -> Sequence[Block]:
        target = self._target or ""
        if self._sets and (self._eval_set or self._state.is_history_dataset(target)):
            return make_set_notes(self._sets[0])
        return make_target_notes(target, self._sets)

    def _list_shares(self) -> list[tuple[Badge, int]]:
        return list_shares(self._counts, self._stale)

    def _format_legend(self, width: int) -> Line:
        """Format the counts of the bar, with words and the outdated verdicts of stale cases if there is room."""
        line: Line = ()
        for has_words, has_outdated, gap in ((True, True, "   "), (True, False, "   "), (False, False, "  ")):
            pieces: list[StyledText] = []
            for badge, count in self._list_shares():
                lead = gap if pieces else ""
                word = f" {badge.word}" if has_words else ""
                pieces.append(StyledText(f"{lead}{badge.symbol} {count:,}{word}", badge.style))
                if has_outdated and badge is STALE:
                    pieces.append(StyledText(f" ({describe_outdated(self._stale)})", Style.MUTED))
            line = tuple(pieces)
            if measure_line(line) <= width:
                break
        return cut_line(line, width)

    def _choose_keys(self) -> Iterator[tuple[str, str]]:
        """Choose the actions that are useful now, the most useful first, with a few words about each."""
        state, target = self._state, self._target or ""
        listed = self._sets[0] if self._eval_set and self._sets else None
        if state.browser.is_set_edited(self._eval_set):
            yield "save", "save the edits"
        if listed is not None and listed.can_be_fetched:
            yield "rows_enter", "read its rows"
        elif state.browser.is_from_history(target, self._eval_set):
            yield from (("tab_history", "earlier runs"), ("results_table", "table of results"))
        elif listed is not None and listed.problem:
            yield "problems_pane", "open the file at the problem"
            yield from self._choose_run_keys(()) if self._total else ()
        elif not target:
            yield from (("add_target", "add an agent"), ("problems_pane", "problems"))
        elif not self._total:
            yield ("new_case", "new case") if self._eval_set else ("new_set", "new eval set")
            yield from (("generate", "write scenarios"), ("tab_chat", "talk to the agent"))
        else:
            yield from self._choose_run_keys((("list_unfold", "open"), ("new_case", "new case")))

    def _choose_run_keys(self, first: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        """Choose the actions that run cases or follow a run. `first` are those of a group that has not run yet."""
        state = self._state
        if state.is_running:
            yield from (("cancel_run", "stop"), ("run_pane", "progress"))
            yield from [("next_failing", "next failing")] if self._failing else ()
        elif self._failing:
            yield from (("next_failing", "next failing"), ("review", "review and accept"))
            yield "run_failed", "run failed again"
        elif not self._has_verdicts:
            browser = state.browser
            listed = sum(len(browser.list_cases(each)) for each in self._sets) if browser.is_filtered else self._total
            yield self.RUN, f"run {plural(listed, 'case')}"
            yield from first
        else:
            yield self.RUN, "run again"
            yield from [("watch", "run at every save")] if state.watch.mode is WatchMode.OFF else ()
            yield from (("results_table", "table of results"), ("criteria", "criteria"))

    # Sections.

    def make_sections(self, width: int) -> list[_Section]:
        slow, *costly = self._make_costs(width, column=(width - _GAP) // 2 if width >= _PAIR_FROM else width)
        if costly and width >= _PAIR_FROM:
            slow, costly = replace(slow, beside=costly[0]), []
        return [*self.make_left_sections(width), self._make_runs(width), slow, *costly, self._make_watch(width)]

    def make_left_sections(self, width: int) -> list[_Section]:
        """Make the sections for the wider of two columns."""
        return [self._make_criteria(width), self._make_failing(width)]

    def make_right_sections(self, width: int) -> list[_Section]:
        """Make the sections for the narrower of two columns."""
        return [self._make_runs(width), *self._make_costs(width, column=width), self._make_watch(width)]

    def _make_quiet(self, title: str, rank: int, width: int, texts: Sequence[str], *action_ids: str) -> _Section:
        """Make a section without data: one line that says what will be there, and which key makes it.

        The first of the texts that fits is used, else the last. Each `{}` is replaced by the key of an action.
        """
        keys = [self._state.find_key(action_id) for action_id in action_ids]
        text = next((each for each in texts if _LABEL + cell_len(each.format(*keys)) <= width), texts[-1])
        is_room = _LABEL + cell_len(text.format(*keys)) <= width
        pieces = [StyledText(f"{title:<{_LABEL}}" if is_room else f"{title}  ", Style.MUTED)]
        for part, key in zip_longest(text.split("{}"), keys, fillvalue=""):
            pieces += [StyledText(part, Style.MUTED), StyledText(key, Style.KEY)]
        return _Section(title, rank, [_Row(tuple(pieces))], is_quiet=True)

    def _explain_absence(self, title: str, rank: int, width: int, texts: Sequence[str], action_id: str) -> _Section:
        """Make a section without data, or say that it is being read or cannot be read."""
        if self._problem:
            return self._make_quiet(title, rank, width, ["unknown"])
        if self._report is None and self._has_verdicts:
            return self._make_quiet(title, rank, width, ["reading …"])
        return self._make_quiet(title, rank, width, texts, action_id)

    def _make_failing(self, width: int) -> _Section:
        title = "did not pass"
        reasons = self._report.reasons if self._report is not None else {}
        rows = [(record, why) for case, why in reasons.items() if (record := self._state.board.get_record(case))]
        rows = [(record, why) for record, why in rows if record.state in FAILING_STATES]
        if not self._failing:
            if self._has_verdicts:
                excused = self._counts.get(CaseState.QUARANTINED, 0)
                texts = [f"only {plural(excused, 'case')} in quarantine" if excused else "no case: all that ran passed"]
                return self._make_quiet(title, 1, width, texts)
            return self._explain_absence(title, 1, width, _ABSENT_FAILING, self.RUN)
        if not rows:
            texts = [f"{plural(self._failing, 'case')}; {{}} goes to the next one"]
            return self._explain_absence(title, 1, width, texts, "next_failing")
        names = _name_cases([record.key for record, _ in rows])
        column = min(max(map(cell_len, names)), int(width * _NAMES))
        found = []
        for name, (record, why) in zip(names, rows, strict=True):
            badge = get_badge(record.state)
            mark = STALE if self._state.browser.freshness.is_stale(record.key) else badge
            line = (
                StyledText(f"{badge.symbol} ", badge.style),
                StyledText(f"{mark.symbol} " if mark is STALE else "", STALE.style),
                StyledText(f"{_fit(name, column)}  "),
                StyledText(safe_line(why), Style.MUTED),
            )
            found.append(_Row(line, record.key))
        return _Section(title, 1, found, note=f"{self._failing:,} of {self._total:,}", total=self._failing)

    def _make_criteria(self, width: int) -> _Section:
        title = "criteria"
        metrics = [metric for metric in self._report.summary.metrics if metric.decides] if self._report else []
        if not metrics:
            return self._explain_absence(title, 2, width, _ABSENT_CRITERIA, self.RUN)
        column = min(max(cell_len(safe_line(metric.name)) for metric in metrics), int(width * _NAMES))
        metrics.sort(key=lambda metric: (metric.failed + metric.errors == 0, metric.passed / max(metric.scored, 1)))
        bad = sum(metric.failed + metric.errors > 0 for metric in metrics)
        rows = [_Row(_format_criterion(metric, column, width)) for metric in metrics]
        note = "mean, threshold ┃, middle half of the scores ━"
        has_room = len(f"{title}  {note}") <= width
        return _Section(
            title, 2, rows, note=note if has_room else "means", total=len(rows), least_rows=min(max(bad, 1), 3)
        )

    def _make_runs(self, width: int) -> _Section:
        title = "whole runs"
        runs = self._report.runs if self._report is not None else ()
        if not runs:
            return self._explain_absence(title, 3, width, _ABSENT_RUNS, self.RUN)
        rates = [calculate_pass_rate(part.summary) for part in reversed(runs)][-max(width - 24, 8) :]
        known = [rate for rate in rates if rate is not None]
        trend = f"  {known[0]:.0%} → {known[-1]:.0%} passed" if len(known) > 1 else ""
        rows = [_Row((StyledText(sparkline(rates, highest=1.0), Style.KEY), StyledText(trend, Style.MUTED)))]
        rows += [_Row(_format_run(part, width)) for part in runs[:_RUNS_IN_WORDS]]
        return _Section(title, 3, rows, note=f"{len(runs):,}, newest right")

    def _make_costs(self, width: int, *, column: int) -> list[_Section]:
        """Make the slowest cases, and the costliest ones if their tokens are known, in columns of this width."""
        slow = self._report.summary.slowest if self._report is not None else ()
        costly = self._report.summary.costliest if self._report is not None else ()
        if not slow:
            return [self._explain_absence("slowest", 5, width, _ABSENT_COSTS, self.RUN)]
        sections = [_Section("slowest", 5, _format_measured(slow, column, lambda each: format_duration(each.amount)))]
        if costly:
            sections.append(_Section("costliest", 6, _format_measured(costly, column, self._format_cost)))
        return sections

    def _format_cost(self, measured: MeasuredCase) -> str:
        """Format what the models of a case cost: dollars if they are known, and tokens."""
        dollars = self._report.dollars.get(measured.case) if self._report is not None else None
        money = "" if dollars is None else f"{cost_text(float(dollars))} · "
        return f"{money}{plural(round(measured.amount), 'token')}"

    def _make_watch(self, width: int) -> _Section:
        watch, key = self._state.watch, self._state.find_key("watch")
        title = "watch"
        if not watch.changes:
            if watch.mode is WatchMode.OFF:
                return self._make_quiet(title, 4, width, _ABSENT_WATCH, "watch")
            if watch.mode is WatchMode.PAUSED:
                return self._make_quiet(title, 4, width, ["paused; {} resumes it"], "watch")
            return self._make_quiet(title, 4, width, ["on; no save so far"])
        state = {WatchMode.OFF: f"off: {key} turns it on", WatchMode.PAUSED: f"paused: {key} resumes it"}
        line = _format_change(watch.changes[0], self._now, is_held=bool(watch.held))
        return _Section(title, 4, [_Row(line)], note=state.get(watch.mode, ""))


class _ProjectGroup(_Group):
    """The project: all agents and their eval sets."""

    RUN = "run_all"

    def _list_facts(self) -> Sequence[str]:
        agents = {listed.target for listed in self._sets if listed.target}
        return [plural(len(self._sets), "eval set"), plural(len(agents), "agent")]

    def _format_place(self, width: int) -> list[Line]:
        root = self._state.project.root if self._state.project is not None else ""
        return [(StyledText(keep_end(safe_line(root), width), Style.MUTED),)]

    def _make_notes(self) -> Sequence[Block]:
        """Make none: the sets and agents have their own."""
        return ()

    def _choose_keys(self) -> Iterator[tuple[str, str]]:
        return self._choose_run_keys((("tab_chat", "talk to the agent"), ("help", "all keys")))

    def make_left_sections(self, width: int) -> list[_Section]:
        """Make the sections for the wider of two columns."""
        return [self._make_failing(width), self._make_sets(width)]

    def _make_sets(self, width: int) -> _Section:
        """Make the eval sets with the share of their cases that passed, those with problems and failures first."""
        counted = [(each, self._state.board.count_states(each.target, each.relative)) for each in self._sets]
        counted.sort(key=lambda pair: (not pair[0].problem, -sum(pair[1].get(status, 0) for status in FAILING_STATES)))
        numbers = [
            each.state if each.problem else f"{counts.get(CaseState.PASSED, 0):,} of {sum(counts.values()):,}"
            for each, counts in counted
        ]
        longest = max(map(cell_len, numbers), default=0)
        names = [format_set_name(each.relative) for each, _ in counted]
        column = min(max(map(cell_len, names), default=0), int(width * _NAMES))
        targets = [safe_line(each.target) for each, _ in counted]
        room = width - column - longest - 6
        beside = max(map(cell_len, targets), default=0) + 2
        track = min(room - beside if room - beside >= _TRACK[0] else room, _TRACK[1])
        rows = []
        for (each, counts), name, number, target in zip(counted, names, numbers, targets, strict=True):
            total, passed = sum(counts.values()), counts.get(CaseState.PASSED, 0)
            worst = (
                state for state in (*FAILING_STATES, CaseState.QUARANTINED, CaseState.NOT_RUN) if counts.get(state)
            )
            state = next(worst, CaseState.PASSED if passed else CaseState.NOT_RUN)
            badge = get_badge(CaseState.ERROR if each.problem else state)
            share = passed / total if total else 0.0
            pieces = [StyledText(f"{badge.symbol} ", badge.style), StyledText(_fit(name, column))]
            if track >= _TRACK[0]:
                line = draw_track(track, marks=(), find_band=partial(_find_passed_band, share))
                pieces += [StyledText("  "), *line]
            pieces.append(StyledText(f"  {number:>{longest}}"))
            rows.append(_Row(add_fitting(tuple(pieces), [(StyledText(f"  {target}", Style.MUTED),)], width)))
        return _Section("eval sets", 2, rows, note="cases that passed", total=len(rows))

    def _make_runs(self, width: int) -> _Section:
        title = "last runs"
        runs = self._report.runs if self._report is not None else ()
        if not runs:
            return self._explain_absence(title, 3, width, _ABSENT_RUNS_OF_ALL, self.RUN)
        return _Section(title, 3, [_Row(_format_run(part, width)) for part in runs[:_RUNS_OF_ALL]], note="newest first")


def _find_passed_band(share: float, place: float) -> Style | None:
    return Style.PASSED if share and place <= share else None


def list_sets_of(state: ProjectState, key: GroupKey) -> list[ListedSet]:
    target, eval_set = key
    return [listed for listed in state.browser.list_sets(target) if eval_set in ("", listed.relative)]


def _draw_bar(shares: Sequence[tuple[Badge, int]], width: int) -> Line:
    """Draw parts of a whole; each begins with its symbol and has at least one cell."""
    total = sum(count for _, count in shares)
    exact = [count / total * width for _, count in shares]
    cells = [max(int(each), 1) for each in exact]
    while sum(cells) > width:
        cells[cells.index(max(cells))] -= 1
    for index in sorted(range(len(cells)), key=lambda index: cells[index] - exact[index])[: width - sum(cells)]:
        cells[index] += 1
    fills = (("╌" if badge.symbol in "○◌-⊘" else "━") for badge, _ in shares)
    return tuple(
        StyledText(badge.symbol + fill * (size - 1), badge.style)
        for (badge, _), fill, size in zip(shares, fills, cells, strict=True)
        if size > 0
    )


def _format_criterion(metric: GroupMetric, column: int, width: int) -> Line:
    """Format a criterion: its verdict, name, mean, the track of its scores, and how many cases pass."""
    badge = get_badge(_find_worst(metric))
    info = find_metric_info(metric.name)
    sign = "≤" if info is not None and info.lower_is_better else "≥"
    against = "" if metric.threshold is None else f"{sign} {format_limit(metric.name, metric.threshold)}"
    passing = f"  {metric.passed:,} of {metric.total:,} pass"
    if 2 + column + len("  ") + _MEAN + len(passing) > width:
        passing = f"  {metric.passed:,}/{metric.total:,}"
    name = _fit(safe_line(metric.name), column)
    mean = "no score" if metric.mean is None else format_measured(metric.name, metric.mean, metric.threshold)
    lead = f"{name}  {mean:>{_MEAN}}"
    beside = f" {against:<6}"
    room = width - 2 - cell_len(lead) - len(passing) - 2 - len(beside)
    track = _draw_spread(metric, min(room, _TRACK[1]), badge.style) if room >= _TRACK[0] else ()
    pieces = [StyledText(f"{badge.symbol} ", badge.style), StyledText(lead)]
    if track:
        pieces += [StyledText("  "), *track]
    if cell_len(lead) + len(passing) + len(beside) + 2 <= width:
        pieces.append(StyledText(beside, Style.MUTED))
    return (*pieces, StyledText(passing, badge.style))


def _find_worst(metric: GroupMetric) -> CaseState:
    """Return the worst verdict of a criterion on any case; a case without a score has none."""
    if metric.errors or metric.failed:
        return CaseState.ERROR if metric.errors else CaseState.FAILED
    return CaseState.PASSED if metric.passed == metric.total else CaseState.NOT_EVALUATED


def _draw_spread(metric: GroupMetric, length: int, style: Style) -> Line:
    mean, middle = metric.mean, metric.middle
    share = None if mean is None else compute_share(mean, metric.lowest, metric.highest)
    if share is None or middle is None:
        return (StyledText(" " * length),)
    first, last = (compute_share(bound, metric.lowest, metric.highest) or 0.0 for bound in middle)
    marks = [TrackMark(share, "●", style)]
    if metric.threshold is not None:
        threshold = compute_share(metric.threshold, metric.lowest, metric.highest) or 0.0
        marks.insert(0, TrackMark(threshold, "┃", Style.STRONG))
    half = 0.5 / max(length - 1, 1)  # a band that is narrower than a cell is still one cell
    return draw_track(
        length, marks=marks, find_band=lambda place: style if first - half <= place <= last + half else None
    )


def _format_run(part: RunPart, width: int) -> Line:
    """Format a run in words: when, how many passed, and how long it took. Without room, the last parts go first."""
    run, summary = part
    pieces = [
        StyledText(f"{run.started_at.astimezone():%Y-%m-%d %H:%M}  ", Style.MUTED),
        StyledText(f"{summary.passed:,} of {summary.total:,} passed"),
    ]
    failed, error = map(get_badge, (CaseState.FAILED, CaseState.ERROR))
    for badge, count in ((failed, summary.failed), (QUARANTINED, summary.quarantined), (error, summary.error)):
        if count:
            pieces.append(StyledText(f"  {badge.symbol} {count:,}", badge.style))
    if run.duration_seconds is not None and is_whole_part(part):
        pieces.append(StyledText(f"  {format_duration(run.duration_seconds)}", Style.MUTED))
    return cut_parts(tuple(pieces), width)


def _format_measured(cases: Sequence[MeasuredCase], width: int, form: Callable[[MeasuredCase], str]) -> list[_Row]:
    rows = []
    for measured, name in zip(cases, _name_cases([each.case for each in cases]), strict=True):
        text = form(measured)
        room = max(width - cell_len(text) - 2, 4)
        rows.append(_Row((StyledText(_fit(name, room)), StyledText(f"  {text}")), measured.case))
    return rows


def _name_cases(cases: Sequence[CaseKey]) -> list[str]:
    """Name cases by their ids. Equal ids in several sets are followed by their sets."""
    names = [make_case_row(case).label for case in cases]
    counts, sets = Counter(names), [format_set_name(case.eval_set) for case in cases]
    return [name if counts[name] == 1 else f"{name} ({of})" for name, of in zip(names, sets, strict=True)]


def _format_change(change: SeenChange, now: datetime, *, is_held: bool) -> Line:
    """Format the last save that the watch saw, and what it did. `is_held`: its cases wait for the user."""
    event = change.event
    path = safe_line(event.paths[0], width=60) if event.paths else "the project"
    more = f" and {len(event.paths) - 1:,} more" if len(event.paths) > 1 else ""
    jobs, done = event.run + event.judged, len(change.verdicts)
    failed = sum(state in FAILING_STATES for state in change.verdicts.values())
    if not jobs and event.quarantines:
        effect = f"quarantine of {plural(len(event.quarantines), 'case')} changed"
    elif not jobs and event.waiting:
        effect = f"{event.waiting:,} of {plural(event.total, 'case')} wait until the source compiles"
    elif not jobs:
        effect = f"none of {plural(event.total, 'case')} is affected"
    elif is_held and event.held:
        effect = f"{jobs:,} of {plural(event.total, 'case')} held back"
    elif done < jobs:
        effect = f"{jobs:,} of {plural(event.total, 'case')} run again, {done:,} done"
    else:
        effect = f"{jobs:,} of {plural(event.total, 'case')} ran again"
    return (
        StyledText(f"{path}{more}", Style.STRONG),
        StyledText(f" {event.verb} {_format_age((now - event.at).total_seconds())}: {effect}"),
        StyledText(f", {failed:,} failed" if failed else "", Style.FAILED),
    )


def _format_age(seconds: float) -> str:
    if seconds < 60:
        return f"{max(int(seconds), 0)} s ago"
    return f"{int(seconds // 60):,} min ago" if seconds < 3600 else f"{int(seconds // 3600):,} h ago"


# The next keys.


def _choose_start_keys(state: ProjectState) -> Iterator[tuple[str, str]]:
    """Choose the actions that are useful if nothing is listed."""
    if state.browser.is_filtered:
        yield "filter", "change the filter"
    elif state.project is not None and state.project.targets:
        yield from (("tab_chat", "talk to the agent"), ("new_set", "new eval set"), ("help", "all keys"))
    else:
        yield from (("new_set", "new eval set"), ("add_target", "add an agent"), ("help", "all keys"))


_AROUND_HINTS = 3  # blanks before and after the hints of a line, which need no room here


def _format_hints(state: ProjectState, actions: Iterable[tuple[str, str]], width: int) -> Line:
    """Format up to three keys, as the user has set them."""
    hints = [KeyHint(state.find_key(action_id), words) for action_id, words in islice(actions, 3)]
    lead = StyledText("next ", Style.HEADING)
    room = width + _AROUND_HINTS
    if len(fitting := fit_hints(hints, (), width=room - len(lead.text) - 1)) == len(hints):
        line = (lead, *make_hint_line(fitting))
    else:
        line = make_hint_line(fit_hints(hints, (), width=room))[1:]
    return (*line[:-1], *(piece._replace(text=piece.text.rstrip()) for piece in line[-1:]))
