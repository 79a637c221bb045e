"""What a judge model was asked about each turn, how every sample answered, and word for word what was said."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.model.agreement import agreement_of
from workbench.model.results import Judgement, JudgeSample, MetricResult, RubricScore, SentenceScore
from workbench.model.text import redact
from workbench.report.judging import agreement_text
from workbench.tui.state.blocks import BLANK, Block, Whole
from workbench.tui.state.pieces import Piece, Tone, safe, safe_line

_GOOD, _BAD, _NONE = ("✓", Tone.PASSED), ("✗", Tone.FAILED), ("!", Tone.WARNING)
_GRADED = ("·", Tone.MUTED)  # neither good nor bad by itself, or not about one thing


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
        yield from _sentences(turn.judgement)
        yield from _failed_tries(turn.judgement)
        for count, sample in enumerate(turn.judgement.samples, start=1):
            yield _sample(count, sample, best=turn.judgement.best)
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


def _sentences(judgement: Judgement) -> Iterator[Block]:
    several = len({sentence.response for sentence in judgement.sentences}) > 1
    response = 0
    for sentence in judgement.sentences:
        if several and sentence.response != response:
            response = sentence.response
            yield Whole.of(f"response {response}", Tone.KEY, indent=2)
        yield _sentence(sentence)


def _sentence(sentence: SentenceScore) -> Block:
    symbol, tone = _mark(sentence.score)
    votes = ", ".join(f"{number} {_label(label)}" for label, number in sentence.votes.items())
    why = f"  {safe(redact(sentence.rationale))}" if sentence.rationale else ""
    evidence = f"  “{safe(redact(sentence.evidence))}”" if sentence.evidence else ""
    pieces = (
        Piece(f"{symbol} ", tone),
        Piece(f"{_label(sentence.label)}  ", Tone.KEY),
        Piece(safe(redact(sentence.sentence))),
        Piece(f"  {votes}{why}{evidence}", Tone.MUTED),
    )
    return Whole(pieces, indent=2, hang=2)


def _failed_tries(judgement: Judgement) -> Iterator[Block]:
    tries = judgement.preparation.tries if judgement.preparation is not None else ()
    for sample in tries:
        if sample.problem is not None:
            pieces = (Piece("asked first ", Tone.KEY), Piece("! ", Tone.WARNING), Piece(safe(redact(sample.problem))))
            yield Whole(pieces, indent=2, hang=2)


def _label(label: str | None) -> str:
    return "no label" if label is None else label.replace("_", " ")


def _sample(number: int, sample: JudgeSample, *, best: float | None) -> Block:
    symbol, tone = _GRADED
    said = sample.rationale
    if sample.problem is not None:
        (symbol, tone), said = _NONE, sample.problem
    elif sample.label:
        symbol, tone = safe_line(sample.label), Tone.KEY
    elif sample.score == best:
        symbol, tone = _GOOD
    elif sample.score == 0.0 and best == 1.0:
        symbol, tone = _BAD
    is_grade = not sample.label and sample.score is not None and (best != 1.0 or 0.0 < sample.score < 1.0)
    grade = f"{sample.score:.3g}  " if is_grade else ""
    cached = "  by a script" if sample.scripted else "  cached" if sample.cached else ""
    took = "" if cached or not sample.reply else f"  {sample.seconds:.2g} s"
    head = Piece(f"sample {number:<3} ", Tone.KEY)
    body = Piece(f"{grade}{safe(redact(said))}")
    return Whole((head, Piece(f"{symbol} ", tone), body, Piece(f"{cached}{took}", Tone.MUTED)), indent=2, hang=2)


def _word_for_word(judgement: Judgement) -> Iterator[Block]:
    texts = [(f"reply {number}", each.reply) for number, each in enumerate(judgement.samples, start=1) if each.reply]
    if judgement.system is not None:
        texts.append(("system instruction", judgement.system))
    if judgement.prompt:
        texts.append(("prompt", judgement.prompt))
    texts += [("prompt, the other way round", other) for other in _other_prompts(judgement)]
    if judgement.preparation is not None:
        tries = enumerate(judgement.preparation.tries, start=1)
        texts += [(f"reply {number} to what was asked first", each.reply) for number, each in tries if each.reply]
        texts.append(("prompt of what was asked first", judgement.preparation.prompt))
    for title, text in texts:
        yield Whole.of(title, Tone.KEY, indent=2)
        for line in redact(text).splitlines():
            yield Whole.of(safe(line), Tone.MUTED, indent=4)


def _other_prompts(judgement: Judgement) -> list[str]:
    """What samples were asked instead of the prompt, each once."""
    return list(dict.fromkeys(sample.prompt for sample in judgement.samples if sample.prompt is not None))


def _mark(score: float | None) -> tuple[str, Tone]:
    return _NONE if score is None else _GOOD if score == 1.0 else _BAD
