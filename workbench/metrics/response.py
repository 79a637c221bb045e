"""Metrics on the final response: `response_match_score` (ADK's), ROUGE, BLEU and equality.

`response_match_score` is ROUGE-1 F1 by the definition of google-adk 2.13 (`evaluation/final_response_match_v1.py`):
Unicode tokenizer, Porter stemmer, thoughts included, 0 if there is nothing to compare. A hint says if that is
misleading. The other metrics use rouge-score and sacrebleu, ignore thoughts, and are undefined if there is nothing to
compare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from workbench.metrics.case_view import Turn
from workbench.metrics.metric_types import Definition, Judge, MetricInfo, Options, TextJudge, TextQuestion, TurnJudge
from workbench.metrics.text_process import BLEU_TOKENIZERS, ROUGE_TOKENIZERS, Measure, TextScore, TextTask
from workbench.model.evalset import Content
from workbench.model.results import Score

RESPONSE_MATCH = "response_match_score"
_NO_REFERENCE = Score.undefined("the case expects no response")
_NO_COLUMN = Score.undefined("the row has no reference")
_NO_RESPONSE = Score.undefined("the row has no response")


def ask_response_match(turn: Turn) -> TextQuestion | Score:
    """Ask for ROUGE-1 F1 as in ADK, in [0, 1]. If there are thoughts, ask again without them, for the hint."""
    actual, expected = _find_responses(turn)
    if expected is None and turn.is_row:
        return _NO_COLUMN
    if actual is None and turn.is_recorded:
        return _NO_RESPONSE
    texts = [(_read_text(actual, thoughts=True), _read_text(expected, thoughts=True))]
    if _has_thoughts(actual) or _has_thoughts(expected):
        texts.append((_read_text(actual, thoughts=False), _read_text(expected, thoughts=False)))
    tasks = [TextTask("response_match", candidate, reference) for candidate, reference in texts]
    return TextQuestion(tasks, partial(_read_response_match, texts[0]))


def _read_response_match(texts: tuple[str, str], answers: Sequence[TextScore]) -> Score:
    score = answers[0]
    return Score(score.value, hint=_explain_response_match(texts, answers))


def _explain_response_match(texts: tuple[str, str], answers: Sequence[TextScore]) -> str | None:
    score = answers[0]
    if not any(texts):
        return "Both responses are empty, which ADK scores as 0."
    if not texts[1]:
        return "The case expects no text, which ADK scores as 0."
    if not score.candidate_units and not score.reference_units:
        same = "The responses are equal, but have" if texts[0] == texts[1] else "The responses have"
        return f"{same} no word that ROUGE counts (only signs or emoji), which ADK scores as 0."
    if len(answers) > 1 and answers[1].value != score.value:
        return f"ADK counts thoughts as part of the response; without them the score is {answers[1].value:.3g}."
    return None


def ask_overlap(turn: Turn, task: TextTask) -> TextQuestion | Score:
    """Ask for ROUGE or BLEU of the response without thoughts, in [0, 1]; undefined if neither text has a unit."""
    texts = _read_texts(turn)
    if isinstance(texts, Score):
        return texts
    candidate, reference = texts
    filled = task._replace(candidate=candidate, reference=reference)
    return TextQuestion([filled], partial(_read_overlap, filled))


def _read_overlap(task: TextTask, answers: Sequence[TextScore]) -> Score:
    score = answers[0]
    if not score.candidate_units and not score.reference_units:
        what = "pair of words" if task.measure == "rouge_2" else "word"
        return Score.undefined(f"neither text has a {what} to compare")
    if task.measure == "bleu" and not task.effective_order and min(score[1:]) < 4 and score.value < 1.0:
        return Score(score.value, hint="A text of fewer than four words scores near 0 without effective_order.")
    return Score(score.value)


def exact_match(turn: Turn, *, ignore_case: bool, ignore_whitespace: bool) -> Score:
    """Return 1 if the response without thoughts is the expected text, else 0."""
    texts = _read_texts(turn)
    if isinstance(texts, Score):
        return texts
    if ignore_whitespace:
        texts = (" ".join(texts[0].split()), " ".join(texts[1].split()))
    if ignore_case:
        texts = (texts[0].casefold(), texts[1].casefold())
    return Score(1.0 if texts[0] == texts[1] else 0.0)


def _read_texts(turn: Turn) -> tuple[str, str] | Score:
    """Return the texts of both responses without thoughts, or an undefined score if one is missing."""
    actual, expected = _find_responses(turn)
    if expected is None:
        return _NO_COLUMN if turn.is_row else _NO_REFERENCE
    if actual is None and turn.is_recorded:
        return _NO_RESPONSE
    return _read_text(actual, thoughts=False), _read_text(expected, thoughts=False)


def _find_responses(turn: Turn) -> tuple[Content | None, Content | None]:
    actual = None if turn.actual is None else turn.actual.final_response
    return actual, None if turn.expected is None else turn.expected.final_response


def _read_text(content: Content | None, *, thoughts: bool) -> str:
    return "" if content is None else content.text(thoughts=thoughts)


def _has_thoughts(content: Content | None) -> bool:
    return content is not None and any(part.thought and part.text for part in content.parts or ())


def _prepare_response_match(_options: Options) -> Sequence[Judge]:
    return [TextJudge(name=RESPONSE_MATCH, ask=ask_response_match)]


def _prepare_rouge(options: Options, measure: Measure) -> Sequence[Judge]:
    task = TextTask(
        measure,
        "",
        "",
        stemmer=options.flag("stemmer"),
        tokenizer=options.choice("tokenizer", ROUGE_TOKENIZERS, default="unicode"),
    )
    return [TextJudge(name=options.metric, ask=partial(ask_overlap, task=task))]


def _prepare_bleu(options: Options) -> Sequence[Judge]:
    task = TextTask(
        "bleu",
        "",
        "",
        tokenizer=options.choice("tokenizer", BLEU_TOKENIZERS, default="auto"),
        effective_order=options.flag("effective_order", default=True),
    )
    return [TextJudge(name=options.metric, ask=partial(ask_overlap, task=task))]


def _prepare_exact_match(options: Options) -> Sequence[Judge]:
    score = partial(
        exact_match, ignore_case=options.flag("ignore_case"), ignore_whitespace=options.flag("ignore_whitespace")
    )
    return [TurnJudge(name=options.metric, score=score)]


_ROUGE_OPTIONS = {
    "stemmer": "compare English words by their stem (default false)",
    "tokenizer": "unicode (default): words of every script, single characters where there are no spaces; rouge_score: "
    "ASCII letters and digits only",
}
_ROUGE_CHOICES: Mapping[str, Sequence[str | bool]] = {"stemmer": (False, True), "tokenizer": ROUGE_TOKENIZERS}


def _define_rouge(measure: Measure, *, purpose: str, when: str) -> Definition:
    info = MetricInfo(
        name=measure,
        family="response",
        purpose=purpose,
        when=when,
        needs=frozenset({"text"}),
        options=_ROUGE_OPTIONS,
        choices=_ROUGE_CHOICES,
    )
    return Definition(info=info, prepare=partial(_prepare_rouge, measure=measure))


METRICS = (
    Definition(
        info=MetricInfo(
            name=RESPONSE_MATCH,
            family="response",
            purpose="How many words the response shares with the expected one (ROUGE-1 F1), as ADK scores it.",
            when="The wording of the answer is more or less fixed.",
            needs=frozenset({"text"}),
        ),
        prepare=_prepare_response_match,
    ),
    _define_rouge(
        "rouge_1", purpose="Single words shared with the expected response (F1).", when="Content, not order."
    ),
    _define_rouge(
        "rouge_2", purpose="Pairs of words shared with the expected response (F1).", when="Phrasing matters."
    ),
    _define_rouge("rouge_l", purpose="The longest common sequence of words (F1).", when="The order of words matters."),
    _define_rouge(
        "rouge_l_sum",
        purpose="The longest common sequences, line by line (F1).",
        when="Summaries of several lines.",
    ),
    Definition(
        info=MetricInfo(
            name="bleu",
            family="response",
            purpose="How much of the response, up to four words at a time, is in the expected one (BLEU).",
            when="Translations, or texts close to a template.",
            needs=frozenset({"text"}),
            options={
                "effective_order": "count only the lengths that a short text has (default true; Vertex: false)",
                "tokenizer": "auto (default): 13a, with characters of scripts without spaces apart; or 13a, intl, "
                "char, zh",
            },
            choices={"effective_order": (True, False), "tokenizer": BLEU_TOKENIZERS},
        ),
        prepare=_prepare_bleu,
    ),
    Definition(
        info=MetricInfo(
            name="exact_match",
            family="response",
            purpose="Whether the response is the expected text.",
            when="There is one right answer: a number, a code, a name.",
            options={
                "ignore_case": "ignore case (default false)",
                "ignore_whitespace": "treat runs of blanks and line breaks as one blank (default false)",
            },
            choices={"ignore_case": (False, True), "ignore_whitespace": (False, True)},
        ),
        prepare=_prepare_exact_match,
    ),
)
