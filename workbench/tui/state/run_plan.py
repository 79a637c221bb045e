"""Plan of a run before it starts: cases, criteria, cost and settings, for the user to confirm."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from workbench.model.criteria import Criterion, EvalConfig
from workbench.model.identity import CaseKey
from workbench.model.text import format_duration, format_threshold
from workbench.report.run_report import REPLAY_MARK, cost_text
from workbench.tui.state.browser_state import Browser
from workbench.tui.state.case_filter import Order
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    Line,
    ListRows,
    Paragraph,
    Style,
    StyledText,
    fill_line,
    format_count,
    plural,
    safe_line,
)

if TYPE_CHECKING:
    from workbench.engine.plan import Plan, PlannedCase, RunOptions, Selection
    from workbench.engine.plan_cost import Estimate, JudgeCost, PlanCost


_MOST_SETS = 6
_MOST_PROBLEMS = 4
_WORDS = 23  # cells for the name of a setting, if there is room
_VALUE = 8  # cells for its value, if there is room

Setting = Literal["runs", "concurrency", "timeout_seconds"]

_SETTINGS: tuple[tuple[Setting, str, Sequence[float]], ...] = (
    ("runs", "repeats of each case", (1, 2, 3, 5, 10, 20, 50, 100)),
    ("concurrency", "cases at a time", (1, 2, 4, 8, 16, 32, 64, 128)),
    ("timeout_seconds", "seconds for a case", (5, 10, 30, 60, 120, 300, 600, 1800, 3600)),
)
"""Settings that can be changed before the run starts, with the values to choose from."""
_BUDGETS = (10, 20, 50, 60, 100, 200, 500, 1000)


@dataclass(frozen=True)
class PlannedRun:
    """A plan with its selections and options. `cost` is None if no confirmation is needed (`asks`).

    The sources of criteria are relative to `folder`.
    """

    selections: Sequence[Selection]
    options: RunOptions
    config: EvalConfig | None
    plan: Plan
    cost: PlanCost | None
    asks: bool
    folder: Path


class PlanSettings(ListRows):
    """Settings that can be changed before a run starts, as rows of a `RowList`.

    With `executions` it is only the number of executions, under this name.
    """

    def __init__(self, planned: PlannedRun, *, executions: str | None = None) -> None:
        self._settings = _SETTINGS
        if executions is not None:
            self._settings = (("runs", executions, _BUDGETS),)
        self._values = {name: float(getattr(planned.plan.limits, name)) for name, _, _ in self._settings}

    def __len__(self) -> int:
        return len(self._settings)

    def line(self, index: int, width: int) -> Line:
        """Format one setting. Without room the name is cut, the value is not."""
        name, words, _ = self._settings[index]
        mark = "◂ ▸" if index == self.cursor else "   "
        longest = max(len(f"{value:g}") for value in self._values.values())
        room = min(max(width - longest - len(f"  {mark}"), 0), _WORDS)
        digits = min(max(width - room - len(f"  {mark}"), longest), _VALUE)
        label = fill_line((StyledText(f" {words} "),), room)
        value = f"{self._values[name]:>{digits}g}  "
        return (*label, StyledText(value, Style.STRONG), StyledText(mark, Style.KEY))

    @property
    def selected_setting(self) -> tuple[Setting, str, float]:
        """Name, description and value of the selected setting."""
        name, words, _ = self._settings[self.cursor]
        return name, words, self._values[name]

    def step(self, by: int) -> None:
        """Change the selected setting to the next larger (1) or smaller (-1) of its values."""
        name, _, offered = self._settings[self.cursor]
        value = self._values[name]
        if by > 0:
            self._values[name] = next((step for step in offered if step > value), value)
        else:
            self._values[name] = next((step for step in reversed(offered) if step < value), value)

    def set_value(self, value: float) -> None:
        self._values[self.selected_setting[0]] = value

    def apply(self, options: RunOptions) -> RunOptions:
        """Return the options of a run with these settings."""
        values: dict[str, float] = {
            name: value if name == "timeout_seconds" else int(value) for name, value in self._values.items()
        }
        return options.model_copy(update=values)


def check_setting(name: Setting, text: str) -> str | None:
    """Check a value as typed and return the problem; None if it is valid."""
    expected = "more than 0" if name == "timeout_seconds" else "a whole number of at least 1"
    try:
        value = float(text) if name == "timeout_seconds" else int(text)
    except ValueError:
        return f"expected {expected}"
    return None if 0 < value < 1_000_000 else f"expected {expected}, and less than a million"


def describe_plan(planned: PlannedRun) -> Iterator[Block]:
    """Describe the cases, the criteria and the cost of a run that needs confirmation."""
    cost = planned.cost
    assert cost is not None
    jobs = f"{plural(cost.cases, 'case')} × {plural(cost.repeats, 'repeat')} = {plural(cost.jobs + cost.reused, 'job')}"
    kept = f"; {cost.reused:,} reused" if cost.reused else ""
    yield _format_fact("runs", f"{jobs}{kept}")
    yield _format_fact("calls", _format_calls(cost))
    for user in cost.users:
        often = "any number of answers" if user.at_most is None else f"at most {plural(user.at_most, 'answer')}"
        played = plural(user.conversations, "conversation")
        yield _format_fact("users", f"{safe_line(user.model)} as the user of {played}: {often}")
    for metric, calls in cost.judge_calls.items():
        often = f"about {plural(calls, 'call')}" if calls else "depends on the length of the conversations"
        yield _format_fact("judge", f"{safe_line(metric)}: {often}")
    for judge in cost.judges:
        yield from _describe_judge(judge)
    if (bounds := _format_limits(planned.plan)) is not None:
        yield _format_fact("at most", bounds)
    if cost.replays is not None:
        yield _format_fact("models", f"{REPLAY_MARK} {safe_line(str(cost.replays))}")
    yield from _describe_times(cost)
    if cost.live_model_jobs:
        tokens = _format_estimate(cost.tokens, lambda amount: f"about {format_count(amount)}", kind=_get_kind(cost))
        yield _format_fact("tokens", tokens)
    for problem in planned.plan.problems[:_MOST_PROBLEMS]:
        yield Paragraph.from_text(f"! {safe_line(problem)}", Style.ERROR, hang=2)
    yield BLANK
    yield from _describe_sets(planned.plan)
    yield BLANK
    yield from _describe_criteria(planned)
    for notice in planned.plan.notices[:_MOST_PROBLEMS]:
        yield Paragraph.from_text(f"· {safe_line(notice)}", Style.MUTED, hang=2)


def describe_execution(planned: PlannedRun) -> str:
    """Describe what one of the planned executions costs, in a sentence for a question."""
    cost = planned.cost
    if cost is None:
        return ""
    judged = sum(cost.judge_calls.values())
    parts = [_format_calls(cost), f"about {plural(judged, 'judge call')}" if judged else ""]
    if cost.seconds is not None:
        parts.append(f"about {format_duration(cost.seconds.amount)}")
    return f"One execution: {', '.join(filter(None, parts))}."


def _format_calls(cost: PlanCost) -> str:
    open_ended = f"{plural(cost.open_ended, 'conversation')} of unknown length" if cost.open_ended else ""
    if not cost.model_jobs:
        known = f"{plural(cost.agent_turns, 'turn')} of functions, which cost nothing" if cost.agent_turns else ""
        return ", and ".join(filter(None, (known, open_ended))) or "no agent"
    free = cost.agent_turns - cost.model_turns
    known = f"{plural(cost.model_turns, 'turn')} of agents with a model, at least one model call each"
    also = f"{plural(free, 'turn')} of functions, which cost nothing" if free else ""
    return ", and ".join(filter(None, (known, also, open_ended)))


def _describe_times(cost: PlanCost) -> Iterator[Block]:
    """Describe the time of the jobs that ask their models, and of those with a recording."""
    parts = [(cost.live_jobs, cost.seconds, _get_kind(cost))]
    if cost.replays is not None:
        parts.append((cost.replays.recorded, cost.replayed_seconds, "replayed "))
    known = [(seconds, kind) for jobs, seconds, kind in parts if jobs]
    for name, (seconds, kind) in zip(("takes", "and"), known, strict=False):
        yield _format_fact(
            name, _format_estimate(seconds, lambda amount: f"about {format_duration(amount)}", kind=kind)
        )


def _get_kind(cost: PlanCost) -> str:
    return "" if cost.replays is None else "live "


def _describe_judge(judge: JudgeCost) -> Iterator[Block]:
    """Describe the calls and the cost of one judge model."""
    talks = plural(judge.open_ended, "conversation")
    more = f", plus calls for {talks} of unknown length" if judge.open_ended else ""
    calls = f"about {plural(judge.calls, 'call')}{more}" if judge.calls else more.removeprefix(", plus ") or "no call"
    calls += "; cached answers cost nothing"
    tokens = "tokens unknown: no earlier run"
    if judge.tokens is not None:
        tokens = f"about {format_count(judge.tokens.amount)} tokens"
    money = "" if judge.dollars is None else f", about {cost_text(judge.dollars.amount)}"
    yield _format_fact("", f"{safe_line(judge.model)}: {calls}; {tokens}{money}")
    if judge.price_unknown is not None:
        yield _format_fact("", safe_line(judge.price_unknown))


def _format_limits(plan: Plan) -> str | None:
    limits = plan.limits
    calls = None if limits.max_model_calls is None else plural(limits.max_model_calls, "model call")
    money = None if limits.max_model_cost is None else f"${limits.max_model_cost:g} for models"
    return ", ".join(bound for bound in (calls, money) if bound is not None) or None


def _describe_sets(plan: Plan) -> Iterator[Block]:
    counts = Counter(case.key.eval_set for case in plan.cases)
    targets = {case.key.eval_set: case.target for case in plan.cases}
    for eval_set, count in list(counts.items())[:_MOST_SETS]:
        target = targets[eval_set]
        agent = f"{safe_line(target.name)} ({target.kind.value})"
        yield _format_fact("set", f"{safe_line(eval_set)}: {plural(count, 'case')}, agent {agent}")
    if len(counts) > _MOST_SETS:
        yield _format_fact("", f"and {plural(len(counts) - _MOST_SETS, 'more set')}")


def _describe_criteria(planned: PlannedRun) -> Iterator[Block]:
    for prepared in planned.plan.criteria:
        config = prepared.config
        if not config.criteria:
            yield _format_fact("judged by", "no criteria: conversations are only played")
            continue
        criteria = ", ".join(format_criterion(criterion) for criterion in config.criteria)
        yield _format_fact("judged by", f"{criteria} ({safe_line(_format_source(config, planned))})")


def _format_source(config: EvalConfig, planned: PlannedRun) -> str:
    """Format the source of criteria; files in the project relative to its root."""
    path, root = planned.folder / config.source, planned.plan.root
    return str(path.relative_to(root)) if path.is_relative_to(root) else config.source


def format_criterion(criterion: Criterion) -> str:
    """Format metric, threshold and options of a criterion; safe to show."""
    threshold = "" if criterion.threshold is None else f" {format_threshold(criterion.threshold)}"
    options = _format_pairs(criterion.options)
    return safe_line(f"{criterion.metric}{threshold}{f' [{options}]' if options else ''}", width=160)


def _format_pairs(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_format_value(value)}" for name, value in values.items())


def _format_value(value: Any) -> str:
    """Format a JSON value without quotes and braces."""
    if isinstance(value, dict):
        return f"({_format_pairs(value)})"
    if isinstance(value, list):
        return f"[{', '.join(map(_format_value, value))}]"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _format_estimate(estimate: Estimate | None, words: Callable[[float], str], *, kind: str) -> str:
    """Format an amount with its source. `kind` are the earlier runs that count, such as `live `."""
    if estimate is None:
        return f"no estimate: no earlier {kind}run of these cases"
    return f"{words(estimate.amount)}, from earlier {kind}runs of {estimate.known:,} of {plural(estimate.of, 'case')}"


def _format_fact(name: str, text: str) -> Paragraph:
    return Paragraph((StyledText(f"{name:<10}", Style.MUTED), StyledText(text)), hang=10)


# The order of a run: the user looks at some cases, and reads the others from top to bottom.


def sort_by_list(
    cases: Sequence[PlannedCase], browser: Browser, *, first: Collection[CaseKey]
) -> tuple[PlannedCase, ...]:
    """Sort planned cases as the list shows them, with the cases in `first` at the front."""
    listed = () if browser.order is Order.FILE else browser.iterate_listed_rows()  # planned in the order of files
    places = {_to_tuple(row.case): number for number, row in enumerate(listed) if row.case is not None}
    front = set(map(_to_tuple, first))
    ids_in_front = {key.eval_id for key in first}  # decides for most cases, and is found faster

    def is_behind(case: PlannedCase) -> bool:
        return case.key.eval_id not in ids_in_front or _to_tuple(case.key) not in front

    ordered = sorted(cases, key=lambda case: places.get(_to_tuple(case.key), len(places))) if places else cases
    return tuple(sorted(ordered, key=is_behind))


def _to_tuple(key: CaseKey) -> tuple[str, str, str, int]:
    """Return what identifies a case as a value that hashes fast, for a hundred thousand cases."""
    return key.target, key.eval_set, key.eval_id, key.occurrence
