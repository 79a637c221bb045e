"""What a judge model was asked about each turn, how every sample answered, and word for word what was said."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.model.agreement import agreement_of
from workbench.model.results import Judgement, JudgeSample, MetricResult, RubricScore
from workbench.model.text import redact
from workbench.report.judging import agreement_text
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.pieces import Piece, Tone, safe, safe_line

_GOOD, _BAD, _NONE = ("✓", Tone.PASSED), ("✗", Tone.FAILED), ("!", Tone.WARNING)


def judgement_blocks(metric: MetricResult) -> Iterator[Block]:
    """Everything that judges said about a case; nothing where no model judged."""
    for number, turn in enumerate(metric.per_invocation, start=1):
        if turn.judgement is None:
            continue
        yield BLANK
        place = f" on turn {number}" if len(metric.per_invocation) > 1 else ""
        yield Whole.of(f"what {safe_line(turn.judgement.model)} said{place}", Tone.HEADING)
        yield _agreement(turn.judgement)
        yield from map(_rubric, turn.judgement.rubrics)
        for count, sample in enumerate(turn.judgement.samples, start=1):
            yield _sample(count, sample)
        yield from _word_for_word(turn.judgement)


def _agreement(judgement: Judgement) -> Block:
    agreement = agreement_of(judgement)
    agree = agreement is not None and agreement.share == 1.0
    return Whole.of(agreement_text(judgement), Tone.MUTED if agree else Tone.WARNING, indent=2)


def _rubric(rubric: RubricScore) -> Block:
    symbol, tone = _mark(rubric.score)
    votes = f"{rubric.yes} yes, {rubric.no} no"
    why = f"  {safe(redact(rubric.rationale))}" if rubric.rationale else ""
    pieces = (
        Piece(f"{symbol} ", tone),
        Piece(f"{safe_line(rubric.rubric_id)}  ", Tone.KEY),
        Piece(safe(redact(rubric.text))),
        Piece(f"  {votes}{why}", Tone.MUTED),
    )
    return Whole(pieces, indent=2, hang=2)


def _sample(number: int, sample: JudgeSample) -> Block:
    symbol, tone = _mark(sample.score) if sample.problem is None and sample.score is not None else ("·", Tone.MUTED)
    if sample.problem is not None:
        symbol, tone = _NONE
    elif sample.label:
        symbol, tone = safe_line(sample.label), Tone.KEY
    cached = "  cached" if sample.cached else ""
    took = "" if sample.cached or not sample.reply else f"  {sample.seconds:.2g} s"
    said = safe(redact(sample.problem or sample.rationale))
    head = Piece(f"sample {number:<3} ", Tone.KEY)
    return Whole((head, Piece(f"{symbol} ", tone), Piece(said), Piece(f"{cached}{took}", Tone.MUTED)), indent=2, hang=2)


def _word_for_word(judgement: Judgement) -> Iterator[Block]:
    texts = [(f"reply {number}", each.reply) for number, each in enumerate(judgement.samples, start=1) if each.reply]
    asked = [] if judgement.system is None else [("system instruction", judgement.system)]
    asked += [("prompt", judgement.prompt)]
    asked += [("prompt, the other way round", other) for other in _other_prompts(judgement)]
    for title, text in (*texts, *asked):
        yield Whole.of(title, Tone.KEY, indent=2)
        for line in redact(text).splitlines():
            yield Whole.of(safe(line), Tone.MUTED, indent=4)


def _other_prompts(judgement: Judgement) -> list[str]:
    """What samples were asked instead of the prompt, each once."""
    return list(dict.fromkeys(sample.prompt for sample in judgement.samples if sample.prompt is not None))


def _mark(score: float | None) -> tuple[str, Tone]:
    return _NONE if score is None else _GOOD if score == 1.0 else _BAD
