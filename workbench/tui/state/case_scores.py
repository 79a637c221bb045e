"""Scores of one case with its repeats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from workbench.metrics.case_view import CaseView, JudgedCase
from workbench.metrics.registry import known_metrics
from workbench.model.evalset import EvalCase
from workbench.model.results import (
    CaseResult,
    CaseStatus,
    Execution,
    Judgement,
    JudgeSample,
    MetricResult,
    MetricStatus,
    RubricScore,
    SentenceScore,
    is_unsure,
    measure_agreement,
)
from workbench.model.text import (
    REDACTED,
    compare_with_threshold,
    format_duration,
    format_measured,
    is_secret_key,
    pluralise,
    redact,
    score_text,
)
from workbench.report.dialect_report import POLICIES, rule_texts
from workbench.report.run_report import agreement_text, describe_range, samples_text
from workbench.report.significance import Interval, estimate_pass_all_k, estimate_pass_at_k, wilson_interval
from workbench.report.text_report import folded_details
from workbench.tui.state.browser_state import Subject
from workbench.tui.state.case_status import CaseState, get_metric_badge
from workbench.tui.state.text_layout import (
    BLANK,
    Block,
    ItemRows,
    Line,
    Paragraph,
    Style,
    StyledText,
    bar,
    compute_share,
    format_time_taken,
    measure_line,
    safe,
    safe_line,
    shorten_name,
    sparkline,
)

if TYPE_CHECKING:
    from workbench.metrics.metric_types import MetricInfo


_GOOD, _BAD, _NONE = ("✓", Style.PASSED), ("✗", Style.FAILED), ("!", Style.WARNING)
# Judgements: the prompt of a judge model for each turn, and all its samples.

_GRADED = ("·", Style.MUTED)  # a grade between the best and the worst, or of several items


def describe_judgements(metric: MetricResult) -> Iterator[Block]:
    """Describe all answers of judge models about a case; empty if no model judged it."""
    for number, turn in enumerate(metric.per_invocation, start=1):
        if turn.judgement is None:
            continue
        yield BLANK
        place = f" on turn {number}" if len(metric.per_invocation) > 1 else ""
        yield Paragraph.from_text(f"answers of {safe_line(turn.judgement.model)}{place}", Style.HEADING)
        yield _format_agreement(turn.judgement)
        yield from map(_format_rubric, turn.judgement.rubrics)
        yield from _format_sentences(turn.judgement)
        yield from _format_failed_tries(turn.judgement)
        for count, sample in enumerate(turn.judgement.samples, start=1):
            yield _format_sample(count, sample, best=turn.judgement.best)
        yield from _quote_texts(turn.judgement)


def _format_agreement(judgement: Judgement) -> Block:
    agreement = measure_agreement(judgement)
    agree = agreement is not None and agreement.share == 1.0
    return Paragraph.from_text(agreement_text(judgement), Style.MUTED if agree else Style.WARNING, indent=2)


def _format_rubric(rubric: RubricScore) -> Block:
    symbol, style = _choose_mark(rubric.score)
    votes = f"{rubric.yes} yes, {rubric.no} no"
    why = f"  {safe(redact(rubric.rationale))}" if rubric.rationale else ""
    pieces = (
        StyledText(f"{symbol} ", style),
        StyledText(f"{safe_line(rubric.rubric_id)}  ", Style.KEY),
        StyledText(safe(redact(rubric.text))),
        StyledText(f"  {votes}{why}", Style.MUTED),
    )
    return Paragraph(pieces, indent=2, hang=2)


def _format_sentences(judgement: Judgement) -> Iterator[Block]:
    several = len({sentence.response for sentence in judgement.sentences}) > 1
    response = 0
    for sentence in judgement.sentences:
        if several and sentence.response != response:
            response = sentence.response
            yield Paragraph.from_text(f"response {response}", Style.KEY, indent=2)
        yield _format_sentence(sentence)


def _format_sentence(sentence: SentenceScore) -> Block:
    symbol, style = _choose_mark(sentence.score)
    votes = ", ".join(f"{number} {_format_label(label)}" for label, number in sentence.votes.items())
    why = f"  {safe(redact(sentence.rationale))}" if sentence.rationale else ""
    evidence = f"  “{safe(redact(sentence.evidence))}”" if sentence.evidence else ""
    pieces = (
        StyledText(f"{symbol} ", style),
        StyledText(f"{_format_label(sentence.label)}  ", Style.KEY),
        StyledText(safe(redact(sentence.sentence))),
        StyledText(f"  {votes}{why}{evidence}", Style.MUTED),
    )
    return Paragraph(pieces, indent=2, hang=2)


def _format_failed_tries(judgement: Judgement) -> Iterator[Block]:
    tries = judgement.preparation.tries if judgement.preparation is not None else ()
    for sample in tries:
        if sample.problem is not None:
            pieces = (
                StyledText("asked first ", Style.KEY),
                StyledText("! ", Style.WARNING),
                StyledText(safe(redact(sample.problem))),
            )
            yield Paragraph(pieces, indent=2, hang=2)


def _format_label(label: str | None) -> str:
    return "no label" if label is None else label.replace("_", " ")


def _format_sample(number: int, sample: JudgeSample, *, best: float | None) -> Block:
    symbol, style = _GRADED
    said = sample.rationale
    if sample.problem is not None:
        (symbol, style), said = _NONE, sample.problem
    elif sample.label:
        symbol, style = safe_line(sample.label), Style.KEY
    elif sample.score == best:
        symbol, style = _GOOD
    elif sample.score == 0.0 and best == 1.0:
        symbol, style = _BAD
    is_grade = not sample.label and sample.score is not None and (best != 1.0 or 0.0 < sample.score < 1.0)
    grade = f"{sample.score:.3g}  " if is_grade else ""
    cached = "  by a script" if sample.scripted else "  cached" if sample.cached else ""
    took = "" if cached or not sample.reply else f"  {format_duration(sample.seconds)}"
    head = StyledText(f"sample {number:<3} ", Style.KEY)
    body = StyledText(f"{grade}{safe(redact(said))}")
    return Paragraph(
        (head, StyledText(f"{symbol} ", style), body, StyledText(f"{cached}{took}", Style.MUTED)), indent=2, hang=2
    )


def _quote_texts(judgement: Judgement) -> Iterator[Block]:
    texts = [(f"reply {number}", each.reply) for number, each in enumerate(judgement.samples, start=1) if each.reply]
    if judgement.system is not None:
        texts.append(("system instruction", judgement.system))
    if judgement.prompt:
        texts.append(("prompt", judgement.prompt))
    texts += [("prompt with swapped answers", other) for other in _list_other_prompts(judgement)]
    if judgement.preparation is not None:
        tries = enumerate(judgement.preparation.tries, start=1)
        texts += [(f"reply {number} to the preparing prompt", each.reply) for number, each in tries if each.reply]
        texts.append(("preparing prompt", judgement.preparation.prompt))
    for title, text in texts:
        yield Paragraph.from_text(title, Style.KEY, indent=2)
        for line in redact(text).splitlines():
            yield Paragraph.from_text(safe(line), Style.MUTED, indent=4)


def _list_other_prompts(judgement: Judgement) -> list[str]:
    """List the prompts of samples that differ from the main prompt, without duplicates."""
    return list(dict.fromkeys(sample.prompt for sample in judgement.samples if sample.prompt is not None))


def _choose_mark(score: float | None) -> tuple[str, Style]:
    return _NONE if score is None else _GOOD if score == 1.0 else _BAD


# Documentation of metrics, found in the registry by the name of a result.


@cache
def find_metric_info(name: str) -> MetricInfo | None:
    """Find a metric whose name is, or begins, the name of a result; None for a custom metric."""
    known = known_metrics()
    if name in known:
        return known[name]
    found = (info for info in known.values() if name.startswith(info.name))
    return max(found, key=lambda info: len(info.name), default=None)


def describe_metric(name: str) -> list[Block]:
    """Describe purpose, use and range of a metric."""
    info = find_metric_info(name)
    if info is None:
        return [Paragraph.from_text("a metric of this project", Style.MUTED, indent=2)]
    facts = [("judges", info.purpose), ("use it", info.when), ("range", format_range(info))]
    if info.needs_reference:
        facts.append(("needs", "expectations of the case"))
    return [Paragraph.from_fact(key, safe(text), indent=2) for key, text in facts if text]


def format_range(info: MetricInfo) -> str:
    """Format the bounds of the scores, and which end is better."""
    lowest = "…" if info.lowest is None else f"{info.lowest:g}"
    highest = "…" if info.highest is None else f"{info.highest:g}"
    return f"{lowest} to {highest}, {'lower' if info.lower_is_better else 'higher'} is better"


# A JSON value as an indented tree: one line for each key, long texts wrapped below it.

_MOST_LINES = 2_000


def format_value(value: Mapping[str, Any], *, indent: int) -> list[Block]:
    """Format the members of an object. A very large one is cut, with the number of missing lines."""
    blocks: list[Block] = []
    left_out = 0
    for block in _format_members(value, indent=indent):
        if len(blocks) < _MOST_LINES:
            blocks.append(block)
        else:
            left_out += 1
    if left_out:
        blocks.append(Paragraph.from_text(f"… {left_out:,} more lines are not shown", Style.MUTED, indent=indent))
    return blocks


def _format_members(value: Any, *, indent: int) -> Iterator[Block]:
    items = value.items() if isinstance(value, Mapping) else enumerate(value, start=1)
    for key, member in items:
        name = f"{key}." if isinstance(key, int) else safe_line(str(key))
        if isinstance(member, Mapping | list | tuple) and member:
            yield Paragraph.from_text(name, Style.KEY, indent=indent)
            yield from _format_members(member, indent=indent + 2)
        else:
            shown = REDACTED if isinstance(member, str) and is_secret_key(name) else _format_text(member)
            yield Paragraph.from_fact(name, shown, indent=indent)


def _format_text(value: Any) -> str:
    if isinstance(value, str):
        return safe(redact(value)) or '""'
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "none"
    if isinstance(value, float):
        return f"{value:.6g}"
    return safe(redact(str(value)))


# One metric as a row and in detail.

_SCORE = 15
_BAR = 12
_BAR_FROM = 58  # minimum cells of a row with a bar
_TURNS_FROM = 84  # minimum cells of a row with the scores of turns
_DETAIL_BAR = 30


def format_metric_row(metric: MetricResult, repeats: Sequence[float | None], *, width: int) -> Line:
    """Format a metric: symbol, name, bar with threshold, score; for several `repeats` mean and deviation."""
    badge = get_metric_badge(metric.status)
    is_reported = metric.threshold is None
    lead = f" {badge.symbol} "
    score = f" {format_score(metric, repeats)} "
    if width >= _BAR_FROM:
        score = score.rjust(_SCORE + 1)
    middle: list[StyledText] = []
    if width >= _TURNS_FROM and len(metric.per_invocation) > 1:
        middle.append(StyledText(f"  {_draw_turns(metric)}", Style.KEY))
    if width >= _BAR_FROM:
        middle.append(
            StyledText(f"  {draw_metric_bar(metric, _calculate_mean(repeats), width=_BAR) or ' ' * _BAR}", badge.style)
        )
    used = cell_len(lead) + measure_line(tuple(middle)) + len(score)
    name = StyledText(
        shorten_name(safe_line(metric.name), max(width - used, 8)), Style.TEXT if is_reported else Style.STRONG
    )
    gap = StyledText(" " * max(width - used - cell_len(name.text), 0))
    return (StyledText(lead, badge.style), name, gap, *middle, StyledText(score, badge.style))


def format_score(metric: MetricResult, repeats: Sequence[float | None] = ()) -> str:
    """Format the score and its threshold; for several repeats mean and deviation."""
    known = [score for score in repeats if score is not None]
    if len(repeats) > 1 and known:
        spread = f" ±{_format_number(metric, stdev(known))}" if len(known) > 1 else ""
        return f"{_format_number(metric, fmean(known))}{spread}"
    if metric.score is None:
        return "no score" if metric.status is not MetricStatus.ERROR else get_metric_badge(metric.status).word
    if metric.threshold is None:
        return _format_number(metric, metric.score)
    return compare_with_threshold(metric.score, metric.threshold, metric=metric.name)


def _format_number(metric: MetricResult, number: float) -> str:
    """Format a score; a measure as what it is, a time or a count."""
    if metric.status is not MetricStatus.INFORMATIONAL:
        return score_text(number)
    if metric.name == "latency":
        return format_time_taken(number)
    return f"{number:,.0f}" if number.is_integer() else score_text(number)


def draw_metric_bar(metric: MetricResult, score: float | None, *, width: int) -> str:
    """Draw the score within the bounds of the metric, with its threshold; empty without bounds or score."""
    lowest, highest = find_bounds(metric)
    share = None if score is None else compute_share(score, lowest, highest)
    if share is None:
        return ""
    mark = None if metric.threshold is None else compute_share(metric.threshold, lowest, highest)
    return bar(share, width=width, mark=mark)


def find_bounds(metric: MetricResult) -> tuple[float | None, float | None]:
    """Return the lowest and the highest possible score; None for no bound."""
    judgement = next((turn.judgement for turn in metric.per_invocation if turn.judgement is not None), None)
    info = find_metric_info(metric.name)
    if info is not None:
        return info.lowest, info.highest
    return (0.0, 1.0) if judgement is None else (judgement.lowest, judgement.best)


def describe_result(metric: MetricResult, repeats: Sequence[CaseResult]) -> Iterator[Block]:
    """Describe one metric of a case: verdict, reasons, turns, repeats, details, documentation."""
    badge = get_metric_badge(metric.status)
    unsure = (StyledText("  ~ unsure: the samples of the judge disagree", Style.WARNING),) if is_unsure(metric) else ()
    head = (
        StyledText(safe_line(metric.name), Style.HEADING),
        StyledText(f"  {badge.symbol} {badge.word}", badge.style),
    )
    samples = samples_text(metric)
    missing = () if samples is None else (StyledText(f"  ~ {samples}", Style.WARNING),)
    yield Paragraph((*head, *unsure, *missing))
    yield Paragraph.from_text(_format_verdict(metric), indent=2, hang=2)
    if picture := draw_metric_bar(metric, metric.score, width=_DETAIL_BAR):
        yield Paragraph.from_text(picture, badge.style, indent=2)
    for name, text in (("why", metric.reason), ("hint", metric.hint)):
        if text:
            yield Paragraph.from_fact(name, safe(redact(text)), indent=2)
    yield from _describe_turns(metric)
    yield from describe_judgements(metric)
    if len(repeats) > 1:
        yield from _describe_repeats(metric.name, repeats)
    if metric.details:
        yield BLANK
        yield Paragraph.from_text("details", Style.HEADING)
        yield from format_value(folded_details(metric), indent=2)
    yield BLANK
    yield Paragraph.from_text("about the metric", Style.HEADING)
    yield from describe_metric(metric.name)


def collect_scores(name: str, repeats: Sequence[CaseResult]) -> list[float | None]:
    """Collect the score of one metric from each repeat."""
    return [next((metric.score for metric in result.metrics if metric.name == name), None) for result in repeats]


def _format_verdict(metric: MetricResult) -> str:
    if metric.score is None:
        return "there is no score"
    text = f"score {format_measured(metric.name, metric.score, metric.threshold)}"
    if metric.threshold is not None:
        info = find_metric_info(metric.name)
        need = "at most" if info is not None and info.lower_is_better else "at least"
        text += f", needs {need} {format_measured(metric.name, metric.threshold, metric.score)}"
    scored = (
        f"; a score for {metric.scored} of {pluralise(metric.total, 'turn')}" if metric.scored < metric.total else ""
    )
    return text + scored


def _describe_turns(metric: MetricResult) -> Iterator[Block]:
    if not metric.per_invocation:
        return
    yield BLANK
    yield Paragraph.from_text("turn by turn", Style.HEADING)
    for number, turn in enumerate(metric.per_invocation, start=1):
        value = ("no score" if turn.score is None else format_measured(metric.name, turn.score)) + " "
        picture = draw_metric_bar(metric, turn.score, width=_BAR)
        notes = "  ".join(safe(redact(note)) for note in (turn.reason, turn.hint) if note)
        pieces = [StyledText(f"turn {number:<3} ", Style.KEY), StyledText(f"{picture:<{_BAR}}  {value:<8}")]
        yield Paragraph((*pieces, StyledText(notes, Style.MUTED)), indent=2, hang=2)


def _describe_repeats(name: str, repeats: Sequence[CaseResult]) -> Iterator[Block]:
    yield BLANK
    known = [score for score in collect_scores(name, repeats) if score is not None]
    spread = f"  {describe_range(known)}" if known else ""
    yield Paragraph((StyledText("repeat by repeat", Style.HEADING), StyledText(spread)))
    for result in repeats:
        metric = next((metric for metric in result.metrics if metric.name == name), None)
        head = StyledText(f"repeat {result.repeat + 1:<3} ", Style.KEY)
        if metric is None:
            yield Paragraph((head, StyledText("not judged", Style.MUTED)), indent=2)
            continue
        badge = get_metric_badge(metric.status)
        value = "no score" if metric.score is None else format_measured(metric.name, metric.score)
        picture = draw_metric_bar(metric, metric.score, width=_BAR)
        yield Paragraph(
            (head, StyledText(f"{badge.symbol} ", badge.style), StyledText(f"{picture:<{_BAR}}  {value}")),
            indent=2,
            hang=2,
        )


def _draw_turns(metric: MetricResult) -> str:
    lowest, highest = find_bounds(metric)
    scores = [turn.score for turn in metric.per_invocation][:_BAR]
    return sparkline(scores, lowest=lowest or 0.0, highest=highest)


def _calculate_mean(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return fmean(known) if known else None


# Trajectory metrics in the dialects of ADK, Vertex AI and agentevals.


def compare_dialects(metric: str, execution: Execution, case: EvalCase, *, is_row: bool) -> Iterator[Block]:
    """Compare the dialects for a trajectory metric; empty for other metrics, or if the case has no conversation.

    `is_row`: the case is a row of a dataset.
    """
    info = find_metric_info(metric)
    if info is None or info.family != "trajectory" or not case.conversation:
        return
    from workbench.metrics.dialects import compare_dialects  # keeps the start of the screen fast

    judged = JudgedCase(case=case, expected=case.conversation, execution=execution, is_row=is_row)
    found = compare_dialects(CaseView(judged))
    yield BLANK
    yield Paragraph.from_text("the same calls in other dialects", Style.HEADING)
    if found.reason:
        yield Paragraph.from_text(f"not compared: {found.reason}", Style.MUTED, indent=2)
        return
    for comparison in found.whole_case:
        sign = StyledText("≠ ", Style.WARNING) if comparison.causes else StyledText("  ")
        yield Paragraph((sign, StyledText(comparison.question, Style.KEY)), indent=2, hang=2)
        yield Paragraph.from_text(" · ".join(rule_texts(comparison)), indent=6, hang=2)
        for cause in comparison.causes:
            yield Paragraph.from_text(cause, Style.MUTED, indent=6, hang=2)
    for policy in POLICIES:
        facts = (
            ("duplicates", policy.duplicates),
            ("empties", policy.empties),
            ("arguments", policy.arguments),
            ("several turns", policy.turns),
        )
        yield Paragraph.from_text(policy.dialect, Style.KEY, indent=2)
        for name, text in facts:
            yield Paragraph((StyledText(f"{name}  ", Style.MUTED), StyledText(text, Style.MUTED)), indent=6, hang=2)


# Scores of one case as rows, and details of the selected one.

_NEVER_RAN = (CaseStatus.SKIPPED, CaseStatus.CANCELLED)
_SHOWN_K = (2, 3, 5, 10)


class CaseScores(ItemRows[MetricResult | None]):
    """Rows of a list: the metrics with a threshold, then those that are only reported."""

    def __init__(
        self,
        result: CaseResult,
        repeats: Sequence[CaseResult],
        case: EvalCase | None = None,
        *,
        is_row: bool = False,
        notes: Sequence[str] = (),
    ) -> None:
        """Make the rows.

        `result` is the shown repeat, `repeats` are all finished ones including it. `case` has the expectations, if
        known. `is_row`: the case is a row of a dataset. `notes` are shown above the details.
        """
        self._notes = notes
        self._result = result
        self._case = case
        self._is_row = is_row
        self._repeats = [other for other in repeats if other.status not in _NEVER_RAN]
        deciding = [metric for metric in result.metrics if metric.threshold is not None]
        reported = [metric for metric in result.metrics if metric.threshold is None]
        heading: list[MetricResult | None] = [None] if reported else []
        self.rows: list[MetricResult | None] = [*deciding, *heading, *reported]
        self.move_to(0)

    def line(self, index: int, width: int) -> Line:
        metric = self.rows[index]
        if metric is None:
            return (StyledText(" only reported, no influence on the verdict", Style.MUTED),)
        return format_metric_row(metric, self._collect_scores(metric), width=width)

    def select(self, name: str) -> None:
        """Put the cursor on the metric with this name, if any."""
        for index, metric in enumerate(self.rows):
            if metric is not None and metric.name == name:
                self.cursor = index

    def blocks(self) -> list[Block]:
        """Describe the repeats, and the selected metric in detail."""
        blocks: list[Block] = [Paragraph.from_text(note, Style.WARNING) for note in self._notes]
        blocks += [BLANK] if blocks else []
        blocks += self._describe_repeats()
        failure = self._result.failure
        if failure is not None:
            blocks.append(Paragraph.from_text(f"! it ended in an error: {safe(redact(failure.message))}", Style.ERROR))
        if self.selected_row is not None:
            blocks += describe_result(self.selected_row, self._repeats)
            if self._case is not None:
                execution = self._result.execution
                blocks += compare_dialects(self.selected_row.name, execution, self._case, is_row=self._is_row)
        elif failure is None:
            blocks.append(Paragraph.from_text("No scores: no criterion applies to this case.", Style.WARNING))
        return blocks

    def text(self) -> str:
        rows = [metric for metric in self.rows if metric is not None]
        return "\n".join(
            f"{metric.name}\t{'' if metric.score is None else metric.score}\t{metric.status.value}" for metric in rows
        )

    def _describe_repeats(self) -> list[Block]:
        total = len(self._repeats)
        if total < 2:
            return []
        passed = sum(result.status is CaseStatus.PASSED for result in self._repeats)
        low, high = interval = wilson_interval(passed, total)
        pieces = [
            StyledText(f"{passed} of {total} repeats passed", Style.STRONG),
            StyledText(f" · {passed / total:.0%}, 95 % interval {low:.0%} to {high:.0%}", Style.MUTED),
        ]
        if 0 < passed < total:
            pieces.append(StyledText("  ~ flaky", Style.WARNING))
        chances = "\n".join(
            f"pass@{k} {estimate_pass_at_k(k, passed=passed, total=total):.0%}"
            f"{_format_bounds(interval.of_any(k))}  "
            f"pass^{k} {estimate_pass_all_k(k, passed=passed, total=total):.0%}{_format_bounds(interval.of_all(k))}"
            for k in sorted({*(k for k in _SHOWN_K if k < total), total})
        )
        return [Paragraph(tuple(pieces)), Paragraph.from_text(chances, Style.MUTED), BLANK]

    def _collect_scores(self, metric: MetricResult) -> Sequence[float | None]:
        if len(self._repeats) < 2:
            return [metric.score]
        return collect_scores(metric.name, self._repeats)

    def can_select(self, index: int) -> bool:
        return self.rows[index] is not None


def _format_bounds(interval: Interval) -> str:
    return f" ({interval.low:.0%}-{interval.high:.0%})"


# Explanations if there are no scores.


def describe_missing_scores(subject: Subject) -> list[Block]:
    """Explain why the selected case has no scores."""
    if subject.row is None:
        return [Paragraph.from_text("No case is selected.", Style.MUTED)]
    if subject.is_live:
        return [Paragraph.from_text("The case is running: it is judged after its last turn.", Style.RUNNING)]
    if subject.record is not None and subject.record.outcomes:
        return [Paragraph.from_text("reading the scores …", Style.MUTED)]
    if subject.record is not None and subject.record.state is CaseState.WAITING:
        return [Paragraph.from_text("The case waits for its turn to run.", Style.RUNNING)]
    return [
        Paragraph.from_text("This case has no scores: it has not run yet.", Style.STRONG),
        BLANK,
        Paragraph.from_text("r runs it; R runs everything.", Style.MUTED),
    ]


def describe_unrun_group() -> list[Block]:
    """Explain that no case of the set or target has run."""
    return [
        Paragraph.from_text("None of its cases has run yet.", Style.STRONG),
        BLANK,
        Paragraph.from_text("r runs them; R runs everything.", Style.MUTED),
    ]


def describe_unreadable_history(problem: str) -> list[Block]:
    """Explain that the history cannot be read. `problem` names the file and the error."""
    return [
        Paragraph.from_text("! The history cannot be read", Style.ERROR),
        Paragraph.from_text(safe(problem), indent=2),
        BLANK,
        Paragraph.from_text(
            "Everything else works. If a newer version wrote the file, update workbench. Or move the file away to "
            "start a new one. F5 tries again.",
            Style.MUTED,
        ),
    ]
