"""One metric as a row and in detail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean, stdev

from rich.cells import cell_len

from workbench.model.agreement import is_unsure
from workbench.model.results import CaseResult, MetricResult
from workbench.model.text import counted, redact
from workbench.report.explain import folded_details
from workbench.report.judging import samples_text
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.charts import bar, share_of, sparkline
from workbench.tui.state.layout import fit
from workbench.tui.state.pieces import Line, Piece, Tone, safe, safe_line
from workbench.tui.state.scores.judgement_lines import judgement_blocks
from workbench.tui.state.scores.meaning import info_of, meaning_blocks
from workbench.tui.state.standing import look_of_metric
from workbench.tui.state.value_tree import value_blocks

_WORD = 9  # cells of the longest word for a status but "informational", which has a heading of its own
_SCORE = 15
_BAR = 12
_BAR_FROM = 58  # cells of a row that has room for a bar
_TURNS_FROM = 84  # and for the scores of the turns
_DETAIL_BAR = 30


def metric_row(metric: MetricResult, repeats: Sequence[float | None], *, width: int) -> Line:
    """Status, name, bar with threshold, score; of several `repeats` their mean and deviation."""
    look = look_of_metric(metric.status)
    is_reported = metric.threshold is None
    lead = f" {look.symbol} " if is_reported else f" {look.symbol} {look.word:<{_WORD}} "
    score = f"{score_text(metric, repeats):>{_SCORE}} "
    middle: list[Piece] = []
    if width >= _TURNS_FROM and len(metric.per_invocation) > 1:
        middle.append(Piece(f"  {_turns_picture(metric)}", Tone.KEY))
    if width >= _BAR_FROM:
        middle.append(Piece(f"  {metric_bar(metric, _mean(repeats), width=_BAR) or ' ' * _BAR}", look.tone))
    used = cell_len(lead) + sum(cell_len(piece.text) for piece in middle) + len(score)
    name = fit((Piece(safe_line(metric.name), Tone.STRONG if not is_reported else Tone.TEXT),), max(width - used, 8))
    gap = max(width - used - sum(cell_len(piece.text) for piece in name), 0)
    return (Piece(lead, look.tone), *name, Piece(" " * gap), *middle, Piece(score, look.tone))


def score_text(metric: MetricResult, repeats: Sequence[float | None]) -> str:
    """The score held against its threshold; of several repeats mean and deviation."""
    known = [score for score in repeats if score is not None]
    if len(repeats) > 1 and known:
        spread = f" ±{stdev(known):.2g}" if len(known) > 1 else ""
        return f"{fmean(known):.3g}{spread}"
    if metric.score is None:
        return "no score"
    if metric.threshold is None:
        return f"{metric.score:.4g}"
    return f"{metric.score:.4g} / {metric.threshold:.4g}"


def metric_bar(metric: MetricResult, score: float | None, *, width: int) -> str:
    """The score within the bounds of the metric, its threshold marked; nothing where it has no bounds or score."""
    lowest, highest = bounds_of(metric)
    share = None if score is None else share_of(score, lowest, highest)
    if share is None:
        return ""
    mark = None if metric.threshold is None else share_of(metric.threshold, lowest, highest)
    return bar(share, width=width, mark=mark)


def bounds_of(metric: MetricResult) -> tuple[float | None, float | None]:
    """The lowest and the highest score that there can be, None where there is no bound."""
    judgement = next((turn.judgement for turn in metric.per_invocation if turn.judgement is not None), None)
    info = info_of(metric.name)
    if info is not None:
        return info.lowest, info.highest
    return (0.0, 1.0) if judgement is None else (judgement.lowest, judgement.best)


def metric_blocks(metric: MetricResult, repeats: Sequence[CaseResult]) -> Iterator[Block]:
    """Everything about one metric of a case: verdict, reasons, turns, repeats, details, what it means."""
    look = look_of_metric(metric.status)
    unsure = (Piece("  ~ unsure: the samples of the judge disagree", Tone.WARNING),) if is_unsure(metric) else ()
    head = (Piece(safe_line(metric.name), Tone.HEADING), Piece(f"  {look.symbol} {look.word}", look.tone))
    samples = samples_text(metric)
    missing = () if samples is None else (Piece(f"  ~ {samples}", Tone.WARNING),)
    yield Whole((*head, *unsure, *missing))
    yield Whole.of(_verdict(metric), indent=2, hang=2)
    if picture := metric_bar(metric, metric.score, width=_DETAIL_BAR):
        yield Whole.of(picture, look.tone, indent=2)
    for name, text in (("why", metric.reason), ("hint", metric.hint)):
        if text:
            yield Whole((Piece(f"{name}  ", Tone.KEY), Piece(safe(redact(text)))), indent=2, hang=2)
    yield from _turn_blocks(metric)
    yield from judgement_blocks(metric)
    if len(repeats) > 1:
        yield from _repeat_blocks(metric.name, repeats)
    if metric.details:
        yield BLANK
        yield Whole.of("details", Tone.HEADING)
        yield from value_blocks(folded_details(metric), indent=2)
    yield BLANK
    yield Whole.of("what it means", Tone.HEADING)
    yield from meaning_blocks(metric.name)


def scores_over(name: str, repeats: Sequence[CaseResult]) -> list[float | None]:
    """The score of one metric in each repeat."""
    return [next((metric.score for metric in result.metrics if metric.name == name), None) for result in repeats]


def _verdict(metric: MetricResult) -> str:
    if metric.score is None:
        return "there is no score"
    text = f"score {metric.score:.6g}"
    if metric.threshold is not None:
        info = info_of(metric.name)
        need = "at most" if info is not None and info.lower_is_better else "at least"
        text += f", needs {need} {metric.threshold:.6g}"
    scored = f"; a score for {metric.scored} of {counted(metric.total, 'turn')}" if metric.scored < metric.total else ""
    return text + scored


def _turn_blocks(metric: MetricResult) -> Iterator[Block]:
    if not metric.per_invocation:
        return
    yield BLANK
    yield Whole.of("turn by turn", Tone.HEADING)
    for number, turn in enumerate(metric.per_invocation, start=1):
        value = "no score" if turn.score is None else f"{turn.score:.4g}"
        picture = metric_bar(metric, turn.score, width=_BAR)
        notes = "  ".join(safe(redact(note)) for note in (turn.reason, turn.hint) if note)
        pieces = [Piece(f"turn {number:<3} ", Tone.KEY), Piece(f"{picture:<{_BAR}}  {value:<8}")]
        yield Whole((*pieces, Piece(notes, Tone.MUTED)), indent=2, hang=2)


def _repeat_blocks(name: str, repeats: Sequence[CaseResult]) -> Iterator[Block]:
    yield BLANK
    yield Whole.of("repeat by repeat", Tone.HEADING)
    for result in repeats:
        metric = next((metric for metric in result.metrics if metric.name == name), None)
        head = Piece(f"repeat {result.repeat + 1:<3} ", Tone.KEY)
        if metric is None:
            yield Whole((head, Piece("not judged", Tone.MUTED)), indent=2)
            continue
        look = look_of_metric(metric.status)
        value = "no score" if metric.score is None else f"{metric.score:.4g}"
        picture = metric_bar(metric, metric.score, width=_BAR)
        yield Whole((head, Piece(f"{look.symbol} ", look.tone), Piece(f"{picture:<{_BAR}}  {value}")), indent=2, hang=2)


def _turns_picture(metric: MetricResult) -> str:
    lowest, highest = bounds_of(metric)
    scores = [turn.score for turn in metric.per_invocation][:_BAR]
    return sparkline(scores, lowest=lowest or 0.0, highest=highest)


def _mean(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return fmean(known) if known else None
